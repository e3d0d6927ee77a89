"""Reports of cells on disk: what is done, what is out of date, and a compact form to keep."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mgnni.data.statistics import scores, summarize
from mgnni.errors import DataError, MgnniError
from mgnni.files import read_object, to_json, write_object
from mgnni.reproduce.study import Cell
from mgnni.train.config import Config
from mgnni.train.folder import FILES
from mgnni.train.runs import Run

REPORT, CONFIG, FAILURE = "report.json", "config.json", "failed.json"
MORE_RUNS = "more_runs"  # folder inside that of a cell, for runs that are being added
LOCK = ".cell.lock"  # file in the folder of a cell while a process works on it
MISSING, DONE, OTHER = "missing", "done", "other"
WRONG = (KeyError, TypeError, AttributeError, ValueError)  # errors of a report of another shape


@dataclass(frozen=True)
class Stored:
    """What the folder of a cell holds.

    Attributes:
        state: ``"missing"``, ``"done"``, or ``"other"``, a report made with other settings than
            the definition has now, or with fewer runs.
        report: The report, if there is one.
        why: The first setting that differs.
        missing: Runs to add, if nothing else differs.
    """

    state: str
    report: dict[str, Any] | None = None
    why: str = ""
    missing: tuple[Run, ...] = ()


class BusyError(DataError):
    """Another process works on a cell."""


@contextlib.contextmanager
def locked(cell: Cell, output: Path) -> Iterator[None]:
    """Keep other processes from working on a cell.

    Args:
        cell (Cell): The cell.
        output (Path): Folder of all experiments.

    Raises:
        BusyError: Another process works on it.
    """
    folder = cell.folder(output)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BusyError(f"{folder}: another process is training here; wait for it") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows does not remove a file that is open
            (folder / LOCK).unlink()
        lock.release()


def stored(cell: Cell, output: Path) -> Stored:
    """Return what is stored of a cell.

    Args:
        cell (Cell): The cell.
        output (Path): Folder of all experiments.
    """
    path = cell.folder(output) / REPORT
    if not path.exists():
        return Stored(MISSING)
    report = read_object(path, "delete it to train again")
    if "experiment" not in report:  # the process died before it was kept: it can be finished
        return Stored(MISSING)
    try:
        why = _difference(cell, report)
        missing = () if why else _missing(cell, report)
        if missing:
            why = f"{len(missing)} runs missing"
        _check(cell, report)
    except WRONG as error:
        raise DataError(
            f"{path}: must be a report of mgnni reproduce (got {type(error).__name__}: {error}); "
            "delete it to train again"
        ) from error
    return Stored(OTHER if why else DONE, report, why, missing)


def _check(cell: Cell, report: Mapping[str, Any]) -> None:
    """Raise one of ``WRONG`` unless a report has runs, their scores, and its time."""
    if not report["runs"]:
        raise ValueError("no runs")
    float(report["seconds"])
    values = scores(report, cell.rule)
    if values:
        summarize(values)


def _difference(cell: Cell, report: Mapping[str, Any]) -> str:
    """Return the first setting of a report that is not that of the cell.

    An option that did not exist when the report was made counts as its default.
    """
    try:
        there, asked = _settings(Config.from_dict(report["config"])), _settings(cell.config())
    except MgnniError as error:  # for example a preset or an option that does not exist any more
        return str(error)
    for name in sorted(there.keys() | asked.keys()):
        if there.get(name) != asked.get(name):
            return f"{name} {_short(there.get(name))}, now {_short(asked.get(name))}"
    if report["options"] != cell.options:
        return f"options {report['options']}, now {cell.options}"
    # A training that recorded the test curve can be scored by other rules than its own.
    if report["protocol"]["rule"] != cell.rule and not scores(report, cell.rule):
        return f"rule {report['protocol']['rule']}, now {cell.rule}"
    return ""


def _missing(cell: Cell, report: Mapping[str, Any]) -> tuple[Run, ...]:
    """Return the runs of a cell that a report does not have."""
    there = {Run(run["split"], run["seed"]) for run in report["runs"]}
    asked = cell.chosen_runs(report["data"]["splits"])
    return tuple(run for run in asked if run not in there)


def _settings(config: Config) -> dict[str, Any]:
    """Return all options of a training and its model, as plain data.

    The number of nodes is left out: it follows from the data, and is known after loading them.
    """
    data = json.loads(to_json(config.to_dict()))
    settings = {**data.pop("model"), **data}
    settings.pop("num_nodes", None)
    return settings


def copy_of_other(cell: Cell, output: Path, entry: str = "") -> dict[str, Any] | None:
    """Store the report of the same training in another experiment, and return it.

    Tables share trainings, for example that of all scales with attention.

    Args:
        cell (Cell): A cell without a report, or with one that has too few runs.
        output (Path): Folder of all experiments.
        entry (str, optional): Entry that the report must have. (default: :obj:`""`)
    """
    folder = cell.folder(output)
    for path in sorted(folder.parents[2].glob(f"*/*/{cell.column.name}/{REPORT}")):
        try:
            report, header = (read_object(path.with_name(one), "") for one in (REPORT, CONFIG))
            copied = {**report, "experiment": str(cell), "copy_of": report["experiment"]}
            same = (
                (report["dataset"], report["quick"]) == (cell.column.dataset, cell.quick)
                and (not entry or entry in report)
                and not _difference(cell, report)
                and not _missing(cell, report)
            )
        except WRONG:  # not a report of ours, or damaged
            continue
        if same:
            folder.mkdir(parents=True, exist_ok=True)
            write_object(folder / CONFIG, header, compact=True)
            write_object(folder / REPORT, copied, compact=True)
            clear(folder / MORE_RUNS)
            return copied
    return None


def keep(
    cell: Cell,
    output: Path,
    report: Mapping[str, Any],
    header: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Store the report of a finished cell in a compact form, and remove everything else.

    Args:
        cell (Cell): The cell.
        output (Path): Folder of all experiments.
        report (Mapping[str, Any]): The report of its training, perhaps with more entries.
        header (Mapping[str, Any], optional): What to store as ``config.json``; ``None`` keeps that
            of the training. (default: :obj:`None`)
    """
    folder = cell.folder(output)
    compact = {**report, "experiment": str(cell), "quick": cell.quick, "options": cell.options}
    compact.pop("classification", None)  # as long as all the rest
    compact["runs"] = [
        {name: value for name, value in run.items() if name != "test_curve"}
        for run in report["runs"]
    ]
    # The report is last, so that a process that dies in between leaves a complete training.
    header = header or json.loads((folder / CONFIG).read_text("utf-8"))
    write_object(folder / CONFIG, header, compact=True)
    write_object(folder / REPORT, compact, compact=True)
    for name in (*FILES, ".lock", FAILURE):
        if name not in (CONFIG, REPORT):
            (folder / name).unlink(missing_ok=True)
    return compact


def clear(folder: Path) -> None:
    """Remove the files of a training, also of runs that were being added, and nothing else.

    Args:
        folder (Path): Folder of a cell, or of the runs that are added to it.
    """
    if not folder.exists():
        return
    clear(folder / MORE_RUNS)
    # config.json is last, so that what a killed process leaves is known as a training.
    for name in (FAILURE, ".lock", *reversed(FILES)):
        (folder / name).unlink(missing_ok=True)
    if folder.name == MORE_RUNS:
        with contextlib.suppress(OSError):  # it holds other files
            folder.rmdir()


def record_failure(cell: Cell, output: Path, message: str) -> None:
    """Store why a cell failed."""
    folder = cell.folder(output)
    folder.mkdir(parents=True, exist_ok=True)
    write_object(folder / FAILURE, {"experiment": str(cell), "error": message}, compact=True)


def forget_failure(cell: Cell, output: Path) -> None:
    """Remove what :func:`record_failure` has stored."""
    (cell.folder(output) / FAILURE).unlink(missing_ok=True)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
