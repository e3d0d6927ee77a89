"""Columns become features: fitted once, on the file a model is trained on, then encoded alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.arrow import pa, pc
from mgnni.data.tables.schema import DRAWN_FROM_TABLE, Column
from mgnni.data.tables.table import Table
from mgnni.data.tables.values import Doubles, in_order, kind_of, numbers, text, truths
from mgnni.data.tables.wording import counted, listed, show
from mgnni.errors import DataError

MOST_CATEGORIES = 1000
FEW = 20  # so many categories are never too many, however short the table is
NEARLY_ALL = 0.9
LARGE = 1000.0

Floats = npt.NDArray[np.float32]
# A column of numbers with nan for a missing one, or (pyarrow) of text with null.
Values = Any


def parse_columns(
    table: Table, data: Mapping[str, Any], kinds: Mapping[str, str | None]
) -> tuple[dict[str, str], dict[str, Values]]:
    """Return the kind of each column, found out where it is None, and its values."""
    found, values = {}, {}
    for name, given in kinds.items():
        kind = given or kind_of(table, name, data[name])
        read = {"number": numbers, "bool": truths}.get(kind)
        values[name] = read(table, name, data[name]) if read else text(data[name])
        found[name] = kind
    return found, values


def fit_columns(
    table: Table, kinds: Mapping[str, str], values: Mapping[str, Values]
) -> tuple[tuple[Column, ...], list[str]]:
    """Return what to remember of each column, and what to note."""
    columns, notes, constant, large = [], [], [], []
    for name, kind in kinds.items():
        column = values[name]
        gone = int(np.isnan(column).sum()) if kind != "category" else column.null_count
        if gone == len(column):
            raise DataError(
                f"{table.path}: column {show(name)} must hold some value (got only empty cells); "
                f"fill it, or pass --ignore {name}"
            )
        if kind == "category":
            categories = _categories(table, name, column)
            columns.append(Column(name, kind, categories, missing=gone > 0))
            same = len(categories) == 1
        else:
            fill = float(np.nanmean(column))
            columns.append(Column(name, kind, missing=gone > 0, fill=fill))
            low, high = float(np.nanmin(column)), float(np.nanmax(column))
            same = low == high
            if max(-low, high) > LARGE:
                large.append(name)
        if gone:
            how = "its own category" if kind == "category" else "the mean, and a mark"
            notes.append(f"column {show(name)}: {counted(gone, 'missing value')}, {how}")
        elif same:
            constant.append(name)
    if constant:
        notes.append(f"the same in every row: {listed(constant)}")
    if large:
        notes.append(f"numbers above {LARGE:g} in {listed(large)}: standardize=True may help")
    return tuple(columns), notes


def standardized(
    columns: Sequence[Column],
    values: Mapping[str, Values],
    degree: Doubles,
    train: npt.NDArray[np.bool_],
) -> tuple[Column, ...]:
    """Return the columns with mean and deviation of their numbers over the training nodes."""
    done = []
    for column in columns:
        if column.kind in ("number", "degree"):
            raw = degree if column.kind == "degree" else values[column.name]
            column = column.standardized(np.where(np.isnan(raw), column.fill, raw)[train])
        done.append(column)
    return tuple(done)


def encode(
    columns: Sequence[Column], values: Mapping[str, Values], degree: Doubles
) -> tuple[Floats, list[str]]:
    """Return the features of all nodes, and what to note.

    Args:
        columns: as they were fitted.
        values: parsed cells of the columns that are in a table.
        degree: number of edges that end in each node.
    """
    width = sum(len(column.feature_names) for column in columns)
    x = np.zeros((len(degree), width), dtype=np.float32)
    notes: list[str] = []
    at = 0
    for column in columns:
        own = x[:, at : at + len(column.feature_names)]
        at += own.shape[1]
        if column.kind == "category":
            notes += _encode_categories(own, column, values[column.name])
        elif column.kind == "constant":
            own[:, 0] = 1
        else:
            raw = degree if column.kind == "degree" else values[column.name]
            notes += _encode_numbers(own, column, raw)
    return x, notes


def in_table(columns: Sequence[Column]) -> dict[str, str]:
    """Return name and kind of the columns that a table must have."""
    return {column.name: column.kind for column in columns if column.kind in DRAWN_FROM_TABLE}


def _categories(table: Table, name: str, column: Any) -> tuple[str, ...]:
    distinct = pc.unique(column).drop_null().to_pylist()
    filled = len(column) - column.null_count
    nearly_all = len(distinct) > FEW and len(distinct) > NEARLY_ALL * filled
    if len(distinct) > MOST_CATEGORIES or nearly_all:
        raise DataError(
            f"{table.path}: column {show(name)} must hold at most {MOST_CATEGORIES} categories, "
            f"and far fewer than rows (got {len(distinct)} in {counted(filled, 'row')}, the first "
            f"{show(distinct[0])}); pass --ignore {name}, or group them"
        )
    return tuple(in_order(distinct))


def _encode_numbers(own: Floats, column: Column, raw: Doubles) -> list[str]:
    gone = np.isnan(raw)
    filled = np.where(gone, column.fill, raw)
    own[:, 0] = (filled - column.mean) / column.deviation
    if column.missing:
        own[:, 1] = gone
        return []
    if gone.any():
        count = counted(int(gone.sum()), "missing value")
        return [f"column {show(column.name)}: {count}, none in training: {column.fill:g} instead"]
    return []


def _encode_categories(own: Floats, column: Column, raw: Any) -> list[str]:
    codes = pc.index_in(raw, value_set=pa.array(column.categories, pa.string()))
    gone = pc.is_null(raw).to_numpy()
    code = pc.fill_null(codes, -1).to_numpy()
    row = np.flatnonzero(code >= 0)
    own[row, code[row]] = 1
    if column.missing:
        own[gone, -1] = 1
    unknown = (code < 0) & ~(gone & column.missing)
    if not unknown.any():
        return []
    count = counted(int(unknown.sum()), "value")
    return [f"column {show(column.name)}: {count} not seen in training, all zeros"]
