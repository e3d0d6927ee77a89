"""What was read: graphs, labels and splits, and how they were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.split import Split
from mgnni.data.tables.schema import Schema
from mgnni.data.task import Task
from mgnni.errors import DataError


@dataclass(frozen=True, eq=False)
class GraphFile:
    """One graph whose nodes are to be classified, or several graphs.

    Args:
        name: of the file or folder.
        graphs: ``x``, ``edge_index`` and, if edges have weights, ``edge_weight``; nodes in the
            order of the file.
        labels: one row a node or a graph, as :class:`~mgnni.data.task.Task` takes them; None if
            the file has none.
        ids: what each row of ``labels`` is called: a pyarrow array, or integers from 0.
        level: ``"node"`` or ``"graph"``.
        splits: those the file holds.
        classes: names of the classes, or of the labels.
        directed: whether some edge has no reverse.
        schema: to read other files alike.
        notes: what was chosen, counted or filled in, a line each.
    """

    name: str
    graphs: tuple[Data, ...]
    labels: Tensor | None
    ids: Any
    level: str
    splits: tuple[Split, ...]
    classes: tuple[str, ...]
    directed: bool
    schema: Schema
    notes: tuple[str, ...]

    def task(
        self,
        name: str | None = None,
        splits: Sequence[Split] | None = None,
        metric: str | None = None,
    ) -> Task:
        """Return what is to be learnt.

        Args:
            name: what to call it; by default as the file.
            splits: instead of those of the file.
            metric: the one that counts, as in :class:`~mgnni.data.task.Task`.
        """
        if self.labels is None:
            raise DataError(
                f"{self.name}: labels are needed to learn or to score (got none); add a label "
                "column, or only predict"
            )
        return Task(
            name or self.name,
            self.graphs,
            self.labels,
            self.splits if splits is None else splits,
            self.classes,
            level=self.level,
            metric=metric,
            notes=self.notes,
        )
