"""Tables read with pyarrow: columns by name, and the place of a row in its file.

This is the only module that imports pyarrow; graphs in tables and predictions need it.
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mgnni.data.tables.messages import did_you_mean, first_line, flag, listed, os_reason, show
from mgnni.errors import DataError

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.compute as pc  # type: ignore[import-untyped]
    import pyarrow.csv as csv  # type: ignore[import-untyped]
    import pyarrow.parquet as parquet  # type: ignore[import-untyped]
except ImportError as error:
    raise DataError(
        f"tables are read and written with pyarrow, which cannot be imported ({error}); "
        "install it with: pip install 'mgnni[files]'"
    ) from error

NUMBER = re.compile(r"[-+]?\d+(\.\d*)?")

__all__ = ["Cells", "ParquetTable", "Table", "csv", "pa", "parquet", "pc"]

Cells = Any  # a pyarrow.ChunkedArray: one column; pyarrow ships no types


class Table(ABC):
    """A table in one file.

    Attributes:
        path: The file.
        names: Names of the columns.
        typed: Whether the file stores types; if not, all cells are text.
        trained: Whether a trained model reads it, so that columns have the names of the training
            and no option can give others.
    """

    path: Path
    names: tuple[str, ...]
    typed: bool
    trained: bool = False

    @abstractmethod
    def read(self, names: Sequence[str]) -> dict[str, Cells]:
        """Returns the named columns, with null for empty cells."""

    @abstractmethod
    def row(self, index: int) -> str:
        """Returns the file and the row number of a row of data, for messages."""

    def column(self, name: str, option: str) -> str:
        """Returns ``name`` if there is such a column, and raises an error otherwise."""
        if name in self.names:
            return name
        given_by = "of the training" if self.trained else f"(--{option})"
        raise DataError(
            f"{self.path}: there is no column {show(name)} {given_by}; the columns are "
            f"{listed(self.names)}{did_you_mean(name, self.names)}"
            f"{self.delimiter_hint() or self.header_hint()}"
        )

    def advice(self, option: str, in_prediction: str = "") -> str:
        """Returns advice that names an option, or other advice if a trained model reads."""
        return in_prediction if self.trained else option

    def check(self, name: str, cells: Cells, valid: Any, expected: str, remedy: str) -> None:
        """Raises an error that names the first invalid cell of a column.

        Args:
            name (str): Name of the column.
            cells (Cells): Its cells.
            valid (Cells or numpy.ndarray): Mask of the valid cells; null counts as valid.
            expected (str): What the column must do, for the message.
            remedy (str): What to do about it, for the message.
        """
        index = pc.index(pa.array(valid) if isinstance(valid, np.ndarray) else valid, False).as_py()
        if index >= 0:
            cell = cells[index].as_py()
            raise DataError(
                f"{self.row(index)}: column {show(name)} must {expected} (got "
                f"{'an empty cell' if cell is None else show(cell)}); {remedy}"
            )

    def find(self, given: str | None, candidates: Sequence[str], option: str) -> str | None:
        """Returns the given column, or else the first candidate that exists, ignoring case."""
        if given is not None:
            return self.column(given, option)
        return next(iter(self.find_all(candidates)), None)

    def find_all(self, candidates: Sequence[str]) -> list[str]:
        """Returns the columns with these names, ignoring case, in the order of the candidates."""
        by_lower = {name.strip().lower(): name for name in reversed(self.names)}
        return [by_lower[candidate] for candidate in candidates if candidate in by_lower]

    def likely(self, option: str, candidates: Sequence[str]) -> str:
        """Returns advice if a name is nearly a default one, or if the header looks wrong."""
        for name in self.names:
            if difflib.get_close_matches(name.strip().lower(), candidates, 1, cutoff=0.75):
                return f"; did you mean {self.advice(flag(option, name), show(name))}?"
        return self.delimiter_hint() or self.header_hint()

    def header_hint(self) -> str:
        """Returns advice if the first row looks like data: numbers are no usual names."""
        if self.typed or not any(NUMBER.fullmatch(name.strip()) for name in self.names):
            return ""
        return "; if the first row has data, write the names of the columns above it"

    def delimiter_hint(self) -> str:
        """Returns advice if the only column looks like several columns."""
        if self.typed or len(self.names) > 1:
            return ""
        between = [mark for mark in ";,|\t " if mark in self.names[0].strip()]
        to = self.advice("", " to mgnni predict")
        if not between:
            return ""
        return f"; is the delimiter {between[0]!r}? then pass --delimiter {between[0]!r}{to}"


class ParquetTable(Table):
    """A table in a Parquet file."""

    typed = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names = tuple(self._load(lambda file: file.schema_arrow.names))
        for name, count in Counter(self.names).items():
            if count > 1 or not name.strip():
                raise DataError(
                    f"{path}: every column needs its own name (got {show(name)} {count} times); "
                    "rename it"
                )

    def read(self, names: Sequence[str]) -> dict[str, Cells]:
        """Returns columns of text, numbers or booleans, with null for missing values."""

        def read(file: Any) -> Any:
            table = file.read(columns=list(names))
            table.validate(full=True)  # finds text that is not UTF-8
            return table

        table = self._load(read)
        return {name: self._simple(name, table[name]) for name in names}

    def row(self, index: int) -> str:
        """Returns the file and the row number, counted from 0 as data frames do."""
        return f"{self.path}, row {index} (from 0)"

    def _simple(self, name: str, column: Cells) -> Cells:
        """Converts a column to booleans, integers, float64 or strings."""
        types = pa.types
        if types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        kind = column.type
        if types.is_boolean(kind) or types.is_integer(kind):
            return column
        if types.is_floating(kind) or types.is_decimal(kind):
            return pc.cast(column, pa.float64())
        texts = (types.is_null, types.is_string, types.is_large_string, types.is_string_view)
        if any(is_text(kind) for is_text in texts):
            text = pc.cast(column, pa.string())
            return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        ignore = f", or pass {flag('ignore', name)}"
        raise DataError(
            f"{self.path}: column {show(name)} must hold text, numbers or booleans (got {kind}); "
            f"convert it{self.advice(ignore)}"
        )

    def _load(self, action: Callable[[Any], Any]) -> Any:
        try:
            with parquet.ParquetFile(self.path) as file:
                return action(file)
        except PermissionError as error:
            raise DataError(
                f"{self.path}: cannot be read ({os_reason(error)}); change its permissions"
            ) from error
        except Exception as error:  # pyarrow documents no error types for damaged files
            raise DataError(
                f"{self.path}: must be a complete Parquet file (got {first_line(error)}); write "
                "or copy it again"
            ) from error
