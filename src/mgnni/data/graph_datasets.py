"""Loader of the TU graph classification benchmarks, with the folds of the GIN paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import TUDataset
from torch_geometric.utils import degree as node_degree

from mgnni.data.entry import Entry
from mgnni.data.split import Split, stratified_folds, stratified_holdout
from mgnni.data.storage import damaged, loading
from mgnni.data.task import Task
from mgnni.errors import ArgumentError, DataError, check_choice

FOLDS = 10
DEGREES = ("column", "onehot")


def load_tu(
    entry: Entry, root: Path, *, val_fraction: float = 0.1, degree: str | None = None
) -> Task:
    """Loads graphs with one-hot node labels as features, or node degrees if there are none.

    The folds are those of the GIN paper if they are on disk (``gin_folds/NAME``), and otherwise
    stratified folds; the notes of the task say which.

    Args:
        entry (Entry): The dataset.
        root (Path): The folder of all datasets.
        val_fraction (float, optional): Stratified fraction of each training fold that is held out
            for validation; 0 uses no validation set, as in GIN. (default: :obj:`0.1`)
        degree (str, optional): Encoding of the degree if there are no node labels: ``"column"``,
            or ``"onehot"`` as in GIN. (default: ``"column"``)
    """
    with loading(entry, root):
        graphs = list(TUDataset(str(root / "tu"), entry.key))
    if any(graph.y is None for graph in graphs):
        raise damaged(entry, root, "graphs without a label")
    labels = torch.cat([graph.y for graph in graphs])
    has_labels = any(file.endswith("_node_labels.txt") for file in entry.copies[0])
    if has_labels and degree is not None:
        raise ArgumentError(
            f"'degree' is for graphs without node labels (got {degree!r} for {entry.name}, which "
            "has node labels); leave it out"
        )
    if has_labels and any(graph.x is None for graph in graphs):
        raise damaged(entry, root, "nodes without a label")
    if not has_labels:
        _add_degrees(graphs, check_choice("degree", degree or "column", DEGREES))

    folds, notes = _folds(entry, root, labels)
    splits = []
    for number, (train, test) in enumerate(folds):
        held = stratified_holdout(labels[train], val_fraction, seed=number)
        splits.append(Split.of(train[_others(held, train.numel())], train[held], test))
    notes.append(
        f"Validation holds out {val_fraction:g} of each training fold, stratified."
        if val_fraction
        else "Nothing is held out for validation: all graphs of a training fold are trained on."
    )
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
    """Returns the training and test graphs of each fold, and notes on them."""
    folder = root / "gin_folds" / entry.key
    if folder.is_dir():
        folds = read_gin_folds(folder, labels.numel())
        notes = ["Folds are those of the GIN paper."]
        untested = labels.numel() - sum(test.numel() for _, test in folds)
        if untested:
            notes.append(f"{untested} graphs are in no test fold, and in training in every fold.")
        return folds, notes
    tests = stratified_folds(labels, FOLDS, seed=0)
    return [(_others(test, labels.numel()), test) for test in tests], [
        f"Folds are our own, stratified: there are no folds of the GIN paper in "
        f"gin_folds/{entry.key}."
    ]


def _others(indices: Tensor, count: int) -> Tensor:
    """Returns the sorted indices below ``count`` that are not given."""
    return torch.ones(count, dtype=torch.bool).index_fill(0, indices, False).nonzero().squeeze(1)


def _add_degrees(graphs: Sequence[Data], kind: str) -> None:
    """Sets the node degree as the feature of each node."""
    degrees = [node_degree(graph.edge_index[0], graph.num_nodes) for graph in graphs]
    known = torch.unique(torch.cat(degrees))
    for graph, value in zip(graphs, degrees, strict=True):
        graph.x = (value.unsqueeze(1) == known).float() if kind == "onehot" else value.unsqueeze(1)


def read_gin_folds(folder: Path, num_graphs: int) -> list[tuple[Tensor, Tensor]]:
    """Reads the training and test graphs of each fold of the GIN paper.

    The files are ``train_idx-1.txt`` and ``test_idx-1.txt`` to ``-10.txt``, with one index per
    line. A fold must contain every graph once, and a graph may be in one test fold only.

    Args:
        folder (Path): The folder of the files.
        num_graphs (int): Number of graphs of the dataset.

    Shapes:
        - **output:** per fold, ``(num_train,)`` and ``(num_test,)``, 64-bit
    """
    folds = []
    tested = torch.zeros(num_graphs, dtype=torch.bool)
    for number in range(1, FOLDS + 1):
        file = folder / f"test_idx-{number}.txt"
        train, test = (
            _read_indices(folder / f"{part}_idx-{number}.txt") for part in ("train", "test")
        )
        if not torch.equal(torch.cat([train, test]).sort().values, torch.arange(num_graphs)):
            raise DataError(
                f"{file}: together with {file.name.replace('test', 'train')} it must hold each "
                f"index from 0 to {num_graphs - 1} once (got {train.numel()} + {test.numel()} "
                "indices); copy both files again"
            )
        if bool(tested[test].any()):
            twice = int(test[tested[test]][0])
            raise DataError(
                f"{file}: test folds must not overlap (graph {twice} is also in an earlier one); "
                "copy the folds again"
            )
        tested[test] = True
        folds.append((train, test))
    return folds


def _read_indices(file: Path) -> Tensor:
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise DataError(
            f"{file}: cannot be read ({reason.lower()}); copy the folds again, or remove "
            f"{file.parent} to use stratified folds"
        ) from error
    for row, line in enumerate(lines, start=1):
        if line.strip() and not line.strip().isdecimal():
            raise DataError(
                f"{file}, row {row}: one index per line is expected (got {line.strip()[:40]!r}); "
                "copy the file again"
            )
    return torch.tensor([int(line) for line in lines if line.strip()], dtype=torch.long)
