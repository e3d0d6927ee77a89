"""Experiments of the paper, from their definitions: titles, order, and published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mgnni.data.catalog import ENTRIES
from mgnni.data.metric_names import default_metric
from mgnni.files import read_object
from mgnni.html_report.command import command_line
from mgnni.html_report.results import REMEDY, Result
from mgnni.reproduce.definitions import make_study
from mgnni.reproduce.study import Column, Study

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


def published_score(study: Study, row: str, column: str) -> PaperScore | None:
    """Return the score of the paper for a row in a column, or ``None``."""
    found = next((one.paper.get(column) for one in study.rows if one.name == row), None)
    if found is None:
        return None
    mean, std = found
    return PaperScore(mean / 100, None if std is None else std / 100)


def published_seconds(study: Study, row: str, column: str) -> float | None:
    """Return the seconds per epoch of the paper for a row in a column, or ``None``."""
    found = next((one.paper_seconds.get(column) for one in study.rows if one.name == row), None)
    return None if found is None else found[0]


def read_experiments(folder: Path = DEFINITIONS) -> dict[str, Study]:
    """Return the experiments that are defined in JSON files by name, tables of the paper first.

    Args:
        folder (Path, optional): Where the files are; it need not exist.
    """
    studies = [make_study(file.stem, read_object(file, REMEDY)) for file in folder.glob("*.json")]
    return {study.name: study for study in sorted(studies, key=_place)}


def _place(study: Study) -> tuple[bool, str, str]:
    """Return what experiments are sorted by."""
    table = study.paper.startswith("Table ")
    return not table, study.paper if table else "", study.name


def _title(study: Study | None) -> str:
    """Return the title of an experiment, with the number of the paper's table."""
    if study is None:
        return ""
    return study.title + f" ({study.paper})" * study.paper.startswith("Table ")


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


def in_order(results: Iterable[Result], experiments: Mapping[str, Study]) -> list[Result]:
    """Return stored results by experiment, column and row, with the titles of these.

    Other results come first, in their order.

    Args:
        results (Iterable[Result]): The results.
        experiments (Mapping[str, Study]): Experiments by name.
    """
    found = []
    order = ["", *experiments]
    for one in results:
        experiment = experiments.get(one.experiment)
        titles = _titles(experiment.columns) if experiment else {}
        labels = {row.name: row.title for row in experiment.rows} if experiment else {}
        columns, rows = list(titles), list(labels)
        label = labels.get(one.row, one.label)
        label += " (quick)" if one.report.get("quick") is True else ""  # of few splits and epochs
        title, column_label = _title(experiment), titles.get(one.column, "")
        named = replace(one, label=label, title=title, column_label=column_label)
        place = columns.index(one.column) if one.column in columns else len(columns)
        row = rows.index(one.row) if one.row in rows else len(rows)
        column = one.column if one.experiment else ""
        study = order.index(one.experiment) if one.experiment in order else len(order)
        found.append(((study, one.experiment, place, column, row), named))
    found.sort(key=lambda pair: pair[0])
    return [replace(one, number=number) for number, (_, one) in enumerate(found, 1)]


def paper_score(result: Result, experiments: Mapping[str, Study]) -> PaperScore | None:
    """Return the paper's score for a result, or ``None``.

    A stored result belongs to its experiment and row. Any other result is compared with the row of
    its model, if it is a result on that benchmark by its usual metric, which is that of the paper.
    If such rows have different scores on its dataset, because they differ in their scales, it is
    compared with the row that has the name of the model, if its own scales are the usual ones.

    Args:
        result (Result): The result.
        experiments (Mapping[str, Study]): Experiments by name.
    """
    if result.experiment:
        experiment = experiments.get(result.experiment)
        return published_score(experiment, result.row, result.column) if experiment else None
    dataset, model = result.dataset, result.report["model"]
    usual = ENTRIES[dataset].metric if dataset in ENTRIES else default_metric(False)
    origin = (result.report.get("input") or {}).get("data", dataset)  # absent in early versions
    if (result.metric, origin) != (usual, dataset):
        return None
    found = [
        (row.name, score)
        for study in experiments.values()
        for row in study.rows
        if row.architecture == model
        and (score := published_score(study, row.name, dataset)) is not None
    ]
    scores = {score for _, score in found}
    if len(scores) > 1 and "--scales" not in command_line(result).split():
        scores = {score for name, score in found if name == model}
    return scores.pop() if len(scores) == 1 else None
