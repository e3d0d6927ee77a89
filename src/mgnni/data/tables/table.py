"""A table in a file: its columns by name, and where a row stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from mgnni.data.tables.columnar import ParquetTable
from mgnni.data.tables.delimited import DelimitedTable
from mgnni.data.tables.wording import listed, nearest, show
from mgnni.errors import DataError

TEXT = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
SUFFIXES = (*TEXT, ".parquet")


class Table(Protocol):
    """What readers of tables agree on."""

    @property
    def path(self) -> Path:
        """The file."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""

    @property
    def typed(self) -> bool:
        """Whether the file says what is a number and what is text."""

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """Return columns as pyarrow arrays of equal length; an empty cell is null."""

    def row(self, index: int) -> str:
        """Return file and row, as the person who opens the file counts, of a row of data."""


def suffix_of(path: Path) -> str:
    """Return the suffix that tells how a file is read: ``.csv.gz`` is one."""
    return "".join(path.suffixes[-2:]).lower() if path.suffix == ".gz" else path.suffix.lower()


def open_table(path: Path, delimiter: str | None) -> Table:
    """Open a table and read its header."""
    suffix = suffix_of(path)
    if path.is_dir():
        raise DataError(f"{path}: must be a file (got a folder); put the table itself there")
    if suffix == ".parquet":
        return ParquetTable(path)
    return DelimitedTable(path, delimiter or TEXT[suffix])


def known(table: Table, name: str, option: str) -> str:
    """Return the name if the table has such a column; else say which it has."""
    if name in table.names:
        return name
    raise DataError(
        f"{table.path}: there must be a column {show(name)} (--{option}); the columns are "
        f"{listed(table.names)}{nearest(name, table.names)}{delimiter_hint(table)}"
    )


def found(table: Table, given: str | None, candidates: Sequence[str], option: str) -> str | None:
    """Return the column given, or the first of the candidates that is there, in any case."""
    if given is not None:
        return known(table, given, option)
    matches = all_found(table, candidates)
    return matches[0] if matches else None


def all_found(table: Table, candidates: Sequence[str]) -> list[str]:
    """Return the columns of these names, in the order of the candidates."""
    by_lower = {name.strip().lower(): name for name in reversed(table.names)}
    return [by_lower[candidate] for candidate in candidates if candidate in by_lower]


def delimiter_hint(table: Table) -> str:
    """Return advice if the one column looks like several that were not taken apart."""
    if table.typed or len(table.names) > 1:
        return ""
    between = [mark for mark in ";,|\t " if mark in table.names[0].strip()]
    return f"; is the delimiter {between[0]!r}? then pass --delimiter" if between else ""
