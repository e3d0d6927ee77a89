"""An experiment of a few seconds on synthetic chains."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from mgnni.reproduce.definitions import make_study
from mgnni.reproduce.run import Outcome, run_cell
from mgnni.reproduce.study import Cell, Study

TINY: dict[str, Any] = {
    "title": "Chains",
    "paper": "no table",
    "seeds": 2,
    "columns": [
        {
            "name": "short",
            "data": "chains",
            "options": {"length": 6, "num_splits": 2, "num_chains_per_class": 4},
            "changes": {"epochs": 12, "patience": None},
        }
    ],
    "rows": [
        {"name": "mgnni", "seeds": 1, "paper": {"short": [99.0, 1.0]}},
        {"name": "gcn", "changes": {"lr": 0.02}},
        {"name": "gcn-narrow", "model": "gcn", "data": {"short": {"hidden_channels": 4}}},
    ],
    "reference": "mgnni",
}
NEVER_SAME = ("seconds", "peak_memory", "processes", "commit")


def tiny(**changes: Any) -> Study:
    """The experiment, with some of its entries replaced."""
    return make_study("tiny", {**TINY, **changes})


def cell(row: str = "gcn", study: Study | None = None) -> Cell:
    """A cell of the experiment."""
    return next(one for one in (study or tiny()).cells() if one.row.name == row)


def run(one: Cell, output: Path, on_epoch: Any = lambda epoch: None) -> Outcome:
    """Train a cell here."""
    return run_cell(one, output, "cpu", on_epoch)


def killed(one: Cell, output: Path, device: str, replaces: bool) -> Outcome:
    """Train a cell; the process of gcn-narrow is killed."""
    if one.row.name == "gcn-narrow":
        os.kill(os.getpid(), signal.SIGKILL)
    return run(one, output)


def lasting(report: dict[str, Any]) -> dict[str, Any]:
    """A report without what depends on the clock."""
    return {name: value for name, value in report.items() if name not in NEVER_SAME}
