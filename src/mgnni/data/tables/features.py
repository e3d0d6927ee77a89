"""Feature columns: fitted on the training file and encoded in the same way in other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.amounts import is_unclear, plain_cells, symbols_of
from mgnni.data.tables.graph_file import Floats
from mgnni.data.tables.messages import alike, counted, flag, listed, show
from mgnni.data.tables.scaling import notes_on_scale, scaled
from mgnni.data.tables.schema import Column, Schema, TableOptions
from mgnni.data.tables.table import Cells, Table, pa, pc
from mgnni.data.tables.values import (
    Doubles,
    are_dates,
    as_text,
    booleans,
    is_text,
    kind_of,
    numbers,
    sorted_values,
)
from mgnni.errors import DataError

MOST_CATEGORIES = 1000
FEW = 20  # so many categories are always accepted, however short the table is
NEARLY_ALL = 0.9
LARGE = 1000.0
AS_NUMBERS = "replace them by numbers, such as days since a fixed date"
NO_FEATURES = "no features: using the constant 1; --degree uses the degree instead"

# A column of float64 with nan for missing values, or (pyarrow) of text with null.
Values = Any


def read_features(
    table: Table,
    names: Sequence[str],
    cells: Mapping[str, Cells],
    options: TableOptions,
    schema: Schema | None,
    degree: Doubles,
    train: npt.NDArray[np.bool_],
) -> tuple[Floats, tuple[Column, ...], list[str]]:
    """Encodes the feature columns of a table of nodes.

    Args:
        table (Table): The nodes, for messages.
        names (list of str): Names of the feature columns.
        cells (dict): Cells of these columns.
        options (TableOptions): The options.
        schema (Schema, optional): The schema of the training file; None for the training file.
        degree (numpy.ndarray): In-degree of each node.
        train (numpy.ndarray): Mask of the training nodes. Means, deviations and categories are
            theirs.

    Returns:
        The features of shape ``(num_nodes, num_features)``, the fitted columns, and notes.
    """
    if schema is not None:
        symbols = {column.name: column.symbol for column in schema.columns if column.symbol}
        cells = plain_cells(table, cells, symbols)
        kinds = schema.table_columns
        values = _parse(table, kinds, cells)
        x, notes = _encode(schema.columns, values, degree)
        if options.standardize:
            notes += notes_on_scale(_numbers(schema.columns, values, degree))
        return x, schema.columns, notes
    kinds = {
        name: "category" if name in options.categorical else kind_of(table, name, cells[name])
        for name in names
    }
    text = [n for n, kind in kinds.items() if kind == "category" and n not in options.categorical]
    symbols = symbols_of(table, text, cells)
    text = [name for name in text if name not in symbols]
    kinds |= dict.fromkeys(symbols, "number")
    values = _parse(table, kinds, plain_cells(table, cells, symbols))
    columns, notes = _fit(table, kinds, values, train, advise=not options.standardize)
    columns = [replace(column, symbol=symbols.get(column.name, "")) for column in columns]
    for name, symbol in symbols.items():
        notes.append(f"column {show(name)}: read as numbers in {symbol}; --categorical keeps text")
    for name in text:
        if is_unclear(table, cells[name]):
            notes.append(
                f"column {show(name)}: amounts whose commas or points may be decimal marks are "
                "text; write them like 1200.50 to use numbers"
            )
    notes += _notes_on_text(text, values)
    for name in (name for name, kind in kinds.items() if kind == "category"):
        found = pc.unique(values[name]).drop_null().to_pylist()
        notes += alike(f"column {show(name)}", "categories", found)
    codes = [
        name
        for name, kind in kinds.items()
        if kind == "number"
        and _leading_zeros(cells[name])
        and not _too_many(pc.count_distinct(cells[name]).as_py(), len(cells[name]))
    ]
    if codes:
        notes.append(
            f"numbers with leading zeros in {listed(codes)}: if they are codes, --categorical "
            "keeps them as text"
        )
    if options.degree:
        columns.append(Column("in-degree" if "degree" in kinds else "degree", "degree"))
    if not columns:
        columns.append(Column("constant", "constant"))
        notes.append(NO_FEATURES)
    if options.standardize:
        columns = [_standardized(column, values, degree, train) for column in columns]
    x, encoding_notes = _encode(columns, values, degree)
    if options.standardize:
        others = ((c, raw[~train]) for c, raw in _numbers(columns, values, degree))
        notes += notes_on_scale(others, "; --ignore leaves columns out")
    return x, tuple(columns), [*notes, *encoding_notes]


def _leading_zeros(column: Cells) -> bool:
    """Returns whether a column of text has whole numbers such as 007."""
    return is_text(column) and bool(pc.any(pc.match_substring_regex(column, r"^0\d+$")).as_py())


def _parse(table: Table, kinds: Mapping[str, str], cells: Mapping[str, Cells]) -> dict[str, Values]:
    values: dict[str, Values] = {}
    for name, kind in kinds.items():
        if kind == "number":
            values[name] = numbers(table, name, cells[name])
        elif kind == "bool":
            values[name] = booleans(table, name, cells[name], missing=True)
        else:
            values[name] = as_text(cells[name])
    return values


def _fit(
    table: Table,
    kinds: Mapping[str, str],
    values: Mapping[str, Values],
    train: npt.NDArray[np.bool_],
    advise: bool,
) -> tuple[list[Column], list[str]]:
    columns, notes, constant, large = [], [], [], []
    for name, kind in kinds.items():
        column = values[name]
        known = pc.is_valid(column).to_numpy() if kind == "category" else ~np.isnan(column)
        missing = len(known) - int(known.sum())
        if missing == len(column):
            raise DataError(
                f"{table.path}: column {show(name)} must hold some value (got only empty or "
                f"missing cells); fill it, or pass {flag('ignore', name)}"
            )
        if not known[train].any():
            notes.append(
                f"column {show(name)}: no value in the training rows, so it is not used; fill it, "
                f"or pass {flag('ignore', name)}"
            )
            continue
        marked = not known[train].all()
        if kind == "category":
            categories = _categories(table, name, column, train)
            columns.append(Column(name, kind, categories, missing=marked))
            same = pc.count_distinct(column).as_py() == 1
        else:
            fill = float(column[train & known].mean())
            columns.append(Column(name, kind, missing=marked, fill=fill))
            low, high = float(np.nanmin(column)), float(np.nanmax(column))
            same = low == high
            if max(-low, high) > LARGE:
                large.append(name)
        if marked:
            how = "a category of their own" if kind == "category" else "the mean and a 0/1 flag"
            notes.append(f"column {show(name)}: {counted(missing, 'missing value')}: {how}")
        elif same and not missing:
            constant.append(name)
    if constant:
        notes.append(f"the same in every row: {listed(constant)}")
    if large and advise:
        notes.append(f"numbers above {LARGE:g} in {listed(large)}: standardize=True may help")
    return columns, notes


def _notes_on_text(names: Sequence[str], values: Mapping[str, Values]) -> list[str]:
    """Returns notes on columns of dates, and of text that hardly any two rows share."""
    notes = []
    for name in names:
        filled = len(values[name]) - values[name].null_count
        distinct = pc.count_distinct(values[name]).as_py()
        if are_dates(values[name]):
            notes.append(
                f"dates in {show(name)} are text, with one category per date: {AS_NUMBERS}, or "
                f"pass {flag('ignore', name)}"
            )
        elif distinct > max(FEW, filled / 2):
            notes.append(
                f"column {show(name)}: text with {distinct:,} categories in "
                f"{counted(filled, 'row')}: group them, or pass {flag('ignore', name)}"
            )
    return notes


def _categories(
    table: Table, name: str, column: Cells, train: npt.NDArray[np.bool_]
) -> tuple[str, ...]:
    """Returns the categories of the training rows."""
    distinct = pc.unique(column).drop_null().to_pylist()
    filled = len(column) - column.null_count
    if _too_many(len(distinct), filled):
        remedy = "group them"
        if is_unclear(table, column):
            remedy = "write amounts like 1200.50 to use numbers"
        elif are_dates(column):
            remedy = AS_NUMBERS
        raise DataError(
            f"{table.path}: column {show(name)} must hold at most {MOST_CATEGORIES} categories, "
            f"and far fewer than rows (got {len(distinct)} in {counted(filled, 'row')}, the first "
            f"is {show(distinct[0])}); {remedy}, or pass {flag('ignore', name)}"
        )
    return tuple(sorted_values(pc.unique(column.filter(pa.array(train))).drop_null().to_pylist()))


def _too_many(distinct: int, filled: int) -> bool:
    """Returns whether a column has too many different cells for categories."""
    nearly_all = distinct > FEW and distinct > NEARLY_ALL * filled
    return distinct > MOST_CATEGORIES or nearly_all


def _standardized(
    column: Column, values: Mapping[str, Values], degree: Doubles, train: npt.NDArray[np.bool_]
) -> Column:
    if column.kind not in ("number", "degree"):
        return column
    raw = degree if column.kind == "degree" else values[column.name]
    return column.standardized(np.where(np.isnan(raw), column.fill, raw), train)


def _encode(
    columns: Sequence[Column], values: Mapping[str, Values], degree: Doubles
) -> tuple[Floats, list[str]]:
    width = sum(len(column.feature_names) for column in columns)
    x = np.zeros((len(degree), width), dtype=np.float32)
    notes: list[str] = []
    start = 0
    for column in columns:
        own = x[:, start : start + len(column.feature_names)]
        start += own.shape[1]
        if column.kind == "category":
            notes += _encode_categories(own, column, values[column.name])
        elif column.kind == "constant":
            own[:, 0] = 1
        else:
            raw = degree if column.kind == "degree" else values[column.name]
            notes += _encode_numbers(own, column, raw)
    return x, notes


def _encode_numbers(own: Floats, column: Column, raw: Doubles) -> list[str]:
    missing = np.isnan(raw)
    own[:, 0] = scaled(column, np.where(missing, column.fill, raw))
    if column.missing:
        own[:, 1] = missing
    elif missing.any():
        count = counted(int(missing.sum()), "missing value")
        return [f"column {show(column.name)}: {count}, none in training: using {column.fill:g}"]
    return []


def _numbers(
    columns: Sequence[Column], values: Mapping[str, Values], degree: Doubles
) -> list[tuple[Column, Doubles]]:
    """Returns the columns that are standardized, with their numbers."""
    of_table = [(c, values[c.name]) for c in columns if c.kind == "number"]
    return of_table + [(c, degree) for c in columns if c.kind == "degree"]


def _encode_categories(own: Floats, column: Column, raw: Cells) -> list[str]:
    codes = pc.index_in(raw, value_set=pa.array(column.categories, pa.string()))
    missing = pc.is_null(raw).to_numpy()
    code = pc.fill_null(codes, -1).to_numpy()
    row = np.flatnonzero(code >= 0)
    own[row, code[row]] = 1
    if column.missing:
        own[missing, -1] = 1
    unknown = (code < 0) & ~(missing & column.missing)
    if not unknown.any():
        return []
    count = counted(int(unknown.sum()), "value")
    return [f"column {show(column.name)}: {count} not seen in training: all zeros"]
