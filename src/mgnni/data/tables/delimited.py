"""Text tables, .csv and .tsv, plain or compressed: read fast, and explained slowly when wrong."""

from __future__ import annotations

import csv as plain_csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from mgnni.data.tables.arrow import csv, pa, pc
from mgnni.data.tables.wording import first_line, reason, show
from mgnni.errors import DataError

BLOCK = 8 << 20  # bytes read at a time; a row must fit
UTF16 = (b"\xff\xfe", b"\xfe\xff")
GZIP = b"\x1f\x8b"
UNREADABLE = (OSError, EOFError, zlib.error)


class DelimitedTable:
    """A table in one text file, UTF-8, whose first row names the columns."""

    typed = False

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path = path
        self.delimiter = delimiter
        self._check_start()
        self.names: tuple[str, ...] = tuple(self._header())
        self._check_names()

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """Return columns of text, as they stand in the file; an empty cell is null."""
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
        except (pa.ArrowException, *UNREADABLE) as error:
            self._explain(error)
        columns = {name: table[name] for name in names}
        # A stray quote swallows rows up to the next one, or to the end, and nothing complains.
        if self._odd_quotes() or any(_has_newline(column) for column in columns.values()):
            self._check_records()
        return columns

    def row(self, index: int) -> str:
        """Return file and row, the header being row 1 and blank lines counted."""
        number = index + 2
        try:
            with self._text() as text:
                filled = (row for row, record in self._records(text) if record)
                number = next(row for i, row in enumerate(filled) if i == index + 1)
        except (StopIteration, plain_csv.Error, *UNREADABLE):
            pass  # the count without blank lines is the best there is
        return f"{self.path}, row {number}"

    def _open(self) -> IO[bytes]:
        if self.path.suffix.lower() == ".gz":
            return cast("IO[bytes]", gzip.open(self.path, "rb"))
        return self.path.open("rb")

    def _text(self) -> IO[str]:
        return io.TextIOWrapper(self._open(), encoding="utf-8-sig", errors="replace", newline="")

    def _records(self, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield row number and cells; a blank line has no cells."""
        reader = plain_csv.reader(text, delimiter=self.delimiter, strict=True)
        yield from enumerate(reader, start=1)

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
                f"{self.path}, row 1: must be UTF-8 (got UTF-16, as byte 0 tells); save it as "
                "UTF-8: iconv -f utf-16 -t utf-8"
            )
        if b"\0" in start or start.startswith(GZIP):
            kind = "gzip" if start.startswith(GZIP) else "binary"
            raise DataError(
                f"{self.path}: must be text (got {kind} data); export the table as CSV in UTF-8, "
                "or give the file the suffix of what it is (.parquet, .csv.gz)"
            )

    def _header(self) -> list[str]:
        try:
            with self._open() as file:
                self._check_encoding(file, lines=1)
            with self._text() as text:
                return next(record for _, record in self._records(text) if record)
        except (StopIteration, plain_csv.Error) as error:
            raise DataError(
                f"{self.path}, row 1: must name the columns (got {show(str(error))}); write "
                "their names there, with closed quotes"
            ) from error
        except UNREADABLE as error:
            raise self._unreadable(error) from error

    def _check_names(self) -> None:
        for place, name in enumerate(self.names, start=1):
            if not name.strip():
                raise DataError(
                    f"{self.path}, row 1: every column needs a name (got none for column {place}); "
                    "name it, or drop it (pandas writes its index so: use index=False)"
                )
            if name in self.names[: place - 1]:
                raise DataError(
                    f"{self.path}, row 1: two columns must not share a name (got {show(name)} for "
                    f"columns {self.names.index(name) + 1} and {place}); rename one"
                )

    def _odd_quotes(self) -> bool:
        quotes = 0
        with self._open() as file:
            while block := file.read(BLOCK):
                quotes += block.count(b'"')
        return quotes % 2 == 1

    def _explain(self, error: Exception) -> None:
        """Raise what is wrong with the file, with its row."""
        if not isinstance(error, pa.ArrowInvalid):
            raise self._unreadable(error) from error
        try:
            with self._open() as file:
                self._check_encoding(file)
            self._check_records()
        except UNREADABLE as unreadable:
            raise self._unreadable(unreadable) from unreadable
        raise DataError(
            f"{self.path}: cannot be read as a table ({first_line(error)}); check its "
            "delimiter and quotes"
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
        """Raise if a row has too few or too many cells, or the last quote is open."""
        number = 1
        try:
            with self._text() as text:
                for number, record in self._records(text):
                    if record and len(record) != len(self.names):
                        raise DataError(
                            f"{self.path}, row {number}: must have {len(self.names)} cells, as the "
                            f"header has (got {len(record)}); complete the row, and quote cells "
                            f"that hold a {show(self.delimiter)}"
                        )
        except plain_csv.Error as error:
            raise DataError(
                f"{self.path}, after row {number}: every quote must be closed (got "
                f'{show(str(error))}); close or remove the quote (") there'
            ) from error

    def _unreadable(self, error: Exception) -> DataError:
        if isinstance(error, PermissionError):
            why, remedy = reason(error), "change its permissions"
        elif self.path.suffix.lower() == ".gz":
            why, remedy = str(error), "compress it again, or copy it again if it was cut"
        else:
            why = reason(error) if isinstance(error, OSError) else str(error)
            remedy = "check that it is a file that other programs can open"
        return DataError(f"{self.path}: cannot be read ({why.rstrip('.')}); {remedy}")


def _has_newline(column: Any) -> bool:
    return bool(pc.any(pc.match_substring(column, "\n")).as_py())
