"""Which rows of a graph a model was trained, validated and tested on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mgnni.data.catalog import benchmark_named
from mgnni.data.split import PARTS
from mgnni.data.task import Task
from mgnni.errors import MgnniError
from mgnni.files import read_object
from mgnni.train.fitted import Fitted
from mgnni.train.folder import PREVIOUS, REPORT
from mgnni.train.report import fingerprint
from mgnni.train.source import find_source


def trained_rows(
    folder: Path, fitted: Fitted, run: int, data: str, options: dict[str, Any] | None = None
) -> list[str] | None:
    """Return ``"train"``, ``"val"`` or ``"test"`` for each row, empty for rows in no set.

    Args:
        folder (Path): Folder of the training.
        fitted (Fitted): Its model.
        run (int): Index of the run that predicts; its split is meant.
        data (str): Benchmark or path.
        options (dict[str, Any], optional): Options of the benchmark. (default: :obj:`None`)

    Returns:
        One word per row; ``None`` if these are not the data of the training, wherever they are
        now, or if the folder does not say what they were.
    """
    try:
        header = read_object(folder / "config.json", "train again")
        name = benchmark_named(data) if fitted.schema is None else None
        task = task_of_training(folder, header, fitted, name or Path(data), options)
        if task is None:
            return None
        split = task.splits[fitted.runs[run].split]
    except (MgnniError, KeyError, TypeError):  # a column is left out, predictions are not
        return None
    words = [""] * task.num_rows
    for part in PARTS:
        for row in task.rows_of(split.part(part)).tolist():
            words[row] = part
    return words


def task_of_training(
    folder: Path,
    header: Mapping[str, Any],
    fitted: Fitted,
    data: str | Path,
    options: dict[str, Any] | None = None,
) -> Task | None:
    """Return the task of data with splits drawn as in training, if they are those of the training.

    Files may be at another place now; their content decides.

    Args:
        folder (Path): Folder of the training.
        header (Mapping[str, Any]): Its ``config.json``.
        fitted (Fitted): Its model.
        data (str or Path): Name of a benchmark, or path of files.
        options (dict[str, Any], optional): Options of the benchmark. (default: :obj:`None`)
    """
    try:
        task = _read_again(folder, header, fitted, data, options)
    except MgnniError:  # for example without labels, which only training needs
        return None
    if isinstance(data, Path):
        origin = Path(header["data"]["origin"])
        task.name = origin.name if data.is_dir() else origin.stem  # part of the fingerprint
    return task if fingerprint(task) == header["data"]["fingerprint"] else None


def _read_again(
    folder: Path,
    header: Mapping[str, Any],
    fitted: Fitted,
    data: str | Path,
    options: dict[str, Any] | None,
) -> Task:
    # While a training goes on for more epochs, its model is that of the previous report.
    name = REPORT if (folder / REPORT).exists() else PREVIOUS
    given = read_object(folder / name, "train again").get("input", {})
    return find_source(
        data,
        options=options,
        tables=None if fitted.schema is None else fitted.schema.options,
        rule=header["rule"],
        num_splits=given.get("num_splits", 1),
        folds=given.get("folds"),
    ).task
