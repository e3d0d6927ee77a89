"""Graph classification on the collection of TU Dortmund, in ten folds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset
from torch_geometric.utils import degree as node_degree

from mgnni.data.entry import Entry
from mgnni.data.fetch import damaged, fetching
from mgnni.data.folds import stratified_folds, stratified_holdout
from mgnni.data.gin_folds import FOLDS, read_gin_folds
from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.errors import ArgumentError, DataError, check_choice

DEGREES = ("column", "onehot")


def load_tu(
    entry: Entry, root: Path, *, val_fraction: float = 0.1, degree: str | None = None
) -> Task:
    """Load graphs with their node labels as features, or their degrees if there are none.

    Folds are those of the GIN paper if they are on the disk (``gin_folds/NAME``), else stratified
    ones of our own; the notes of the task say which.

    Args:
        entry: which.
        root: the folder of all datasets.
        val_fraction: part of each training fold that is held out for validation, of each class
            alike; with 0 there is no validation part, as in GIN.
        degree: how the degree is fed where there are no node labels: ``"column"``, the default,
            in one column, or ``"onehot"``, a column for each degree that occurs, as in GIN.
    """
    with fetching(entry, root):
        graphs = list(TUDataset(str(root / "tu"), entry.key))
    if any(graph.y is None for graph in graphs):
        raise DataError(damaged(entry, root, "graphs without a label"))
    labels = torch.cat([graph.y for graph in graphs])
    has_labels = any(file.endswith("_node_labels.txt") for file in entry.copies[0])
    if has_labels and degree is not None:
        raise ArgumentError(
            f"'degree' is for graphs without node labels (got {degree!r} for {entry.name}, which "
            "has them); leave it out"
        )
    if has_labels and any(graph.x is None for graph in graphs):
        raise DataError(damaged(entry, root, "nodes without a label"))
    if not has_labels:
        _add_degrees(graphs, check_choice("degree", degree or "column", DEGREES))

    folds, notes = _folds(entry, root, labels)
    splits = []
    for number, (train, test) in enumerate(folds):
        held = stratified_holdout(labels[train], val_fraction, seed=number)
        kept = torch.ones(train.numel(), dtype=torch.bool).index_fill(0, held, False)
        splits.append(Split.of(train[kept], train[held], test))
    if val_fraction:
        notes.append(f"Validation holds out {val_fraction:g} of each training fold, stratified.")
    return Task(
        entry.name,
        graphs,
        labels,
        splits,
        [str(label) for label in range(int(labels.max()) + 1)],
        level="graph",
        metric=entry.metric,
        notes=(*entry.traps, *notes),
    )


def _folds(
    entry: Entry, root: Path, labels: Tensor
) -> tuple[list[tuple[Tensor, Tensor]], list[str]]:
    """Return the training and test graphs of each fold, and what is to be said about them."""
    folder = root / "gin_folds" / entry.key
    if folder.is_dir():
        folds = read_gin_folds(folder, labels.numel())
        notes = ["Folds are those of the GIN paper."]
        untested = labels.numel() - sum(test.numel() for _, test in folds)
        if untested:
            notes.append(f"{untested} graphs are in no test fold, and in training in every fold.")
        return folds, notes
    everything = torch.arange(labels.numel())
    own = []
    for test in stratified_folds(labels, FOLDS, seed=0):
        train = torch.ones_like(labels, dtype=torch.bool).index_fill(0, test, False)
        own.append((everything[train], test))
    return own, [f"Folds are our own, stratified: gin_folds/{entry.key} has none of the GIN paper."]


def _add_degrees(graphs: Sequence[Data], kind: str) -> None:
    """Give each node its degree as a feature."""
    degrees = [node_degree(graph.edge_index[0], graph.num_nodes) for graph in graphs]
    known = torch.unique(torch.cat(degrees))
    for graph, value in zip(graphs, degrees, strict=True):
        graph.x = (value.unsqueeze(1) == known).float() if kind == "onehot" else value.unsqueeze(1)
