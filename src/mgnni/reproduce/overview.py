"""The state of experiments: their tables, and a summary as plain data."""

from __future__ import annotations

import io
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mgnni.data.rules import DEFAULT_RULE
from mgnni.data.statistics import scores, summarize
from mgnni.files import atomic_write
from mgnni.reproduce.kinds import KINDS
from mgnni.reproduce.sheet import Found, Sheet
from mgnni.reproduce.store import Stored, stored
from mgnni.reproduce.study import Cell, Study

OUTPUT = Path("runs/reproduce")
PLACES = ("inside", "below", "above")  # of a published number
MEASURED = ("timing", "attention_values", "distance", "response", "lattice", "seconds", "device")


def by_study(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Return the cells of each experiment."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.study.name, []).append(cell)
    return found


def stored_cells(cells: Sequence[Cell], output: Path) -> dict[Cell, Stored]:
    """Return what is stored of each cell.

    Args:
        cells (Sequence[Cell]): The cells.
        output (Path): Folder of all experiments.
    """
    return {cell: stored(cell, output) for cell in cells}


def tables(study: Study, found: Found, output: Path) -> list[Sheet]:
    """Return the tables of an experiment.

    Args:
        study (Study): The experiment.
        found (Mapping[Cell, Stored]): Its cells, and what is stored of them.
        output (Path): Folder of all experiments, for the commands below the tables.
    """
    quick = any(cell.quick for cell in found)  # whose folder is inside of that of the command
    output = output.parent if quick else output
    command = ["mgnni", "reproduce", study.name, *(["--quick"] if quick else [])]
    command += [] if output == OUTPUT else ["--output", str(output)]
    return KINDS[study.kind].tables(study, found, shlex.join(command))


def status(found: Found) -> Sheet:
    """Return how much of each experiment is trained, and where its published numbers lie.

    Args:
        found (Mapping[Cell, Stored]): Cells, and what is stored of them.
    """
    lines = []
    for cells in by_study(list(found)).values():
        study, places = cells[0].study, Counter(_place(cell, found[cell]) for cell in cells)
        trained = sum(found[cell].report is not None for cell in cells)
        compared = any(places[place] for place in PLACES)
        numbers = [str(places[place]) if compared else "" for place in PLACES]
        lines.append([study.name, study.title, f"{trained} of {len(cells)}", *numbers])
    note = (
        "A cell is a model on a dataset, with all splits and seeds. inside, below, above: where "
        "the published number lies relative to the 95 % interval of ours, by the rule that made "
        "it. Above means that it was not reached. Cells without an interval, of data with one "
        "split, are not counted."
    )
    return Sheet("", ["experiment", "", "cells trained", *PLACES], lines, 2, (note,))


def _place(cell: Cell, one: Stored) -> str:
    """Return where the published score of a cell lies; empty if it is not compared."""
    number = cell.row.paper.get(cell.column.name)
    if not number or one.report is None:
        return ""
    values = scores(one.report, cell.rule)
    return summarize(values).place(number[0]) if values else ""


def draw(study: Study, output: Path, *, quick: bool) -> Path | None:
    """Draw the figure of all stored cells of an experiment; return its path, or None.

    Args:
        study (Study): The experiment.
        output (Path): Folder of all experiments.
        quick (bool): Whether it is the quick version.
    """
    kind, content = KINDS[study.kind], io.BytesIO()
    if kind.draw is None:
        return None
    cells = [replace(cell, quick=quick) for cell in study.cells()]
    if not kind.draw(study, stored_cells(cells, output), content):
        return None
    path = output / study.name / f"{study.name}.png"
    with atomic_write(path) as file:
        file.write(content.getvalue())
    return path


def summary(found: Found) -> list[dict[str, Any]]:
    """Return the scores of all cells as plain data, in percent."""
    rows = []
    for cell, one in found.items():
        row: dict[str, Any] = {
            "experiment": cell.study.name,
            "row": cell.row.name,
            "column": cell.column.name,
            "state": one.state,
            "why": one.why,
            "paper": cell.row.paper.get(cell.column.name),
            "scores": {},
        }
        for rule in dict.fromkeys((cell.rule, DEFAULT_RULE)) if one.report else ():
            values = scores(one.report or {}, rule)
            if values:
                row["scores"][rule] = vars(summarize(values))
        for name in MEASURED:
            if one.report and name in one.report:
                row[name] = one.report[name]
        rows.append(row)
    return rows
