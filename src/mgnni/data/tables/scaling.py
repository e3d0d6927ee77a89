"""Numbers of a feature column on the scale of the training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.messages import listed
from mgnni.data.tables.schema import ROUNDING, Column

FAR = 10  # standard deviations, beyond which most values of a column suggest another unit

Numbers = npt.NDArray[np.floating[Any]]


def scaled(column: Column, raw: Numbers) -> npt.NDArray[np.float64]:
    """Returns numbers as a feature; zeros if the deviation of the column is 0.

    Args:
        column (Column): The column.
        raw (numpy.ndarray): Its numbers.
    """
    if column.deviation == 0:
        return np.zeros(len(raw))
    return (raw.astype(np.float64) - column.mean) / column.deviation


def notes_on_scale(columns: Iterable[tuple[Column, Numbers]], advice: str = "") -> list[str]:
    """Returns notes on standardised columns that differ from those of the training rows.

    Args:
        columns (iterable of tuple): Each column with its numbers in the other rows, with nan for
            missing ones.
        advice (str, optional): What to do about columns that have no effect.
    """
    unused: list[str] = []
    far: list[Column] = []
    large: list[Column] = []
    for column, raw in columns:
        known = raw[~np.isnan(raw)]
        size = np.abs(scaled(column, known))
        if column.mean == 0:  # zeros, of which there may be many, say nothing about the unit
            size = size[size > 0]
        if column.deviation == 0:
            if not np.allclose(known, column.mean, rtol=ROUNDING, atol=0):
                unused.append(column.name)
        elif len(size) and float(np.median(size)) > FAR:
            (large if column.mean == 0 else far).append(column)
    notes = []
    if unused:
        notes.append(
            f"column {listed(unused)}: no two different values in the training rows: encoded as 0 "
            f"everywhere{advice}"
        )
    if far:
        notes.append(
            f"column {listed(one.name for one in far)}: most values are more than {FAR} standard "
            f"deviations from the mean of the training, {listed(_round(one.mean) for one in far)}; "
            "is the unit the same?"
        )
    if large:
        notes.append(
            f"column {listed(one.name for one in large)}: most values other than 0 are more than "
            f"{FAR} times as large as in training; is the unit the same?"
        )
    return notes


def _round(number: float) -> float:
    return float(f"{number:g}")
