"""Tiny datasets written to disk as their publishers write them, and entries that expect them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mgnni.data.catalog import ENTRIES
from mgnni.data.entry import Counts

# Four pages: a directed path with a way back from the last to the first, and a self-loop.
X = [[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1]]
Y = [0, 1, 1, 0]
EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 2)]
# The part of each node in ten splits: one for training, two for validation, one for the test.
PARTS = [(index % 4, (index + 1) % 4, (index + 2) % 4, (index + 3) % 4) for index in range(10)]


def expect(monkeypatch: pytest.MonkeyPatch, name: str, **counts: int) -> None:
    """Let the catalog expect other counts of a dataset."""
    entry = ENTRIES[name]
    unknown = Counts(*[None] * len(Counts._fields))
    monkeypatch.setitem(ENTRIES, name, replace(entry, counts=unknown._replace(**counts)))


def masks() -> dict[str, np.ndarray[Any, Any]]:
    """Masks of shape ``(10, 4)``: node ``PARTS[i][0]`` trains, the last tests, two validate."""
    places = {"train": slice(0, 1), "val": slice(1, 3), "test": slice(3, 4)}
    found = {part: np.zeros((10, 4), dtype=bool) for part in places}
    for index, nodes in enumerate(PARTS):
        for part, place in places.items():
            found[part][index, list(nodes[place])] = True
    return found


def write_geom_gcn(folder: Path, key: str) -> None:
    """Write the four pages as Geom-GCN's text files."""
    raw = folder / "raw"
    raw.mkdir(parents=True)
    lines = ["node_id\tfeature\tlabel"]
    lines += [
        f"{i}\t{','.join(map(str, x))}\t{y}" for i, (x, y) in enumerate(zip(X, Y, strict=True))
    ]
    (raw / "out1_node_feature_label.txt").write_text("\n".join(lines) + "\n")
    lines = ["node_id\tnode_id", *(f"{a}\t{b}" for a, b in EDGES)]
    (raw / "out1_graph_edges.txt").write_text("\n".join(lines) + "\n")
    for index in range(10):
        parts = {f"{part}_mask": rows[index] for part, rows in masks().items()}
        np.savez(raw / f"{key}_split_0.6_0.2_{index}.npz", **parts)


def write_npz(path: Path, edges: Sequence[tuple[int, int]] = EDGES) -> None:
    """Write the four pages as Platonov et al. do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(
        path,
        node_features=np.array(X, dtype=np.float32),
        node_labels=np.array(Y),
        edges=np.array(edges),
        **{f"{part}_masks": rows for part, rows in masks().items()},
    )


def write_tu(root: Path, key: str, sizes: Sequence[int], node_labels: bool) -> None:
    """Write cycles of these sizes as TU files; odd and even ones alternate in class.

    The label of a node is its place in its cycle, modulo 3.
    """
    raw = root / "tu" / key / "raw"
    raw.mkdir(parents=True)
    edges, owner, labels, start = [], [], [], 1  # TU counts from 1
    for graph, size in enumerate(sizes, start=1):
        for place in range(size):
            a, b = start + place, start + (place + 1) % size
            edges += [f"{a}, {b}", f"{b}, {a}"]
            owner.append(str(graph))
            labels.append(str(place % 3))
        start += size
    classes = [str(1 + graph % 2) for graph in range(len(sizes))]
    files = {"A": edges, "graph_indicator": owner, "graph_labels": classes}
    if node_labels:
        files["node_labels"] = labels
    for name, lines in files.items():
        (raw / f"{key}_{name}.txt").write_text("\n".join(lines) + "\n")


def write_gin_folds(folder: Path, num_graphs: int, tested: int) -> None:
    """Write ten folds; each tests on ``tested`` graphs in a row, so that some may be in none."""
    folder.mkdir(parents=True)
    for number in range(10):
        test = range(number * tested, (number + 1) * tested)
        train = [graph for graph in range(num_graphs) if graph not in test]
        for part, graphs in (("train", train), ("test", test)):
            text = "\n".join(map(str, graphs))
            (folder / f"{part}_idx-{number + 1}.txt").write_text(text + "\n")
