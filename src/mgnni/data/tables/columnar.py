"""Parquet tables: columns come with their types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mgnni.data.tables.arrow import pa, parquet, pc
from mgnni.data.tables.wording import first_line, reason, show
from mgnni.errors import DataError


class ParquetTable:
    """A table in one Parquet file."""

    typed = True

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: tuple[str, ...] = tuple(self._guarded(lambda file: file.schema_arrow.names))
        for name in self.names:
            if self.names.count(name) > 1 or not name.strip():
                raise DataError(
                    f"{path}: every column needs a name of its own (got {show(name)} "
                    f"{self.names.count(name)} times); rename it"
                )

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """Return columns of text, numbers or truth values; null is missing."""

        def read(file: Any) -> Any:
            table = file.read(columns=list(names))
            table.validate(full=True)  # text that is no UTF-8 is found here or nowhere
            return table

        table = self._guarded(read)
        return {name: self._simple(name, table[name]) for name in names}

    def row(self, index: int) -> str:
        """Return file and row, counted as data frames do."""
        return f"{self.path}, row {index} (from 0)"

    def _simple(self, name: str, column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            column = pc.cast(column, column.type.value_type)
        kind = column.type
        if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
            return column
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return pc.cast(column, pa.float64())
        if pa.types.is_null(kind) or _is_text(kind):
            text = pc.cast(column, pa.string())
            return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)
        raise DataError(
            f"{self.path}: column {show(name)} must hold text, numbers or truth values (got "
            f"{kind}); convert it, or pass --ignore {name}"
        )

    def _guarded(self, action: Callable[[Any], Any]) -> Any:
        try:
            with parquet.ParquetFile(self.path) as file:
                return action(file)
        except PermissionError as error:
            raise DataError(
                f"{self.path}: cannot be read ({reason(error)}); change its permissions"
            ) from error
        # A file may be wrong in any way, and pyarrow promises no kind of error for it.
        except Exception as error:
            raise DataError(
                f"{self.path}: must be a complete Parquet file (got {first_line(error)}); write "
                "it again, or copy it again if it was cut on the way"
            ) from error


def _is_text(kind: Any) -> bool:
    return any(
        check(kind)
        for check in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )
