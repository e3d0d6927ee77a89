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
        One word per row; ``None`` if these are not the data of the training, or if the folder does
        not say what they were.
    """
    try:
        header = read_object(folder / "config.json", "train again")
        name = benchmark_named(data) if fitted.schema is None else None
        if header["data"]["origin"] != (name or str(Path(data).resolve())):
            return None
        task = read_again(folder, header, fitted, name or Path(data), options)
        if fingerprint(task) != header["data"]["fingerprint"]:
            return None
        split = task.splits[fitted.runs[run].split]
    except (MgnniError, KeyError, TypeError):  # a column is left out, predictions are not
        return None
    words = [""] * task.num_rows
    for part in PARTS:
        for row in task.rows_of(split.part(part)).tolist():
            words[row] = part
    return words


def read_again(
    folder: Path,
    header: Mapping[str, Any],
    fitted: Fitted,
    data: str | Path,
    options: dict[str, Any] | None = None,
) -> Task:
    """Return the task of a training from its data as they are now, with splits drawn as then."""
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
