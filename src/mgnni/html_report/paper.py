"""Experiments of the paper, from their definitions: titles, order, and published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mgnni.data.catalog import ENTRIES
from mgnni.data.metric_names import default_metric
from mgnni.files import read_object
from mgnni.html_report.command import command_line
from mgnni.html_report.results import REMEDY, Result
from mgnni.reproduce.definitions import make_study
from mgnni.reproduce.study import Cell, Column, Row, Study

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
class Experiment:
    """A table or figure of the paper.

    Attributes:
        title: Its title, with the number of the paper's table.
        columns: Titles of the columns by name, in order.
        rows: The rows by name, in order.
        cells: The cells by the names of row and column.
        of_times: Whether it compares times, not scores.
    """

    title: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Row] = field(default_factory=dict)
    cells: Mapping[tuple[str, str], Cell] = field(default_factory=dict)
    of_times: bool = False

    def score(self, row: str, column: str) -> PaperScore | None:
        """Return the published score of a row in a column, or ``None``."""
        published = self.rows[row].paper.get(column) if row in self.rows else None
        if published is None:
            return None
        mean, std = published
        return PaperScore(mean / 100, None if std is None else std / 100)

    def seconds(self, row: str, column: str) -> float | None:
        """Return the published seconds per epoch of a row in a column, or ``None``."""
        published = self.rows[row].paper_seconds.get(column) if row in self.rows else None
        return None if published is None else published[0]


def read_experiments(folder: Path = DEFINITIONS) -> dict[str, Experiment]:
    """Return the experiments that are defined in JSON files by name, tables of the paper first.

    Args:
        folder (Path, optional): Where the files are; it need not exist.
    """
    studies = [make_study(file.stem, read_object(file, REMEDY)) for file in folder.glob("*.json")]
    return {study.name: _experiment(study) for study in sorted(studies, key=_place)}


def _place(study: Study) -> tuple[bool, str, str]:
    """Return what experiments are sorted by."""
    table = study.paper.startswith("Table ")
    return not table, study.paper if table else "", study.name


def _experiment(study: Study) -> Experiment:
    title = study.title + f" ({study.paper})" * study.paper.startswith("Table ")
    rows = {row.name: row for row in study.rows}
    cells = {
        (row.name, column.name): Cell(study, row, column)
        for row in study.rows
        for column in study.columns
    }
    return Experiment(title, _titles(study.columns), rows, cells, study.kind == "seconds")


def _titles(columns: Sequence[Column]) -> dict[str, str]:
    """Return the titles of columns: their labels, or the options in which they differ."""
    names = dict.fromkeys(name for one in columns for name in one.options)
    kept = [name for name in names if len({str(one.options.get(name)) for one in columns}) > 1]
    titles = [one.title for one in columns]
    found = {}
    for column in columns:
        values = {one: column.options[one] for one in kept if one in column.options}
        words = [
            value if isinstance(value, str) else f"{key} {value}"
            for key, value in values.items()
            if not isinstance(value, bool)
        ]
        labelled = column.label is not None and titles.count(column.title) == 1
        found[column.name] = column.title if labelled else ", ".join(words) or column.title
    return found


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
        experiment = experiments.get(one.experiment) or Experiment()
        columns, rows = list(experiment.columns), list(experiment.rows)
        label = experiment.rows[one.row].title if one.row in rows else one.label
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
        return experiment.score(result.row, result.column) if experiment else None
    dataset, model = result.dataset, result.report["model"]
    usual = ENTRIES[dataset].metric if dataset in ENTRIES else default_metric(False)
    origin = (result.report.get("input") or {}).get("data", dataset)  # absent in early versions
    if (result.metric, origin) != (usual, dataset):
        return None
    found = [
        (name, score)
        for experiment in experiments.values()
        for name, row in experiment.rows.items()
        if row.architecture == model and (score := experiment.score(name, dataset)) is not None
    ]
    scores = {score for _, score in found}
    if len(scores) > 1 and "--scales" not in command_line(result).split():
        scores = {score for name, score in found if name == model}
    return scores.pop() if len(scores) == 1 else None
