"""What is measured in the cells of an experiment, by its kind."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from mgnni.errors import ArgumentError
from mgnni.reproduce.attention_figure import attention_figure
from mgnni.reproduce.chain_length import distance
from mgnni.reproduce.chain_response import response
from mgnni.reproduce.lattice_error import error_by_range
from mgnni.reproduce.lattice_tables import lattice_figure, lattice_tables
from mgnni.reproduce.length_figure import length_figure
from mgnni.reproduce.response_figure import response_figure
from mgnni.reproduce.sheet import Found, Sheet
from mgnni.reproduce.study import Cell, Study
from mgnni.reproduce.synthetic_tables import distance_tables, response_tables
from mgnni.reproduce.tables import accuracy_tables, attention_tables, seconds_tables
from mgnni.reproduce.train_cell import report_of, source_of, train_cell
from mgnni.train.runs import Epoch
from mgnni.train.training import OnEpoch

NODES = 100  # whose attention is stored


@dataclass(frozen=True)
class Kind:
    """A kind of experiment.

    Args:
        measure (Callable): Trains a cell in a folder and returns its report; arguments are the
            cell, the folder, the device and a function that is called after every epoch.
        tables (Callable): Returns the tables of an experiment; arguments are the experiment, its
            cells with what is stored of them, and the command that trains it.
        draw (Callable, optional): Draws the figure of an experiment into a file, and returns
            whether there was something to draw. (default: :obj:`None`)
        alone (bool, optional): Whether the cell measures time, so that no other may run at the
            same time. (default: :obj:`False`)
        shared (bool, optional): Whether the report of the same training in another experiment is
            taken instead of training again. (default: :obj:`False`)
        adds (str, optional): Entry of the report that only this kind measures.
            (default: :obj:`""`)
    """

    measure: Callable[[Cell, Path, str, OnEpoch], dict[str, Any]]
    tables: Callable[[Study, Found, str], list[Sheet]]
    draw: Callable[[Study, Found, IO[bytes]], bool] | None = None
    alone: bool = False
    shared: bool = False
    adds: str = ""


def accuracy(cell: Cell, folder: Path, device: str, on_epoch: OnEpoch) -> dict[str, Any]:
    """Return the scores of all runs."""
    return report_of(train_cell(cell, folder, device, on_epoch))


def seconds(cell: Cell, folder: Path, device: str, on_epoch: OnEpoch) -> dict[str, Any]:
    """Return the scores, and ``timing`` in seconds.

    ``epoch`` is the median of an epoch with its validation, ``once`` what all epochs take beyond
    that, for everything that is computed once, and ``total`` the whole training. Of batches that
    are drawn anew, some come for the first time in later epochs.
    """
    source = source_of(cell)
    marks = [time.perf_counter()]

    def mark(epoch: Epoch) -> None:
        marks.append(time.perf_counter())
        on_epoch(epoch)

    report = report_of(train_cell(cell, folder, device, mark, source, jobs=1))
    spans = [after - before for before, after in itertools.pairwise(marks)]
    if len(spans) < 2:
        raise ArgumentError(
            f"'{cell}' needs at least two epochs to be timed (got {len(spans)}); delete {folder} "
            "and repeat the command"
        )
    epoch = statistics.median(spans[1:])
    once = max(sum(spans) - len(spans) * epoch, 0.0)
    timing = {"epoch": epoch, "once": once, "total": report["seconds"]}
    return {**report, "timing": timing}


def attention(cell: Cell, folder: Path, device: str, on_epoch: OnEpoch) -> dict[str, Any]:
    """Return the scores, and ``attention_values``: the weight of each scale at 100 nodes."""
    source = source_of(cell)
    fitted = train_cell(cell, folder, device, on_epoch, source)
    weight = fitted.predictions(source.task.graphs).attention
    if weight is None:
        raise ArgumentError(
            f"'{cell}' must be a model with attention (got {cell.row.architecture})"
        )
    generator = torch.Generator().manual_seed(0)
    nodes = torch.randperm(weight.size(0), generator=generator)[:NODES].sort().values
    table = [[round(value, 4) for value in row] for row in weight[nodes].tolist()]
    found = {"scales": list(fitted.config.model.scales), "nodes": nodes.tolist(), "weights": table}
    found["mean"] = [round(value, 4) for value in weight.mean(0).tolist()]
    return {**report_of(fitted), "attention_values": found}


KINDS: dict[str, Kind] = {
    "accuracy": Kind(accuracy, accuracy_tables, shared=True),
    "seconds": Kind(seconds, seconds_tables, alone=True),
    "attention": Kind(attention, attention_tables, attention_figure),
    "distance": Kind(distance, distance_tables, length_figure, shared=True, adds="distance"),
    "response": Kind(response, response_tables, response_figure),
    "lattice": Kind(error_by_range, lattice_tables, lattice_figure, shared=True, adds="lattice"),
}
