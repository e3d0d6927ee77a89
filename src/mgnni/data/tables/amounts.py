"""Columns of amounts in text tables: numbers with a currency sign or a percent sign."""

from __future__ import annotations

from mgnni.data.tables.messages import show
from mgnni.data.tables.table import Cells, Table, pc
from mgnni.data.tables.values import as_text, is_text, without_missing

SPACE = r"[\s\x{a0}\x{202f}]"
SYMBOL = r"(?P<symbol>[%\p{Sc}])"
GROUPS = r"[1-9]\d{0,2}(%s\d{3})+"
# With a point before the decimals and commas between thousands, and the other way round.
POINT = rf"(\d+|{GROUPS % ','})(\.\d+)?|\.\d+"
COMMA = rf"(\d+|{GROUPS % '[.]'})(,\d+)?|,\d+"
# No amount of these has exactly three decimals, so that the comma of 1,200 separates thousands.
COMMA_GROUPS = "$£"


def symbol_of(table: Table, column: Cells) -> str:
    """Returns the sign that all amounts of a column have, or an empty string.

    Amounts are numbers with one currency sign or percent sign, before or after the number, such as
    ``$1,200.50`` or ``12 %``. A column is none of amounts if it could also be read with decimal
    commas and would then have other values.

    Args:
        table (Table): The table.
        column (Cells): Cells of the column.
    """
    if table.typed or not is_text(column):
        return ""
    words = pc.unique(pc.utf8_trim_whitespace(without_missing(column))).drop_null()
    if not len(words):
        return ""
    symbol: str = (pc.extract_regex(words[:1], SYMBOL)[0].as_py() or {}).get("symbol", "")
    if not symbol or not _all_match(words, _pattern(symbol, POINT)):
        return ""
    separated = words.filter(pc.match_substring_regex(words, r"[.,]"))
    if not len(separated) or not _all_match(words, _pattern(symbol, COMMA)):
        return symbol
    grouped = symbol in COMMA_GROUPS and _all_match(separated, r"^[^.]*$")
    return symbol if grouped else ""


def without_symbol(table: Table, name: str, column: Cells, symbol: str) -> Cells:
    """Returns amounts as plain numbers in text, with null for missing ones.

    Args:
        table (Table): The table, for messages.
        name (str): Name of the column.
        column (Cells): Its cells.
        symbol (str): The sign that all amounts have, see :func:`symbol_of`.
    """
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
