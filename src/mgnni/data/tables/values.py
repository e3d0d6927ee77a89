"""Cells of a column as numbers, booleans or text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.messages import flag
from mgnni.data.tables.table import Cells, Table, pa, pc

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# Numbers with a comma before the decimals or between thousands: 1,5 and 1,200.50 and 1.200,50.
COMMAS = r"^[+-]?(\d+,\d+|\d{1,3}(,\d{3})+(\.\d+)?|\d{1,3}(\.\d{3})+,\d+)$"
DATE = r"^(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{2,4})([T ]\d.*)?$"
LARGEST = float(np.finfo(np.float32).max)
BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
# Spellings of a missing value in numeric and boolean columns, in any case, after pandas.read_csv.
MISSING = ("na", "n/a", "nan", "-nan", "null", "none", "<na>", "#n/a", "#na")
Doubles = npt.NDArray[np.float64]


def means_missing(column: Cells) -> Cells:
    """Returns a mask of the cells that spell out a missing value, such as ``NA``."""
    words = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    return pc.is_in(words, value_set=pa.array(MISSING))


def kind_of(table: Table, name: str, column: Cells) -> str:
    """Returns ``"number"``, ``"bool"`` or ``"category"``.

    Raises:
        DataError: The column mixes numbers and text.
    """
    if pa.types.is_boolean(column.type):
        return "bool"
    if not is_text(column):
        return "number"
    if table.typed:
        return "category"
    if _cast(column) is not None:
        return "number"
    words = pc.utf8_trim_whitespace(without_missing(column))
    if words.null_count == len(words):
        return "number"
    is_number = pc.match_substring_regex(words, NUMBER)
    _check_commas(table, name, column, words, f", or pass {flag('categorical', name)}")
    if pc.any(is_number).as_py():
        remedy = (
            "correct it, leave it empty if it is missing, or pass "
            f"{flag('categorical', name)} or {flag('ignore', name)}"
        )
        table.check(name, column, is_number, "hold numbers like its other rows", remedy)
        return "number"
    distinct = set(pc.unique(pc.utf8_lower(words)).drop_null().to_pylist())
    return "bool" if distinct <= {"true", "false"} else "category"


def are_dates(column: Cells) -> bool:
    """Returns whether all filled cells of a column of text are dates such as 2024-05-01."""
    words = pc.utf8_trim_whitespace(column)
    return bool(pc.all(pc.match_substring_regex(words, DATE)).as_py())


def has_number(column: Cells) -> bool:
    """Returns whether some cell is a number."""
    if not is_text(column):
        return bool(len(column) > column.null_count)
    words = pc.utf8_trim_whitespace(column)
    return bool(pc.any(pc.match_substring_regex(words, NUMBER)).as_py())


def numbers(table: Table, name: str, column: Cells, *, missing: bool = True) -> Doubles:
    """Returns a column of finite numbers, with nan for missing ones.

    Args:
        table (Table): The table, for messages.
        name (str): Name of the column.
        column (Cells): Its cells.
        missing (bool, optional): Whether ``NA``, ``nan`` and the like are missing values, and not
            errors. (default: :obj:`True`)
    """
    values = _cast(column)
    remedy = f"correct it, or {'leave it empty if it is missing' if missing else 'remove the edge'}"
    if values is None:
        trimmed = pc.utf8_trim_whitespace(without_missing(column) if missing else column)
        _check_commas(table, name, column, trimmed)
        is_number = pc.match_substring_regex(trimmed, NUMBER)
        table.check(name, column, is_number, "hold numbers", remedy)
        values = pc.cast(trimmed, pa.float64())
    if missing:
        values = without_missing(values)
    is_finite = pc.less_equal(pc.abs(values), LARGEST)  # nan compares false
    table.check(name, column, is_finite, "hold finite numbers below 3.4e38", remedy)
    return np.asarray(pc.fill_null(values, float("nan")).to_numpy(), dtype=np.float64)


def booleans(table: Table, name: str, column: Cells, *, missing: bool = False) -> Doubles:
    """Returns a column of true and false, or 0 and 1, as 0 and 1, with nan for missing ones.

    Args:
        table (Table): The table, for messages.
        name (str): Name of the column.
        column (Cells): Its cells.
        missing (bool, optional): Whether ``NA``, ``nan`` and the like are missing values, and not
            errors. (default: :obj:`False`)
    """
    text = as_text(column)
    words = pc.utf8_lower(pc.utf8_trim_whitespace(without_missing(text) if missing else text))
    codes = pc.index_in(words, value_set=pa.array(list(BOOLEANS)))
    valid = pc.or_(pc.is_null(words), pc.is_valid(codes))
    table.check(name, column, valid, "hold 0 or 1, true or false", "correct it")
    by_code = np.array([*BOOLEANS.values(), np.nan])
    return np.asarray(by_code[pc.fill_null(codes, len(BOOLEANS)).to_numpy()])


def as_text(column: Cells) -> Cells:
    """Returns a column as text: 1 and 1.0 are both ``"1"``, and nan is null."""
    if pa.types.is_floating(column.type):
        column = without_missing(column)
    return column if is_text(column) else pc.cast(column, pa.string())


def is_text(column: Cells) -> bool:
    """Returns whether the column has text."""
    return bool(pa.types.is_string(column.type))


def sorted_values(values: Sequence[str]) -> list[str]:
    """Returns the values sorted as numbers if all are numbers, and as text otherwise."""
    is_number = pc.match_substring_regex(pa.array(values, pa.string()), NUMBER)
    if pc.all(is_number).as_py():
        return sorted(values, key=lambda value: (float(value), value))
    return sorted(values)


def without_missing(column: Cells) -> Cells:
    """Returns the column with null for nan, or for text that spells out a missing value."""
    missing = means_missing(column) if is_text(column) else pc.is_nan(column)
    return pc.if_else(missing, pa.scalar(None, column.type), column)


def _check_commas(table: Table, name: str, column: Cells, words: Cells, more: str = "") -> None:
    """Raises an error if a cell is a number with commas."""
    has_comma = pc.match_substring_regex(words, COMMAS)
    remedy = f"write 1.5, not 1,5, and 1200, not 1,200{more}"
    table.check(name, column, pc.invert(has_comma), "have decimal points and no commas", remedy)


def _cast(column: Cells) -> Cells | None:
    """Returns the column as float64, or None if a cell is not a number."""
    try:
        return pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        return None
