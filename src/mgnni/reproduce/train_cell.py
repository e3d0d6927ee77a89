"""Trains a cell: the runs of a row and a column."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import torch

from mgnni.errors import ArgumentError
from mgnni.reproduce.study import Cell
from mgnni.train.experiment import Experiment
from mgnni.train.fit import train
from mgnni.train.fitted import Fitted
from mgnni.train.source import Source, find_source
from mgnni.train.training import OnEpoch


def source_of(cell: Cell) -> Source:
    """Read the data of a cell."""
    return find_source(cell.column.dataset, options=cell.options)


def train_cell(
    cell: Cell,
    folder: Path,
    device: str,
    on_epoch: OnEpoch,
    source: Source | None = None,
    jobs: int | None = None,
) -> Fitted:
    """Train a cell, or continue it from its checkpoint.

    Args:
        cell (Cell): The cell.
        folder (Path): Its folder.
        device (str): ``"auto"``, ``"cpu"`` or ``"cuda"``.
        on_epoch (Callable[[Epoch], None]): Called after every epoch.
        source (Source, optional): Its data, if they have been read. (default: :obj:`None`)
        jobs (int, optional): Number of processes; ``None`` chooses it, and uses one if this is a
            process that was started beside others. (default: :obj:`None`)
    """
    source = source or source_of(cell)
    runs, last = cell.chosen_runs(len(source.task.splits)), len(source.task.splits) - 1
    if max(run.split for run in runs) > last:
        asked = sorted({run.split for run in runs})
        raise ArgumentError(f"'split' must be at most {last} for {source.task.name} (got {asked})")
    on_cpu = device == "cpu" or (device == "auto" and not torch.cuda.is_available())
    experiment = Experiment(
        source,
        cell.config(),
        runs,
        cell.rule,
        device=device,
        deterministic=on_cpu,
        jobs=1 if multiprocessing.parent_process() is not None else jobs,
    )
    return train(experiment, folder, resume=True, on_epoch=on_epoch, on_note=lambda note: None)


def report_of(fitted: Fitted) -> dict[str, Any]:
    """Return the report of a training."""
    if fitted.report is None:
        raise RuntimeError("a training returns a report")
    return fitted.report
