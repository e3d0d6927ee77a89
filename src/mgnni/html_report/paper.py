"""Numbers of the paper, from the definitions of experiments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mgnni.files import read_object
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
        experiment: Name of the experiment.
        name: Name of the row.
        label: What the paper calls it.
        model: Name of the model.
        scores: The paper's score in each column, which is usually a dataset.
    """

    experiment: str
    name: str
    label: str
    model: str
    scores: Mapping[str, PaperScore]


def read_rows(folder: Path = DEFINITIONS) -> list[Row]:
    """Return the rows of all experiments that are defined in JSON files.

    A file has ``name`` (default: that of the file) and ``rows``; a row has ``name``, ``label``,
    ``model`` and ``paper``, which maps columns to mean and standard deviation in percent.

    Args:
        folder (Path, optional): Where the files are; it need not exist.
    """
    found = []
    for file in sorted(folder.glob("*.json")):
        content = read_object(file, REMEDY)
        name = str(content.get("name", file.stem))
        found += [_row(name, row) for row in content.get("rows", ()) if isinstance(row, dict)]
    return found


def _row(experiment: str, row: Mapping[str, Any]) -> Row:
    name = str(row.get("name", ""))
    scores = {
        dataset: score
        for dataset, value in (row.get("paper") or {}).items()
        if (score := _score(value)) is not None
    }
    model = str(row.get("model", name))
    return Row(experiment, name, str(row.get("label", name)), model, scores)


def _score(value: Any) -> PaperScore | None:
    mean, std = [*value, None][:2] if isinstance(value, list) and value else (value, None)
    if not isinstance(mean, (int, float)):
        return None
    return PaperScore(mean / 100, std / 100 if isinstance(std, (int, float)) else None)


def in_order(results: Iterable[Result], rows: Sequence[Row]) -> list[Result]:
    """Return stored results by experiment, column and row, with the labels of their rows.

    Other results come first, in their order.

    Args:
        results (Iterable[Result]): The results.
        rows (Sequence[Row]): Rows of experiments, in the order of the paper.
    """
    place = {(row.experiment, row.name): number for number, row in enumerate(rows)}
    found = []
    for one in results:
        row = place.get((one.experiment, one.row), len(rows))
        label = rows[row].label if row < len(rows) else one.label
        label += " (quick)" if one.report.get("quick") is True else ""  # of few splits and epochs
        column = one.column if one.experiment else ""
        found.append(((one.experiment, column, row), replace(one, label=label)))
    found.sort(key=lambda pair: pair[0])
    return [replace(one, number=number) for number, (_, one) in enumerate(found, 1)]


def paper_score(result: Result, rows: Sequence[Row]) -> PaperScore | None:
    """Return the paper's score for a result, or ``None``.

    A stored result belongs to its experiment and row. Any other result is compared with the row of
    its model, if all such rows have the same score on its dataset.

    Args:
        result (Result): The result.
        rows (Sequence[Row]): All rows.
    """
    dataset, model = result.dataset, result.report["model"]
    for row in rows:
        if (row.experiment, row.name) == (result.experiment, result.row):
            return row.scores.get(result.column)
    if result.experiment:
        return None
    found = {row.scores[dataset] for row in rows if row.model == model and dataset in row.scores}
    return found.pop() if len(found) == 1 else None
