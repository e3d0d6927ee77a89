"""A task: graphs, splits, a metric, and test labels that only its evaluation can reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.metrics import METRICS, default_metric, measure
from mgnni.data.split import PARTS, Split
from mgnni.errors import ArgumentError, DataError, check_choice

LEVELS = ("node", "graph")


class Task:
    """What is to be learnt, and how good a model is at it.

    A *row* is what a model gives one prediction for: a node (``level="node"``) or a graph. A
    *unit* is what the splits deal out: a node of the one graph, or a whole graph if there are
    several. Labels are integers from 0, or, with several labels a row, a 0/1 matrix; a row whose
    label is not known holds -1, or nan in the first column.

    Args:
        name: what to call it.
        graphs: features and edges; anything else they hold is not for the model.
        labels: one row a prediction, those of the graphs one after another.
        splits: of the units.
        classes: names of the classes, or of the labels.
        level: ``"node"`` or ``"graph"``.
        metric: the one that counts; by default accuracy, or micro-F1 with several labels a row.
        notes: what a reader of any number on this task should know.
    """

    def __init__(
        self,
        name: str,
        graphs: Sequence[Data],
        labels: Tensor,
        splits: Sequence[Split],
        classes: Sequence[str],
        *,
        level: str = "node",
        metric: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.graphs = tuple(_bare(graph) for graph in graphs)
        self.classes = tuple(classes)
        self.level = check_choice("level", level, LEVELS)
        self.multilabel = labels.dim() == 2
        self.metric = check_choice("metric", metric or default_metric(self.multilabel), METRICS)
        self.notes = tuple(notes)
        self.splits = tuple(splits)
        self.test_evaluations = [0] * len(self.splits)
        self._labels = labels.detach().cpu()
        self._start = _starts(self.graphs) if level == "node" else torch.arange(len(graphs) + 1)
        if not self.graphs:
            raise DataError(f"{name}: no graphs; give at least one")
        if self.metric == "roc_auc" and (self.multilabel or len(self.classes) != 2):
            raise ArgumentError(
                f"'metric' roc_auc needs one label a row and two classes (got {len(self.classes)} "
                f"{'labels' if self.multilabel else 'classes'}); choose 'macro_f1'"
            )
        if labels.size(0) != int(self._start[-1]):
            raise DataError(
                f"{name}: one label a {level} is needed (got {labels.size(0)} labels for "
                f"{int(self._start[-1])} {level}s)"
            )
        _check_labels(self._labels, len(self.classes), name)
        for index, split in enumerate(self.splits):
            split.check(self.num_units, f"{name}, split {index}")
            if self.rows(index, "train").numel() == 0:
                raise DataError(
                    f"{name}, split {index}: no row of the training part has a label; label some"
                )

    def check_metric(self, split: int) -> None:
        """Say before a training, and not after it, that its metric will be undefined."""
        for part in ("val", "test") if self.metric == "roc_auc" else ():
            seen = len(set(self._labels[self.rows(split, part)].tolist()))
            if seen == 1:
                raise DataError(
                    f"{self.name}, split {split}: roc_auc is undefined on the {part} part, which "
                    "has one class; choose another metric or split"
                )

    @property
    def num_features(self) -> int:
        """Width of the features."""
        return int(self.graphs[0].num_features)

    @property
    def unit(self) -> str:
        """What the splits deal out: ``"node"`` or ``"graph"``."""
        return "node" if self.level == "node" and len(self.graphs) == 1 else "graph"

    @property
    def num_units(self) -> int:
        """How many units there are."""
        return int(self._start[-1]) if self.unit == "node" else len(self.graphs)

    @property
    def num_rows(self) -> int:
        """How many predictions a model gives."""
        return int(self._start[-1])

    def rows(self, split: int, part: str) -> Tensor:
        """Return the labelled rows of a part, ascending. Which rows are labelled is no secret."""
        rows = self.rows_of(self.splits[split].part(check_choice("part", part, PARTS)))
        return rows[_is_known(self._labels[rows])]

    def rows_of(self, units: Tensor) -> Tensor:
        """Return all rows of some units, labelled or not, in the order of the units."""
        if self.unit == self.level:
            return units
        start = self._start.tolist()
        spans = [torch.arange(start[unit], start[unit + 1]) for unit in units.tolist()]
        return torch.cat(spans) if spans else units

    def targets(self, split: int, part: str) -> Tensor:
        """Return the labels of :meth:`rows` of training or validation."""
        if part not in ("train", "val"):
            raise ArgumentError(
                f"'part' must be 'train' or 'val' (got {part!r}); test labels are used by "
                "Task.evaluate only"
            )
        return self._labels[self.rows(split, part)]

    def evaluate(self, scores: Tensor, split: int, part: str) -> dict[str, float]:
        """Return all metrics of the scores of :meth:`rows` of a part, and count test use.

        Args:
            scores: logits, one row for each of ``rows(split, part)``.
            split: number of the split.
            part: ``"train"``, ``"val"`` or ``"test"``.
        """
        rows = self.rows(split, part)
        if scores.size(0) != rows.numel():
            raise ArgumentError(
                f"'scores' must have one row for each of the {rows.numel()} labelled rows of the "
                f"{part} part (got {scores.size(0)}); index the logits with task.rows(split, part)"
            )
        if part == "test":
            self.test_evaluations[split] += 1
        found = measure(scores.detach().cpu(), self._labels[rows], self.multilabel)
        if self.metric not in found:
            raise DataError(
                f"{self.name}, split {split}: {self.metric} is undefined on the {part} part, which "
                "holds one class only; use another split, or another metric"
            )
        return found

    def with_splits(self, splits: Sequence[Split]) -> Task:
        """Return the same task with other splits."""
        return self._changed(splits=splits)

    def with_graphs(self, graphs: Sequence[Data]) -> Task:
        """Return the same task with transformed graphs; test use goes on being counted."""
        task = self._changed(graphs=graphs)
        task.test_evaluations = self.test_evaluations
        return task

    def with_metric(self, metric: str) -> Task:
        """Return the same task, judged by another metric."""
        return self._changed(metric=metric)

    def _changed(self, **changes: Any) -> Task:
        arguments: dict[str, Any] = {
            "name": self.name,
            "graphs": self.graphs,
            "labels": self._labels,
            "splits": self.splits,
            "classes": self.classes,
            "level": self.level,
            "metric": self.metric,
            "notes": self.notes,
        }
        return Task(**{**arguments, **changes})

    def __repr__(self) -> str:
        return (
            f"Task({self.name!r}, {len(self.graphs)} graphs, {self.num_rows} {self.level}s, "
            f"{len(self.classes)} classes, {len(self.splits)} splits, {self.metric})"
        )


def stratified_labels(task: Task) -> Tensor:
    """Return the labels that folds are balanced by; only splitting may look at all of them."""
    return task._labels


def _bare(graph: Data) -> Data:
    """Keep what a model sees, and nothing that could hold a label."""
    kept: dict[str, Any] = {"x": graph.x, "edge_index": graph.edge_index}
    if graph.edge_weight is not None:
        kept["edge_weight"] = graph.edge_weight
    return Data(**kept, num_nodes=graph.num_nodes)


def _starts(graphs: Sequence[Data]) -> Tensor:
    count = torch.tensor([0, *(int(graph.num_nodes) for graph in graphs)])
    return torch.cumsum(count, 0)


def _is_known(labels: Tensor) -> Tensor:
    return labels >= 0 if labels.dim() == 1 else ~torch.isnan(labels[:, 0])


def _check_labels(labels: Tensor, num_classes: int, name: str) -> None:
    """Refuse a label that is no class, before a loss does so in words of its own."""
    known = labels[_is_known(labels)]
    if labels.dim() == 2:
        fits = labels.size(1) == num_classes and bool(((known == 0) | (known == 1)).all())
        expected = f"{num_classes} columns of 0 and 1, or a whole row of nan"
    else:
        whole = not labels.is_floating_point()
        fits = whole and (known.numel() == 0 or int(known.max()) < num_classes)
        expected = f"whole numbers below {num_classes}, the number of classes, or -1"
    if not fits:
        raise DataError(
            f"{name}: labels must be {expected} (got {labels.dtype}, shape {tuple(labels.shape)}, "
            f"largest {float(known.max()) if known.numel() else None}); check labels and classes"
        )
