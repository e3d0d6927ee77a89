"""What the cells of a column say: numbers, truth values or text, each cell checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.arrow import pa, pc
from mgnni.data.tables.table import Table
from mgnni.data.tables.wording import show
from mgnni.errors import DataError

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DECIMAL_COMMA = r"^[+-]?\d+,\d+$"
LARGEST = float(np.finfo(np.float32).max)
TRUTH = {"true": True, "false": False, "1": True, "0": False}
Doubles = npt.NDArray[np.float64]


def first(mask: Any, wanted: bool = True) -> int | None:
    """Return where a mask first has the value; nulls have none."""
    index = pc.index(mask, pa.scalar(wanted)).as_py()
    return None if index < 0 else int(index)


def kind_of(table: Table, name: str, column: Any) -> str:
    """Return ``"number"``, ``"bool"`` or ``"category"``; refuse a mixture."""
    if pa.types.is_boolean(column.type):
        return "bool"
    if not is_text(column):
        return "number"
    if table.typed:
        return "category"
    if _cast(column) is not None:
        return "number"
    trimmed = pc.utf8_trim_whitespace(column)
    is_number = pc.match_substring_regex(trimmed, NUMBER)
    if pc.any(is_number).as_py():
        wrong = first(is_number, False)
        if wrong is not None:
            raise DataError(
                f"{table.row(wrong)}: column {show(name)} must hold numbers, as in other rows (got "
                f"{show(column[wrong].as_py())}); correct it, leave it empty if it is missing, or "
                f"pass --categorical {name} or --ignore {name}"
            )
        return "number"
    comma = first(pc.match_substring_regex(trimmed, DECIMAL_COMMA))
    if comma is not None:
        raise DataError(
            f"{table.row(comma)}: column {show(name)} must have decimal points (got "
            f"{show(column[comma].as_py())}); write 1.5, not 1,5, or pass --categorical {name}"
        )
    words = set(pc.unique(pc.utf8_lower(trimmed)).drop_null().to_pylist())
    return "bool" if words <= {"true", "false"} else "category"


def numbers(
    table: Table, name: str, column: Any, remedy: str = "leave it empty if it is missing"
) -> Doubles:
    """Return a column of numbers, nan where it is missing; refuse what is no finite number."""
    values = _cast(column)
    if values is None:
        trimmed = pc.utf8_trim_whitespace(column)
        wrong = first(pc.match_substring_regex(trimmed, NUMBER), False)
        if wrong is not None:
            raise DataError(
                f"{table.row(wrong)}: column {show(name)} must hold numbers (got "
                f"{show(column[wrong].as_py())}); correct it, or {remedy}"
            )
        values = pc.cast(trimmed, pa.float64())
    wrong = first(pc.less_equal(pc.abs(values), LARGEST), False)  # nan compares false
    if wrong is not None:
        raise DataError(
            f"{table.row(wrong)}: column {show(name)} must hold finite numbers below 3.4e38 (got "
            f"{show(column[wrong].as_py())}); correct it, or {remedy}"
        )
    filled = pc.fill_null(values, float("nan"))
    return np.asarray(filled.to_numpy(), dtype=np.float64)


def truths(table: Table, name: str, column: Any) -> Doubles:
    """Return a column of true and false, or 0 and 1, as 0 and 1; nan where it is missing."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.int8())
    if pa.types.is_floating(column.type):  # integers with missing ones, as data frames hold them
        column = pc.cast(column, pa.string())
    words = pc.utf8_lower(pc.utf8_trim_whitespace(pc.cast(column, pa.string())))
    codes = pc.index_in(words, value_set=pa.array(list(TRUTH)))
    wrong = first(pc.and_(pc.is_valid(column), pc.is_null(codes)))
    if wrong is not None:
        raise DataError(
            f"{table.row(wrong)}: column {show(name)} must hold 0 or 1, true or false (got "
            f"{show(column[wrong].as_py())}); correct it"
        )
    table_of_values = np.array([*TRUTH.values(), np.nan])
    return np.asarray(table_of_values[pc.fill_null(codes, len(TRUTH)).to_numpy()])


def text(column: Any) -> Any:
    """Return a column as text: 1 and 1.0 of a number column are both ``"1"``."""
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    return column if is_text(column) else pc.cast(column, pa.string())


def is_text(column: Any) -> bool:
    """Tell whether the column is of text."""
    return bool(pa.types.is_string(column.type))


def in_order(values: Sequence[str]) -> list[str]:
    """Return the values sorted: as numbers if all are, else as text."""
    as_number = pc.match_substring_regex(pa.array(values, pa.string()), NUMBER)
    if pc.all(as_number).as_py():
        return sorted(values, key=lambda value: (float(value), value))
    return sorted(values)


def _cast(column: Any) -> Any:
    """Return the column as doubles, or None if some cell is no number."""
    try:
        return pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        return None
