"""CSV and TSV files, plain or compressed with gzip.

pyarrow parses them. If it fails, or if the file has quotes, Python's ``csv`` module, which is
slower and stricter, reads the file as well to find the row with the mistake.
"""

from __future__ import annotations

import csv as python_csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NoReturn, cast

from mgnni.data.tables.messages import first_line, os_reason, show
from mgnni.data.tables.table import Cells, Table, csv, pa
from mgnni.errors import DataError

BLOCK = 8 << 20  # bytes read at a time; a row must fit
UTF16 = (b"\xff\xfe", b"\xfe\xff")
GZIP = b"\x1f\x8b"
UNREADABLE = (OSError, EOFError, zlib.error)


class CsvTable(Table):
    """A table in a UTF-8 text file whose first row holds the names of the columns.

    Args:
        path (Path): The file; it is decompressed if it ends in ``.gz``.
        delimiter (str): The character between two cells.
    """

    typed = False

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path = path
        self.delimiter = delimiter
        self._check_start()
        self.names = tuple(self._header())
        self._check_names()

    def read(self, names: Sequence[str]) -> dict[str, Cells]:
        """Returns columns of text exactly as written, with null for empty cells."""
        try:
            table = csv.read_csv(
                str(self.path),
                read_options=csv.ReadOptions(block_size=BLOCK),
                parse_options=csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                # All as text: types guessed from the first rows are wrong in the later ones, and
                # 007 must not become 7.
                convert_options=csv.ConvertOptions(
                    include_columns=list(names),
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            # pyarrow accepts a stray quote, which joins rows, and text after a closing quote.
            if self._has_quotes():
                self._check_records()
        except pa.ArrowInvalid as error:
            self._find_mistake(error)
        except (pa.ArrowException, *UNREADABLE) as error:
            raise self._unreadable(error) from error
        return {name: table[name] for name in names}

    def row(self, index: int) -> str:
        """Returns the file and the row number; the header is row 1 and blank lines count."""
        number = index + 2
        try:
            with self._text() as text:
                filled = (row for row, record in self._records(text) if record)
                number = next(row for i, row in enumerate(filled) if i == index + 1)
        except (StopIteration, python_csv.Error, *UNREADABLE):
            pass  # the number without blank lines is the best estimate
        return f"{self.path}, row {number}"

    def _open(self) -> IO[bytes]:
        if self.path.suffix.lower() == ".gz":
            return cast("IO[bytes]", gzip.open(self.path, "rb"))
        return self.path.open("rb")

    def _text(self) -> IO[str]:
        return io.TextIOWrapper(self._open(), encoding="utf-8-sig", errors="replace", newline="")

    def _records(self, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
        """Yields the row number and the cells; a blank line has no cells."""
        reader = python_csv.reader(text, delimiter=self.delimiter, strict=True)
        usual = python_csv.field_size_limit(BLOCK)  # of the process
        try:
            yield from enumerate(reader, start=1)
        finally:
            python_csv.field_size_limit(usual)

    def _has_quotes(self) -> bool:
        with self._open() as file:
            return any(b'"' in block for block in iter(lambda: file.read(BLOCK), b""))

    def _check_start(self) -> None:
        try:
            with self._open() as file:
                start = file.read(4096)
        except UNREADABLE as error:
            raise self._unreadable(error) from error
        if not start.strip():
            raise DataError(
                f"{self.path}: must hold a header and rows (got an empty file); write the names "
                "of the columns in its first row"
            )
        if start.startswith(UTF16):
            raise DataError(
                f"{self.path}, row 1: must be UTF-8 (got UTF-16, see byte 0); save it as UTF-8: "
                "iconv -f utf-16 -t utf-8"
            )
        if b"\0" in start or start.startswith(GZIP):
            kind = "gzip" if start.startswith(GZIP) else "binary"
            raise DataError(
                f"{self.path}: must be text (got {kind} data); export the table as CSV in UTF-8, "
                "or use the suffix of its format (.parquet, .csv.gz)"
            )

    def _header(self) -> list[str]:
        try:
            with self._open() as file:
                self._check_encoding(file, lines=1)
            with self._text() as text:
                return next(record for _, record in self._records(text) if record)
        except (StopIteration, python_csv.Error) as error:
            raise DataError(
                f"{self.path}, row 1: must hold the names of the columns (got "
                f"{show(str(error))}); write them there, and close all quotes"
            ) from error
        except UNREADABLE as error:
            raise self._unreadable(error) from error

    def _check_names(self) -> None:
        places: dict[str, int] = {}
        for place, name in enumerate(self.names, start=1):
            if not name.strip():
                raise DataError(
                    f"{self.path}, row 1: every column needs a name (got none for column {place}); "
                    "add a name, or drop the column (pandas writes its index like this: use "
                    "index=False)"
                )
            if places.setdefault(name, place) < place:
                raise DataError(
                    f"{self.path}, row 1: column names must be unique (got {show(name)} for "
                    f"columns {places[name]} and {place}); rename one{self.header_hint()}"
                )

    def _find_mistake(self, error: Exception) -> NoReturn:
        """Raises an error that names the row pyarrow failed at."""
        try:
            with self._open() as file:
                self._check_encoding(file)
            self._check_records()
        except UNREADABLE as unreadable:
            raise self._unreadable(unreadable) from unreadable
        raise DataError(
            f"{self.path}: cannot be read as a table ({first_line(error)}); check its delimiter "
            "and quotes"
        ) from error

    def _check_encoding(self, file: IO[bytes], lines: int | None = None) -> None:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{self.path}, row {number}: must be UTF-8 (got byte 0x{line[error.start]:02x} "
                    f"at position {error.start} of the row); save it as UTF-8, from Latin-1 with: "
                    "iconv -f latin1 -t utf-8"
                ) from error
            if number == lines:
                return

    def _check_records(self) -> None:
        """Checks the number of cells in each row and the quotes."""
        number = 0
        try:
            with self._text() as text:
                for number, record in self._records(text):
                    if record and len(record) != len(self.names):
                        raise DataError(
                            f"{self.path}, row {number}: must have {len(self.names)} cells like "
                            f"the header (got {len(record)}); complete the row, and quote cells "
                            f"that contain {show(self.delimiter)}"
                        )
        except python_csv.Error as error:
            if "expected after" in str(error):
                raise DataError(
                    f"{self.path}, row {number + 1}: a closing quote must end the cell (got text "
                    "after it); remove the quotes of the cell, or write a quote inside quotes "
                    'twice ("")'
                ) from error
            raise DataError(
                f"{self.path}, after row {number}: every quote must be closed (got "
                f'{show(str(error))}); close or remove the quote (") there'
            ) from error

    def _unreadable(self, error: Exception) -> DataError:
        if isinstance(error, PermissionError):
            why, remedy = os_reason(error), "change its permissions"
        elif self.path.suffix.lower() == ".gz":
            why, remedy = str(error), "compress or copy it again"
        else:
            why = os_reason(error) if isinstance(error, OSError) else str(error)
            remedy = "check that other programs can open it"
        return DataError(f"{self.path}: cannot be read ({why.rstrip('.')}); {remedy}")
