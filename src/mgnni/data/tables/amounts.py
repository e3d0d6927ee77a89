"""Columns of amounts in text tables: numbers with a currency sign or a percent sign."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mgnni.data.tables.messages import show
from mgnni.data.tables.table import Cells, Table, pa, pc
from mgnni.data.tables.values import as_text, is_text, without_missing

SPACE = r"[\s\x{a0}\x{202f}]"
SYMBOL = r"(?P<symbol>[%\p{Sc}])"
GROUPS = r"[1-9]\d{0,2}(%s\d{3})+"
# With a point before the decimals and commas between thousands, and the other way round.
POINT = rf"(\d+|{GROUPS % ','})(\.\d+)?|\.\d+"
COMMA = rf"(\d+|{GROUPS % '[.]'})(,\d+)?|,\d+"
# No amount of these has exactly three decimals, so that the comma of 1,200 separates thousands.
COMMA_GROUPS = "$£¥₩"


def symbols_of(table: Table, names: Iterable[str], cells: Mapping[str, Cells]) -> dict[str, str]:
    """Returns the sign that all amounts of a column have, for each column of amounts.

    Amounts are numbers with one currency sign or percent sign, before or after the number, such as
    ``$1,200.50`` or ``12 %``. A column is none of amounts if it could also be read with decimal
    commas and would then have other values.

    Args:
        table (Table): The table.
        names (Iterable[str]): Names of the columns to look at.
        cells (dict): Their cells.
    """
    return {name: one for name in names if (one := _clear_symbol(_words(table, cells[name])))}


def is_unclear(table: Table, column: Cells) -> bool:
    """Returns whether a column has amounts that are not numbers because of a comma or point.

    Args:
        table (Table): The table.
        column (Cells): Cells of the column.
    """
    words = _words(table, column)
    symbol = _first_symbol(words)
    either = bool(symbol) and _all_match(words, _pattern(symbol, f"{POINT}|{COMMA}"))
    return either and not _clear_symbol(words)


def plain_cells(
    table: Table, cells: Mapping[str, Cells], symbols: Mapping[str, str]
) -> dict[str, Cells]:
    """Returns the cells, with amounts as plain numbers in text, and null for missing ones.

    Args:
        table (Table): The table, for messages.
        cells (dict): Cells of the columns.
        symbols (dict): The sign of each column of amounts, see :func:`symbols_of`.
    """
    found = {name: _without_symbol(table, name, cells[name], one) for name, one in symbols.items()}
    return {**cells, **found}


def _words(table: Table, column: Cells) -> Cells:
    """Returns the different cells of a column of text; none if the file stores types."""
    if table.typed or not is_text(column):
        return pa.array([], pa.string())
    return pc.unique(pc.utf8_trim_whitespace(without_missing(column))).drop_null()


def _first_symbol(words: Cells) -> str:
    found = pc.extract_regex(words[:1], SYMBOL).to_pylist()
    return str(found[0]["symbol"]) if found and found[0] else ""


def _clear_symbol(words: Cells) -> str:
    symbol = _first_symbol(words)
    if not symbol or not _all_match(words, _pattern(symbol, POINT)):
        return ""
    separated = words.filter(pc.match_substring_regex(words, r"[.,]"))
    if not len(separated) or not _all_match(words, _pattern(symbol, COMMA)):
        return symbol
    grouped = symbol in COMMA_GROUPS and _all_match(separated, r"^[^.]*$")
    return symbol if grouped else ""


def _without_symbol(table: Table, name: str, column: Cells, symbol: str) -> Cells:
    words = pc.utf8_trim_whitespace(without_missing(as_text(column)))
    valid = pc.match_substring_regex(words, _pattern(symbol, POINT))
    expected = f"hold numbers with {show(symbol)}, as in training"
    remedy = f"write it like {'12.5%' if symbol == '%' else f'{symbol}1,200.50'}, or leave it empty"
    table.check(name, column, valid, expected, remedy)
    return pc.replace_substring_regex(words, r"[^\d.+-]", "")


def _pattern(symbol: str, number: str) -> str:
    sign = rf"\x{{{ord(symbol):x}}}"
    before = rf"([+-]?{SPACE}*{sign}|{sign}{SPACE}*[+-]){SPACE}*({number})"
    return rf"^({before}|[+-]?({number}){SPACE}*{sign})$"


def _all_match(words: Cells, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(words, pattern)).as_py())
