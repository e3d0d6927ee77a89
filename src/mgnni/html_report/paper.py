"""Experiments of the paper, from their definitions: titles, order, and published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mgnni.data.catalog import ENTRIES
from mgnni.data.metric_names import default_metric
from mgnni.files import read_object
from mgnni.html_report.command import command_line
from mgnni.html_report.results import REMEDY, Result

DEFINITIONS = Path(__file__).parents[1] / "reproduce" / "experiments"


@dataclass(frozen=True)
class PaperScore:
    """A score of the paper, from 0 to 1.

    Attributes:
        mean: Mean.
        std: Standard deviation; ``None`` if the paper has none.
    """

    mean: float
    std: float | None


@dataclass(frozen=True)
class Row:
    """A row of a table of the paper.

    Attributes:
        name: Name of the row.
        label: What the paper calls it.
        model: Name of the model.
        scores: The paper's score in each column, which is usually a dataset.
        seconds: The paper's seconds per epoch in each column.
        seeds: How many seeds the definition asks for, in each column.
    """

    name: str
    label: str
    model: str
    scores: Mapping[str, PaperScore]
    seconds: Mapping[str, float] = field(default_factory=dict)
    seeds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Experiment:
    """A table or figure of the paper.

    Attributes:
        name: Name of the experiment.
        title: Its title, with the number of the paper's table.
        columns: Titles of the columns by name, in order.
        rows: The rows by name, in order.
        of_times: Whether it compares times, not scores.
    """

    name: str
    title: str
    columns: Mapping[str, str]
    rows: Mapping[str, Row]
    of_times: bool = False


def read_experiments(folder: Path = DEFINITIONS) -> dict[str, Experiment]:
    """Return the experiments that are defined in JSON files by name, tables of the paper first.

    A file has ``name`` (default: that of the file), ``title``, ``paper``, which is for example
    Table 1, ``columns`` and ``rows``.
    A row has ``name``, ``label``, ``model`` and ``paper``, which maps columns to mean and standard
    deviation in percent.

    Args:
        folder (Path, optional): Where the files are; it need not exist.
    """
    found = {}
    files = {file: read_object(file, REMEDY) for file in folder.glob("*.json")}
    for file, content in sorted(files.items(), key=lambda one: _place(one[1], one[0].stem)):
        name = str(content.get("name", file.stem))
        columns = [one for one in content.get("columns", ()) if isinstance(one, dict)]
        rows = [_row(row, content) for row in content.get("rows", ()) if isinstance(row, dict)]
        title, paper = str(content.get("title", name)), str(content.get("paper", ""))
        title += f" ({paper})" * paper.startswith("Table ")
        of_times = content.get("kind") == "seconds"
        named = {row.name: row for row in rows}
        found[name] = Experiment(name, title, _columns(columns), named, of_times)
    return found


def _place(content: Mapping[str, Any], name: str) -> tuple[bool, str, str]:
    """Return what experiments are sorted by."""
    paper = str(content.get("paper", ""))
    table = paper.startswith("Table ")
    return not table, paper if table else "", name


def _columns(columns: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the titles of columns: their labels, or the options in which they differ."""
    titles = [str(one.get("label") or one.get("name", "")) for one in columns]
    options = [one.get("options") or {} for one in columns]
    names = dict.fromkeys(name for one in options for name in one)
    kept = [name for name in names if len({str(one.get(name)) for one in options}) > 1]
    found = {}
    for column, title, given in zip(columns, titles, options, strict=True):
        values = {one: given[one] for one in kept if one in given}
        words = [
            value if isinstance(value, str) else f"{key} {value}"
            for key, value in values.items()
            if not isinstance(value, bool)
        ]
        labelled = "label" in column and titles.count(title) == 1
        found[str(column.get("name", ""))] = title if labelled else ", ".join(words) or title
    return found


def _row(row: Mapping[str, Any], content: Mapping[str, Any]) -> Row:
    """Return a row of a definition; ``content`` is the whole definition."""
    name = str(row.get("name", ""))
    scores = {
        column: score
        for column, value in (row.get("paper") or {}).items()
        if (score := _score(value)) is not None
    }
    published = row.get("paper_seconds") or {}
    times = {column: values[0] for column, values in published.items() if values[0] is not None}
    usual = row.get("seeds") or content.get("seeds", 1)
    seeds = {
        str(column.get("name", "")): int(column.get("seeds") or usual)
        for column in content.get("columns", ())
        if isinstance(column, dict)
    }
    label, model = str(row.get("label", name)), str(row.get("model", name))
    return Row(name, label, model, scores, times, seeds)


def _score(value: Any) -> PaperScore | None:
    mean, std = [*value, None][:2] if isinstance(value, list) and value else (value, None)
    if not isinstance(mean, (int, float)):
        return None
    return PaperScore(mean / 100, std / 100 if isinstance(std, (int, float)) else None)


def in_order(results: Iterable[Result], experiments: Mapping[str, Experiment]) -> list[Result]:
    """Return stored results by experiment, column and row, with the titles of these.

    Other results come first, in their order.

    Args:
        results (Iterable[Result]): The results.
        experiments (Mapping[str, Experiment]): Experiments by name.
    """
    found = []
    order = ["", *experiments]
    for one in results:
        experiment = experiments.get(one.experiment) or Experiment("", "", {}, {})
        columns, rows = list(experiment.columns), list(experiment.rows)
        label = experiment.rows[one.row].label if one.row in rows else one.label
        label += " (quick)" if one.report.get("quick") is True else ""  # of few splits and epochs
        title, column_label = experiment.title, experiment.columns.get(one.column, "")
        named = replace(one, label=label, title=title, column_label=column_label)
        place = columns.index(one.column) if one.column in columns else len(columns)
        row = rows.index(one.row) if one.row in rows else len(rows)
        column = one.column if one.experiment else ""
        study = order.index(one.experiment) if one.experiment in order else len(order)
        found.append(((study, one.experiment, place, column, row), named))
    found.sort(key=lambda pair: pair[0])
    return [replace(one, number=number) for number, (_, one) in enumerate(found, 1)]


def paper_score(result: Result, experiments: Mapping[str, Experiment]) -> PaperScore | None:
    """Return the paper's score for a result, or ``None``.

    A stored result belongs to its experiment and row. Any other result is compared with the row of
    its model, if it is a result on that benchmark by its usual metric, which is that of the paper.
    If such rows have different scores on its dataset, because they differ in their scales, it is
    compared with the row that has the name of the model, if its own scales are the usual ones.

    Args:
        result (Result): The result.
        experiments (Mapping[str, Experiment]): Experiments by name.
    """
    if result.experiment:
        experiment = experiments.get(result.experiment)
        row = experiment.rows.get(result.row) if experiment else None
        return row.scores.get(result.column) if row else None
    dataset, model = result.dataset, result.report["model"]
    usual = ENTRIES[dataset].metric if dataset in ENTRIES else default_metric(False)
    origin = (result.report.get("input") or {}).get("data", dataset)  # absent in early versions
    if (result.metric, origin) != (usual, dataset):
        return None
    rows = [row for experiment in experiments.values() for row in experiment.rows.values()]
    rows = [row for row in rows if row.model == model and dataset in row.scores]
    found = {row.scores[dataset] for row in rows}
    if len(found) > 1 and "--scales" not in command_line(result).split():
        found = {row.scores[dataset] for row in rows if row.name == model}
    return found.pop() if len(found) == 1 else None
