"""A task: graphs, splits, a metric, and labels with protected test labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import is_undirected

from mgnni.data.assessment.assess import assess
from mgnni.data.assessment.numbers import assess_numbers
from mgnni.data.metric_names import ONE_LABEL, default_metric, metrics_of
from mgnni.data.metrics import measure
from mgnni.data.regression import measure_numbers
from mgnni.data.split import PARTS, Split
from mgnni.data.targets import check_labels, is_labeled, without_labels
from mgnni.errors import ArgumentError, DataError, check_choice

LEVELS = ("node", "graph")


class Task:
    r"""A classification or regression task on nodes or graphs.

    A *row* is what a model predicts: a node (``level="node"``) or a graph. A *unit* is what splits
    consist of: the nodes of a single graph, or whole graphs if there are several.

    Labels of the test set can only be used through :meth:`evaluate`, which counts its calls in
    ``test_evaluations``, and :meth:`assess`, which describes what was evaluated.

    Args:
        name (str): Name of the task.
        graphs (list of Data): Graphs; only ``x``, ``edge_index`` and ``edge_weight`` are kept.
        labels (Tensor): Classes from 0 with -1 for unlabelled rows, or a 0/1 matrix with rows of
            nan for unlabelled rows, or numbers to predict, with rows of nan. Rows are in the order
            of the graphs.
        splits (list of Split): Splits of the units.
        classes (list of str): Names of the classes, of the labels, or of the targets.
        level (str, optional): ``"node"`` or ``"graph"``. (default: ``"node"``)
        metric (str, optional): The metric of the task. (default: ``"accuracy"``,
            ``"micro_f1"`` with several labels per row, or ``"r2"`` for numbers)
        notes (list of str, optional): What readers of results on this task should know.
        regression (bool, optional): Whether the labels are numbers to predict.
            (default: :obj:`False`)

    Attributes:
        graphs (tuple of Data): The graphs, without labels.
        splits (tuple of Split): The splits.
        classes (tuple of str): Names of the classes, of the labels, or of the targets.
        multilabel (bool): Whether a row may have several labels.
        regression (bool): Whether numbers are predicted.
        metric (str): The metric used for model selection and for the score.
        notes (tuple of str): Known problems of the data and how it was prepared.
        test_evaluations (list of int): Number of evaluations of the test set, per split.

    Shapes:
        - **labels:** :math:`(N)` for :math:`N` rows, or :math:`(N, C)` with :math:`C` labels or
          numbers per row
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
        regression: bool = False,
    ) -> None:
        self.name = name
        self.graphs = tuple(bare_graph(graph) for graph in graphs)
        self.classes = tuple(classes)
        self.level = check_choice("level", level, LEVELS)
        self.regression = regression
        self.multilabel = labels.dim() == 2 and not regression
        metric = metric or default_metric(self.multilabel, regression)
        self.metric = check_choice("metric", metric, metrics_of(regression))
        self.notes = tuple(notes)
        self.splits = tuple(splits)
        self.test_evaluations = [0] * len(self.splits)
        self._labels = labels.detach().cpu()
        self._start = _starts(self.graphs) if level == "node" else torch.arange(len(graphs) + 1)
        if not self.graphs:
            raise DataError(f"{name}: no graphs; pass at least one")
        many = self.metric == "roc_auc" and len(self.classes) != 2
        if self.metric in ONE_LABEL and (self.multilabel or many):
            raise ArgumentError(
                f"'metric' {self.metric} needs one label per row{' and two classes' * many} (got "
                f"{len(self.classes)} {'labels' if self.multilabel else 'classes'}); choose "
                "'macro_f1'"
            )
        if labels.size(0) != int(self._start[-1]):
            raise DataError(
                f"{name}: one label per {level} is needed (got {labels.size(0)} labels for "
                f"{int(self._start[-1])} {level}s)"
            )
        check_labels(self._labels, len(self.classes), name, regression)
        for index, split in enumerate(self.splits):
            split.check(self.num_units, f"{name}, split {index}")
            if self.rows(index, "train").numel() == 0:
                raise DataError(
                    f"{name}, split {index}: no row of the training set has a label; label some"
                )

    def check_metric(self, split: int) -> None:
        """Checks before training that the metric is defined on the validation and test set."""
        for part in ("val", "test") if self.metric in ("roc_auc", "r2") else ():
            labels = self._labels[self.rows(split, part)]
            if labels.numel() and bool((labels == labels[:1]).all(0).any()):
                one, other = ("class", "another") if self.metric == "roc_auc" else ("number", "mae")
                raise DataError(
                    f"{self.name}, split {split}: {self.metric} is undefined on {part}, which has "
                    f"one {one} only; choose {other} as metric, another split, or fewer folds"
                )

    @property
    def num_features(self) -> int:
        """Number of features per node."""
        return int(self.graphs[0].num_features)

    @property
    def undirected(self) -> bool:
        """Whether every edge of every graph has its reverse, with the same weight."""
        return all(
            is_undirected(graph.edge_index, graph.edge_weight, num_nodes=graph.num_nodes)
            for graph in self.graphs
        )

    @property
    def unit(self) -> str:
        """What splits consist of: ``"node"`` or ``"graph"``."""
        return "node" if self.level == "node" and len(self.graphs) == 1 else "graph"

    @property
    def num_units(self) -> int:
        """Number of units."""
        return int(self._start[-1]) if self.unit == "node" else len(self.graphs)

    @property
    def num_rows(self) -> int:
        """Number of rows, that is, of predictions."""
        return int(self._start[-1])

    def rows(self, split: int, part: str) -> Tensor:
        """Returns the sorted labelled rows of ``"train"``, ``"val"`` or ``"test"``."""
        rows = self.rows_of(self.splits[split].part(check_choice("part", part, PARTS)))
        return rows[is_labeled(self._labels[rows])]

    def rows_of(self, units: Tensor) -> Tensor:
        """Returns all rows of the given units, labelled or not, in the order of the units."""
        if self.unit == self.level:
            return units
        start = self._start.tolist()
        spans = [torch.arange(start[unit], start[unit + 1]) for unit in units.tolist()]
        return torch.cat(spans) if spans else units

    def targets(self, split: int, part: str) -> Tensor:
        """Returns the labels of :meth:`rows` of ``"train"`` or ``"val"``."""
        if part not in ("train", "val"):
            raise ArgumentError(
                f"'part' must be 'train' or 'val' (got {part!r}); test labels are used by "
                "Task.evaluate only"
            )
        return self._labels[self.rows(split, part)]

    def evaluate(self, scores: Tensor, split: int, part: str) -> dict[str, float]:
        """Returns all metrics on a set, and counts evaluations of the test set.

        Args:
            scores (Tensor): Logits or predicted numbers, one row for each of
                ``rows(split, part)``.
            split (int): Index of the split.
            part (str): ``"train"``, ``"val"`` or ``"test"``.
        """
        labels = self._labels_for(scores, split, part)
        if part == "test":
            self.test_evaluations[split] += 1
        if self.regression:
            return measure_numbers(scores.detach().cpu(), labels)
        found = measure(scores.detach().cpu(), labels, self.multilabel)
        if self.metric not in found:
            raise DataError(
                f"{self.name}, split {split}: {self.metric} is undefined on {part}, which has one "
                "class only; choose another metric or split"
            )
        return found

    def assess(self, scores: Tensor, split: int, threshold: float | None = None) -> dict[str, Any]:
        """Returns baseline, uncertainty and details of an evaluation of the test set.

        It describes scores that were evaluated before, so it does not count as an evaluation.

        Args:
            scores (Tensor): Logits, as in :meth:`evaluate`.
            split (int): Index of the split.
            threshold (float, optional): Threshold of a task with two classes.
        """
        labels, rows = self._labels_for(scores, split, "test"), self.rows(split, "test")
        train = self.targets(split, "train")
        if self.regression:
            return assess_numbers(scores, labels, train, rows, self.num_rows, self.metric)
        return assess(scores, labels, train, rows, self.num_rows, self.metric, threshold)

    def _labels_for(self, scores: Tensor, split: int, part: str) -> Tensor:
        rows = self.rows(split, part)
        if scores.size(0) != rows.numel():
            raise ArgumentError(
                f"'scores' must have one row for each of the {rows.numel()} labelled rows of "
                f"{part} (got {scores.size(0)}); index the logits with task.rows(split, part)"
            )
        return self._labels[rows]

    def with_splits(self, splits: Sequence[Split]) -> Task:
        """Returns the task with other splits."""
        return self._changed(splits=splits)

    def without_test(self, splits: Sequence[int]) -> Task:
        """Returns the task without test sets, and with the labels that some splits train on only.

        All other rows are unlabelled. With one split, nothing that is given this task can depend
        on its test labels. With several, a test row of one split keeps its label if it is a
        training or validation row of another.

        Args:
            splits (Sequence[int]): Indices of splits. They keep their indices; the other splits
                become equal to the first of them.
        """
        none = torch.zeros(0, dtype=torch.long)
        kept = [self.rows(index, part) for index in splits for part in ("train", "val")]
        unknown = torch.ones(self.num_rows, dtype=torch.bool)
        unknown[torch.cat(kept)] = False
        labels = without_labels(self._labels, unknown)
        found = [index if index in splits else splits[0] for index in range(len(self.splits))]
        bare = [Split(self.splits[i].train, self.splits[i].val, none) for i in found]
        return self._changed(labels=labels, splits=bare)

    def with_graphs(self, graphs: Sequence[Data]) -> Task:
        """Returns the task with transformed graphs; it shares the count of test evaluations."""
        task = self._changed(graphs=graphs)
        task.test_evaluations = self.test_evaluations
        return task

    def with_metric(self, metric: str) -> Task:
        """Returns the task with another metric."""
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
            "regression": self.regression,
        }
        return Task(**{**arguments, **changes})

    def __repr__(self) -> str:
        what = "targets" if self.regression else "classes"
        return (
            f"Task({self.name!r}, {len(self.graphs)} graphs, {self.num_rows} {self.level}s, "
            f"{len(self.classes)} {what}, {len(self.splits)} splits, {self.metric})"
        )


def all_labels(task: Task) -> Tensor:
    """Returns all labels, to stratify splits by them or to write them down; not for training.

    Args:
        task (Task): The task.

    Shapes:
        - **output:** ``(rows,)``, or ``(rows, labels)`` for several labels per row
    """
    return task._labels


def bare_graph(graph: Data) -> Data:
    """Returns the graph without attributes that could reveal a label."""
    weight = {} if graph.edge_weight is None else {"edge_weight": graph.edge_weight}
    return Data(x=graph.x, edge_index=graph.edge_index, **weight, num_nodes=graph.num_nodes)


def _starts(graphs: Sequence[Data]) -> Tensor:
    count = torch.tensor([0, *(int(graph.num_nodes) for graph in graphs)])
    return torch.cumsum(count, 0)
