"""Learning curves from ``log.jsonl``, thinned to a number of points."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mgnni.errors import DataError
from mgnni.html_report.report_check import finite_number


@dataclass
class Curve:
    """The learning curve of one run, one number per epoch.

    Attributes:
        epoch: Numbers of the epochs.
        loss: Training loss.
        val_loss: Validation loss; empty without a validation set.
        val_metric: Validation metric; empty without a validation set.
    """

    epoch: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    val_loss: list[float] = field(default_factory=list)
    val_metric: list[float] = field(default_factory=list)

    def thinned(self, points: int) -> Curve:
        """Return at most ``points`` epochs, evenly spaced, with the first and the last one."""
        count = len(self.epoch)
        if count <= points:
            return self
        places = [round(i * (count - 1) / (points - 1)) for i in range(points)]
        parts: list[list[Any]] = [self.epoch, self.loss, self.val_loss, self.val_metric]
        return Curve(*([part[p] for p in places] if part else [] for part in parts))


def read_curves(folder: Path) -> dict[tuple[int, int], Curve]:
    """Return the learning curves of a training by split and seed; none without a log.

    Args:
        folder (Path): The folder of the training.
    """
    file = folder / "log.jsonl"
    if not file.exists():
        return {}
    found: dict[tuple[int, int], Curve] = {}
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            _add(found, json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"{file}, line {number}: is not a row of the log of mgnni train; restore the file, "
                "or delete it to leave the curves out"
            ) from error
    return found


def _add(found: dict[tuple[int, int], Curve], row: dict[str, Any]) -> None:
    runs = list(zip(row["split"], row["seed"], strict=True))
    for name in ("loss", "val_loss", "val_metric"):
        if len(row[name]) not in ({len(runs)} if name == "loss" else {0, len(runs)}):
            raise ValueError(name)
    for place, run in enumerate(runs):
        curve = found.setdefault(run, Curve())
        curve.epoch.append(int(row["epoch"]))
        for name in ("loss", "val_loss", "val_metric"):
            if row[name]:
                getattr(curve, name).append(finite_number(row[name][place]))
