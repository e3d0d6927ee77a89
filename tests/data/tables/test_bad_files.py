"""Bad .npz and .pt files: one line that names the file, the problem and a remedy."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData

from data.tables.refusals import npz, refused

ARRAYS = {
    "x": np.ones((3, 2), np.float32),
    "y": np.array([0, 1, 1]),
    "edge_index": np.array([[0, 1], [1, 2]]),
}
MASK = np.array([True, False, True])
FILES: dict[str, tuple[str, bytes, str]] = {
    "wrong suffix": ("a.xlsx", b"PK", r": .*\.npz or \.pt.*'.xlsx'"),
    "a single table": ("a.csv", b"id,label\n", r": .*nodes.csv and edges.csv.*one table"),
    "npz of junk": ("a.npz", b"junk" * 99, r": must hold plain arrays.*pickled"),
    "npz that is cut": ("a.npz", npz(**ARRAYS)[:-30], r": must hold plain arrays"),
    "empty npz": ("a.npz", b"", r": must hold plain arrays"),
    "npz without edges": ("a.npz", npz(x=ARRAYS["x"], y=ARRAYS["y"]), r": must hold edges"),
    "npz without labels": (
        "a.npz",
        npz(x=ARRAYS["x"], edge_index=ARRAYS["edge_index"]),
        r": must hold labels",
    ),
    "npz with nothing": ("a.npz", npz(a=np.ones(1)), r": must hold nodes"),
    "two arrays of features": (
        "a.npz",
        npz(**ARRAYS, node_features=ARRAYS["x"]),
        r": .*'node_features', 'x'",
    ),
    "dangling edge": (
        "a.npz",
        npz(**{**ARRAYS, "edge_index": np.array([[0, 1], [1, 3]])}),
        r", edge 1 \(from 0\): .*0 to 2 \(got \[1, 3\]\)",
    ),
    "edges of the wrong shape": (
        "a.npz",
        npz(x=ARRAYS["x"], y=ARRAYS["y"], edge_index=np.zeros((3, 2), int)),
        r": edge_index must be integers of shape \(2, edges\)",
    ),
    "edges that are floats": (
        "a.npz",
        npz(**{**ARRAYS, "edge_index": np.zeros((2, 2))}),
        r": edge_index must be integers",
    ),
    "nan feature": (
        "a.npz",
        npz(**{**ARRAYS, "x": np.array([[0.0, 1], [1, np.nan], [2, 2]])}),
        r", node 1 \(from 0\): .*nan for feature 1",
    ),
    "text features": ("a.npz", npz(**{**ARRAYS, "x": np.array([["a"]] * 3)}), r": features must"),
    "nan edge weight": (
        "a.npz",
        npz(**ARRAYS, edge_weight=np.array([1.0, np.nan])),
        r", edge 1 \(from 0\): edge_weight",
    ),
    "too few weights": (
        "a.npz",
        npz(**ARRAYS, edge_weight=np.ones(1)),
        r": edge_weight .*per edge, 2 \(got 1 ",
    ),
    "too few labels": (
        "a.npz",
        npz(**{**ARRAYS, "y": np.array([0, 1])}),
        r": y must have 3 labels",
    ),
    "measured labels": (
        "a.npz",
        npz(**{**ARRAYS, "y": np.array([0.5, 1.25, 2])}),
        r": .*--task regression",
    ),
    "one class in arrays": ("a.npz", npz(**{**ARRAYS, "y": np.zeros(3, int)}), r": .*two classes"),
    "labels beyond 0 and 1": (
        "a.npz",
        npz(**{**ARRAYS, "y": np.array([[0, 1], [1, 0], [2, 0]])}),
        r", row 2 \(from 0\): y must be 0 or 1.*got 2 for label 0",
    ),
    "overlapping mask arrays": (
        "a.npz",
        npz(**ARRAYS, train_mask=MASK, test_mask=MASK),
        r", split 0 \(from 0\): .*overlap.*unit 0 in train and test",
    ),
    "masks of the wrong size": (
        "a.npz",
        npz(**ARRAYS, train_mask=MASK, test_mask=MASK[:2]),
        r": masks .*one row per node, 3.*shape \(2,\) for test_mask",
    ),
    "features without rows": (
        "a.npz",
        npz(**{**ARRAYS, "x": np.zeros((0, 2))}),
        r": must hold nodes .*give 0 nodes",
    ),
    "features that are one number": (
        "a.npz",
        npz(x=np.float32(1), y=[[0, 1]], edge_index=np.zeros((2, 0), int)),
        r": features must .*shape \(\)",
    ),
    "fewer rows of features than labels": (
        "a.npz",
        npz(**{**ARRAYS, "x": np.ones((2, 2)), "edge_index": np.zeros((2, 0), int)}),
        r": y must have 2 labels.*shape \(3,\)",
    ),
    "a mask that is one number": (
        "a.npz",
        npz(**ARRAYS, train_mask=np.bool_(True)),
        r": masks .*per node, 3.*shape \(\) for train_mask",
    ),
    "masks with other numbers of splits": (
        "a.npz",
        npz(**ARRAYS, train_mask=np.ones((3, 2), bool), val_mask=np.zeros((3, 1), bool)),
        r": masks .*shape \(3, 1\) for val_mask",
    ),
    "text as a mask": (
        "a.npz",
        npz(**ARRAYS, train_mask=np.array(["yes", "no", "no"])),
        r": masks must be booleans .*<U3 .*for train_mask",
    ),
    "text as weights": (
        "a.npz",
        npz(**ARRAYS, edge_weight=np.array(["a", "b"])),
        r": edge_weight .*<U1",
    ),
    "text as a matrix of labels": (
        "a.npz",
        npz(**{**ARRAYS, "y": np.array([["a", "b"]] * 3)}),
        r": y must hold 0 and 1 .*<U1",
    ),
    "infinite labels": (
        "a.npz",
        npz(**{**ARRAYS, "y": np.array([0.0, 1.0, np.inf])}),
        r": y must have 3 labels",
    ),
    "pt of junk": ("a.pt", b"junk" * 99, r": must hold a PyG Data"),
    "empty pt": ("a.pt", b"", r": must hold a PyG Data"),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_files(case: str, tmp_path: Path) -> None:
    name, content, pattern = FILES[case]
    path = tmp_path / name
    path.write_bytes(content)
    message = refused(path, tmp_path)
    assert re.search(pattern, message.removeprefix(str(path))), message


def saved(path: Path, value: object) -> Path:
    torch.save(value, path)
    return path


GRAPH = Data(
    x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0, 1, 1])
)
OBJECTS: dict[str, tuple[object, str]] = {
    "a number": (3, r": must be a torch_geometric.data.Data.*got int"),
    "an empty list": ([], r": must hold a graph \(got an empty list\)"),
    "a list of numbers": ([GRAPH, 3], r", graph 1 \(from 0\): .*got int"),
    "a graph of many kinds": (HeteroData(), r": must hold a PyG Data.*BaseStorage"),
    "text for features": ({**GRAPH.to_dict(), "x": "hello"}, r": x must be a dense tensor.*str"),
    "sparse features": (
        {**GRAPH.to_dict(), "x": torch.eye(3).to_sparse()},
        r": x must be a dense tensor.*sparse_coo",
    ),
    "an empty dict": ({}, r": must hold x, edge_index and y"),
    "features in a type without a NumPy counterpart": (
        {**GRAPH.to_dict(), "x": torch.ones(3, 2).to(torch.float8_e4m3fn)},
        r": x must be a tensor that NumPy supports .*float8",
    ),
    "fewer features than nodes": (
        {**GRAPH.to_dict(), "num_nodes": 4},
        r": x must have one row per node, 4 \(got 3\)",
    ),
    "labels of two forms": (
        [
            {**GRAPH.to_dict(), "y": torch.tensor([[0, 1]])},
            {**GRAPH.to_dict(), "y": torch.tensor([1])},
        ],
        r", graph 1 \(from 0\): y must .*\(1,\) after .*\(1, 2\)",
    ),
    "labels that fit nothing": (
        [GRAPH, {**GRAPH.to_dict(), "y": torch.tensor([0, 1])}],
        r", graph 1 \(from 0\): y must have one label for the graph or one per node \(got 2",
    ),
    "widths that differ": (
        [GRAPH, {**GRAPH.to_dict(), "x": torch.ones(3, 1)}],
        r", graph 1 \(from 0\): features must .*\(3, 1\)",
    ),
}


@pytest.mark.parametrize("case", OBJECTS)
def test_bad_objects(case: str, tmp_path: Path) -> None:
    value, pattern = OBJECTS[case]
    path = saved(tmp_path / "a.pt", value)
    message = refused(path, tmp_path)
    assert re.search(pattern, message.removeprefix(str(path))), message


class Evil:
    """Makes a folder when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


@pytest.mark.parametrize("how", ["saved", "pickled", "inside a Data", "as an attribute's value"])
def test_a_malicious_pt_runs_nothing(how: str, tmp_path: Path) -> None:
    marker, path = tmp_path / "ran", tmp_path / "a.pt"
    evil: object = Evil(marker)
    if how == "inside a Data":
        evil = Data(x=torch.ones(1, 1), note=evil)
    if how == "as an attribute's value":
        evil = {**GRAPH.to_dict(), "x": evil}
    if how == "pickled":
        path.write_bytes(pickle.dumps(evil))
    else:
        torch.save(evil, path)
    message = refused(path, tmp_path)
    assert not marker.exists()
    assert "no code of a file is run" in message
    # It would have run: the file is not harmless by accident.
    pickle.loads(path.read_bytes()) if how == "pickled" else torch.load(path, weights_only=False)
    assert marker.exists()


def test_a_malicious_npz_runs_nothing(tmp_path: Path) -> None:
    marker, path = tmp_path / "ran", tmp_path / "a.npz"
    np.savez(path, **{**ARRAYS, "x": np.array([Evil(marker)], dtype=object)})
    assert "no objects" in refused(path, tmp_path)
    assert not marker.exists()
    with np.load(path, allow_pickle=True) as file:
        file["x"]
    assert marker.exists()


def test_a_pickle_named_npz_runs_nothing(tmp_path: Path) -> None:
    marker, path = tmp_path / "ran", tmp_path / "a.npz"
    path.write_bytes(pickle.dumps(Evil(marker)))
    assert "plain arrays" in refused(path, tmp_path)
    assert not marker.exists()


def test_a_missing_path(tmp_path: Path) -> None:
    message = refused(tmp_path / "nowhere", tmp_path)
    assert "no such file" in message
