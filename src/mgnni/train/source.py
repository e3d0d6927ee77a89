"""From whatever a person calls data to a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data, Dataset

from mgnni.data.catalog import ENTRIES, benchmark_named
from mgnni.data.registry import load_task
from mgnni.data.split import random_splits
from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.data.tables.schema import Schema, TableOptions
from mgnni.data.task import Task, stratified_labels
from mgnni.errors import ArgumentError, DataError

FRACTIONS = (0.6, 0.2, 0.2)


@dataclass(frozen=True)
class Source:
    """A task, and how to read other data alike.

    Attributes:
        task: what is to be learnt.
        schema: of files and PyG objects; none for a benchmark.
        origin: what the data were taken from, for the record.
    """

    task: Task
    schema: Schema | None
    origin: str

    @property
    def preset(self) -> str:
        """Whose preset applies: the benchmark's; a file may only be called like one."""
        return self.task.name if self.schema is None else ""


def find_source(
    data: Any,
    *,
    options: dict[str, Any] | None = None,
    tables: TableOptions | None = None,
    metric: str | None = None,
    num_splits: int = 1,
    split_seed: int = 0,
) -> Source:
    """Make a task of a benchmark's name, a path, a PyG object, or a task.

    Args:
        data: one of these. A name is a benchmark if there is one; ``./name`` and a ``Path`` are
            always a path.
        options: of the benchmark.
        tables: which column of a file is what.
        metric: the one that counts, instead of the usual one.
        num_splits: splits to draw if the data have none, stratified, 60/20/20.
        split_seed: of these splits.
    """
    name = str(data) if isinstance(data, (str, Path)) else type(data).__name__
    benchmark = benchmark_named(data) is not None
    if options and not benchmark:
        raise ArgumentError(
            f"'options' are those of a benchmark (got {sorted(options)} for {name!r}); leave "
            "them out"
        )
    if benchmark or isinstance(data, Task):
        _refuse(tables, name)
        task = load_task(name, **(options or {})) if benchmark else data
        task = _measured_by(task, metric)
        task = task if task.splits else _dealt(task, num_splits, split_seed)
        return Source(task, None, name if benchmark else task.name)
    if isinstance(data, (str, Path)):
        file = _read(name, tables)
    elif isinstance(data, (Data, Dataset, Sequence)):
        file = from_pyg(data, tables)
    else:
        raise ArgumentError(
            "'data' must be a benchmark's name, a path, a PyG Data or Dataset, or a list of Data "
            f"(got {type(data).__name__})"
        )
    task = file.task(metric=metric)
    if not task.splits:
        task = _dealt(task, num_splits, split_seed)
    origin = str(Path(data).resolve()) if isinstance(data, (str, Path)) else file.name
    return Source(task, file.schema, origin)


def _read(name: str, tables: TableOptions | None) -> GraphFile:
    if not Path(name).exists():
        near = ", ".join(ENTRIES)
        raise DataError(
            f"{name!r} is neither a benchmark nor a path; benchmarks: {near}; a path is a folder "
            "with nodes.csv and edges.csv, or a .npz or .pt file"
        )
    return read_graphs(Path(name), tables)


def _measured_by(task: Task, metric: str | None) -> Task:
    """Have another metric count, if one is asked for."""
    return task if metric is None else task.with_metric(metric)


def _dealt(task: Task, num_splits: int, seed: int) -> Task:
    """Give splits to data that have none."""
    labels = stratified_labels(task)
    if task.multilabel or task.unit != task.level:
        labels = torch.zeros(task.num_units, dtype=torch.long)
    found = task.with_splits(random_splits(labels, num_splits, FRACTIONS, seed))
    found.notes += (
        f"no splits in the data: {num_splits} drawn at random, stratified, 60/20/20, seed {seed}",
    )
    return found


def _refuse(tables: TableOptions | None, name: str) -> None:
    if tables is not None and tables.given():
        raise ArgumentError(
            f"columns are for data in files (got {', '.join(tables.given())} for {name}); leave "
            f"them out, or write ./{name} for a path"
        )
