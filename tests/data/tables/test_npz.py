from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import ArgumentError, DataError

X = np.array([[1.0, 2], [3, 4], [5, 6]])
TRAIN = np.array([[True, True, False], [False, True, True]])


def saved(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_the_names_of_published_benchmarks(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.npz",
        node_features=X,
        node_labels=np.array([5, 3, 5]),
        edges=np.array([[0, 1], [2, 1]]),
        train_masks=TRAIN,
        val_masks=np.zeros_like(TRAIN),
        test_masks=~TRAIN,
    )
    file = read_graphs(path)
    assert file.graphs[0].edge_index.tolist() == [[0, 2], [1, 1]]
    assert file.graphs[0].x.tolist() == X.tolist()
    assert file.labels is not None
    assert file.labels.tolist() == [1, 0, 1]
    assert file.classes == ("3", "5")
    assert [split.train.tolist() for split in file.splits] == [[0, 1], [1, 2]]
    assert [split.test.tolist() for split in file.splits] == [[2], [0]]
    assert list(file.ids) == [0, 1, 2]
    assert file.task().num_features == 2


def test_the_names_of_pyg(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.npz",
        x=X[:, :1],
        y=np.array([0.0, np.nan, 1.0]),
        edge_index=np.array([[0, 2], [1, 1]], dtype=np.int32),
        edge_weight=np.array([1, 2]),
        train_mask=TRAIN.T,
    )
    file = read_graphs(path, TableOptions(allow_unseen=True))
    assert file.graphs[0].edge_index.tolist() == [[0, 2], [1, 1]]
    assert file.graphs[0].edge_weight.tolist() == [1, 2]
    assert file.labels is not None
    assert file.labels.tolist() == [0, -1, 1]
    assert [split.train.tolist() for split in file.splits] == [[0, 1], [1, 2]]


def test_labels_that_are_text(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "a.npz", x=X, y=np.array(["b", "a", ""]), edges=np.zeros((0, 2), dtype=int)
    )
    file = read_graphs(path)
    assert file.classes == ("a", "b")
    assert file.labels is not None
    assert file.labels.tolist() == [1, 0, -1]


def test_a_schema_of_arrays(tmp_path: Path) -> None:
    edges = np.array([[0, 1]])
    train = saved(tmp_path / "a.npz", x=X, y=np.array([0, 1, 1]), edges=edges)
    options = TableOptions(standardize=True, degree=True, directed=False)
    schema = read_graphs(train, options).schema
    new = saved(tmp_path / "b.npz", x=X + 2, edges=edges)
    file = read_graphs(new, schema=schema)
    assert file.labels is None
    assert file.graphs[0].edge_index.tolist() == [[0, 1], [1, 0]]
    # Means 3 and 4, deviations sqrt(8/3); of the degrees 1, 1, 0: mean 2/3, deviation sqrt(2)/3.
    expected = torch.tensor((X + 2 - [3, 4]) / (8 / 3) ** 0.5).float()
    torch.testing.assert_close(file.graphs[0].x[:, :2], expected)
    degrees = torch.tensor([1 / 2**0.5, 1 / 2**0.5, -(2**0.5)])
    torch.testing.assert_close(file.graphs[0].x[:, 2], degrees)
    with pytest.raises(DataError, match=r"those of training, 2 columns \(got 1"):
        read_graphs(saved(tmp_path / "c.npz", x=X[:, :1], edges=edges), schema=schema)
    with pytest.raises(DataError, match=r"trained on \(got '7'\)"):
        read_graphs(saved(tmp_path / "d.npz", x=X, y=[0, 1, 7], edges=edges), schema=schema)


def test_options_that_name_columns_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npz", x=X, y=[0, 1, 1], edges=np.array([[0, 1]]))
    with pytest.raises(ArgumentError, match=r"got \['label'\]"):
        read_graphs(path, TableOptions(label="y"))
