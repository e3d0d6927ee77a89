"""Tasks from names of benchmarks, paths and PyG objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from mgnni.data.catalog import ENTRIES, benchmark_named, find_entry
from mgnni.data.inspection.description import describe_task
from mgnni.data.registry import load_task
from mgnni.data.rules import DEFAULT_RULE, get_rule
from mgnni.data.split import Split, fold_splits, random_splits
from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.read import from_pyg, read_graphs
from mgnni.data.tables.schema import Schema, TableOptions
from mgnni.data.targets import is_labeled
from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError
from mgnni.models.catalog import find_model
from mgnni.train.config import Config

FRACTIONS = (0.6, 0.2, 0.2)
VAL_FRACTION = 0.2  # of the units outside of a fold
SEED = 0  # of splits that are drawn
FEW = 32  # features, up to which the degree is added to those of files
FOLDED = "tu"  # the family of benchmarks whose validation sets are taken from training folds


@dataclass(frozen=True)
class Source:
    """A task, and how to read more data of the same kind.

    Attributes:
        task: Graphs, labels, splits and metric.
        schema: How files and PyG objects are read; ``None`` for a benchmark.
        origin: Where the data come from, for the report.
        given: Options of the benchmark, roles of columns and number of drawn splits that were
            given, as plain data, for the report.
        ids: Ids of the rows of files; ``None`` for a benchmark.
    """

    task: Task
    schema: Schema | None
    origin: str
    given: Mapping[str, Any] = field(default_factory=dict)
    ids: Any = field(default=None, repr=False)

    @property
    def preset(self) -> str:
        """Name of the benchmark whose preset applies; empty for files, whatever their name."""
        return self.task.name if self.schema is None else ""


def find_source(
    data: Any,
    *,
    options: dict[str, Any] | None = None,
    tables: TableOptions | None = None,
    metric: str | None = None,
    rule: str = DEFAULT_RULE,
    num_splits: int = 1,
    folds: int | None = None,
) -> Source:
    """Return the task of a benchmark, a path, a PyG object or a task.

    Args:
        data (str or Path or Data or Dataset or list[Data] or Task): The data. A string is the name
            of a benchmark if there is one; ``./name`` and a ``Path`` are always a path.
        options (dict[str, Any], optional): Options of the benchmark. (default: :obj:`None`)
        tables (TableOptions, optional): Roles of the columns of files. Where they do not say
            otherwise, numbers in files are standardised, and the degree is added to few features.
            (default: :obj:`None`)
        metric (str, optional): Metric to use instead of that of the task. (default: :obj:`None`)
        rule (str, optional): Rule that selects the epoch to report. If it needs no validation set
            and the benchmark holds one out of its training folds, nothing is held out, unless
            ``options`` has a ``val_fraction``. (default: :obj:`"validation"`)
        num_splits (int, optional): Number of splits to draw, stratified, 60/20/20, for data that
            have none; more than one is an error for other data. (default: :obj:`1`)
        folds (int, optional): Number of folds of a stratified cross-validation, instead of random
            splits; a fifth of the units outside of a fold is its validation set.
            (default: :obj:`None`)
    """
    name = str(data) if isinstance(data, (str, Path)) else type(data).__name__
    benchmark = benchmark_named(data) is not None
    if options and not benchmark:
        raise ArgumentError(
            f"'options' are for benchmarks only (got {sorted(options)} for {name!r}); leave them "
            "out"
        )
    if benchmark or isinstance(data, Task):
        if tables is not None and tables.given():
            raise ArgumentError(
                f"options for columns are for data in files (got {', '.join(tables.given())} for "
                f"the benchmark or task {name}); leave them out, or write ./{name} for a path"
            )
        task = load_task(name, **_options(name, options, rule)) if benchmark else data
        task = task if metric is None else task.with_metric(metric)
        given = _given(options, None, None if task.splits else num_splits, folds)
        task = _with_splits(task, num_splits, folds)
        return Source(task, None, name if benchmark else task.name, given)
    if isinstance(data, (str, Path)):
        file = _read_with_defaults(name, tables or TableOptions())
    elif isinstance(data, (Data, Dataset, Sequence)):
        file = from_pyg(data, tables)
    else:
        raise ArgumentError(
            "'data' must be a benchmark's name, a path, a PyG Data or Dataset, or a list of Data "
            f"(got {type(data).__name__})"
        )
    task = file.task(metric=metric)
    given = _given(None, tables, None if task.splits else num_splits, folds)
    task = _with_splits(task, num_splits, folds)
    origin = str(Path(data).resolve()) if isinstance(data, (str, Path)) else file.name
    return Source(task, file.schema, origin, given, file.ids)


def describe_source(source: Source, config: Config) -> dict[str, Any]:
    """Return a description of the data, with the options of a training that advice depends on.

    Args:
        source (Source): The data.
        config (Config): Model and training hyperparameters.
    """
    found = describe_task(source.task, source.schema)
    found["options"]["class_weight"] = config.class_weight
    found["options"]["model"] = config.architecture
    found["options"]["head"] = getattr(config.model, "head", None)
    model = find_model(config.architecture)
    found["options"]["unweighted"] = None if model.load().uses_edge_weight else model.name
    if config.undirected:  # makes all edges undirected
        found["options"]["directed"] = False
    return found


def _given(
    options: dict[str, Any] | None,
    tables: TableOptions | None,
    num_splits: int | None,
    folds: int | None,
) -> dict[str, Any]:
    """Return what a reader of the report needs to load the same data, without defaults."""
    columns = {} if tables is None else {name: getattr(tables, name) for name in tables.given()}
    found = {
        "options": {name: _plain(value) for name, value in (options or {}).items()},
        "columns": {name: _plain(value) for name, value in columns.items()},
        "num_splits": None if num_splits == 1 else num_splits,
        "folds": folds,
    }
    return {name: value for name, value in found.items() if value}


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _options(name: str, given: dict[str, Any] | None, rule: str) -> dict[str, Any]:
    """Return the options of a benchmark; a rule without validation trains on whole folds."""
    whole = not get_rule(rule).needs_validation and find_entry(name).family == FOLDED
    return {**({"val_fraction": 0.0} if whole else {}), **(given or {})}


def _read_with_defaults(name: str, tables: TableOptions) -> GraphFile:
    """Read files with features that suit models: of one scale, and never none."""
    options = replace(tables, standardize=tables.standardize is not False)
    file = _read(name, options)
    notes = []
    if tables.degree is None and len(file.schema.feature_names) <= FEW:
        file = _read(name, replace(options, degree=True))
        notes.append("few features: the degree of each node is added (--no-degree leaves it out)")
    if tables.standardize is None and any(one.deviation != 1 for one in file.schema.columns):
        notes.append("numeric features are standardised (--no-standardize uses them as they are)")
    return replace(file, notes=(*file.notes, *notes))


def _read(name: str, tables: TableOptions) -> GraphFile:
    if not Path(name).exists():
        raise DataError(
            f"{name!r} is neither a benchmark nor a path; benchmarks: {', '.join(ENTRIES)}; a path "
            "is a folder with nodes.csv and edges.csv, or a .npz or .pt file"
        )
    return read_graphs(Path(name), tables)


def _with_splits(task: Task, num_splits: int, folds: int | None) -> Task:
    """Return a task with splits: its own, folds, or random ones."""
    for name, given, unset in (("folds", folds, None), ("num_splits", num_splits, 1)):
        if task.splits and given != unset:
            verb = "are" if name == "folds" else "is"
            raise ArgumentError(
                f"'{name}' {verb} for data without splits (got {given!r} for {task.name}, which "
                f"has {len(task.splits)}); leave it out, or remove the splits from the data"
            )
    if task.splits:
        return task
    if folds is not None and num_splits != 1:
        raise ArgumentError(
            f"'folds' are the splits (got {folds}, and also num_splits={num_splits}); leave one of "
            "the two out"
        )
    labels, stratified = all_labels(task), ""
    if task.unit != task.level:
        labels = torch.zeros(task.num_units, dtype=torch.long)
    elif labels.dim() == 2:  # several labels or numbers: rows without them are in no set
        labels = is_labeled(labels).long() - 1
    else:
        stratified = "stratified, "
    if folds is None:
        splits = random_splits(labels, num_splits, FRACTIONS, SEED)
        how = f"{num_splits} drawn at random, {stratified}60/20/20, seed {SEED}"
    else:
        splits = _folds(labels, folds)
        how = f"{folds} folds, {stratified}a fifth of the rest for validation, seed {SEED}"
    found = task.with_splits(splits)
    found.notes += (f"no splits in the data: {how}",)
    return found


def _folds(labels: Tensor, folds: int) -> list[Split]:
    units = int((labels >= 0).sum())
    if isinstance(folds, bool) or not isinstance(folds, int) or not 2 <= folds <= units:
        raise ArgumentError(
            f"'folds' must be from 2 to the number of labelled units, {units} (got {folds!r}); 5 "
            "or 10 are usual"
        )
    return fold_splits(labels, folds, VAL_FRACTION, SEED)
