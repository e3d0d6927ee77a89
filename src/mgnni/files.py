"""Atomic file writes, and JSON files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from mgnni.errors import DataError


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file for writing that appears under its name only when it is complete.

    The data go to a temporary file in the same folder, which is flushed to the disk and then
    renamed. If an error occurs, an existing file of this name is left as it was.

    Args:
        path (Path): The file to write.

    Raises:
        OSError: The file cannot be written; the error names ``path``, not the temporary file.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError as error:
        if error.filename is None or str(error.filename) == str(draft):
            error.filename = str(path)
            del error.filename2  # if it were None, the message would end in "-> None"
        raise
    finally:
        with contextlib.suppress(OSError):  # on a read-only file system it would hide the cause
            draft.unlink(missing_ok=True)


def read_object(file: Any, remedy: str) -> dict[str, Any]:
    """Return the object in a JSON file.

    Args:
        file (Path or Traversable): The file, on disk or in a package.
        remedy (str): What to do if it has none, for the error message.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DataError(f"{file}: cannot be read ({reason}); {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file}: cannot be read as JSON; {remedy}") from error
    if not isinstance(content, dict):
        raise DataError(
            f"{file}: must hold a JSON object (got a {type(content).__name__}); {remedy}"
        )
    return content


def to_json(data: Mapping[str, Any], *, compact: bool = False) -> str:
    """Return data as JSON text; numbers must be finite.

    Args:
        data (Mapping[str, Any]): The data, in which dataclasses count as mappings.
        compact (bool, optional): Without spaces and line breaks, for large data. Otherwise the
            text is indented, with lists of numbers on one line. (default: :obj:`False`)
    """
    separators = (",", ":") if compact else None
    text = json.dumps(
        data,
        indent=None if compact else 2,
        separators=separators,
        allow_nan=False,
        ensure_ascii=False,
        default=_plain,
    )
    if not compact:
        # A line break is never inside of a string, so this finds lists without strings and lists.
        text = re.sub(r'\[\n[^\[\]{}"]+\n *\]', _on_one_line, text)
    return text + "\n"


def _on_one_line(found: re.Match[str]) -> str:
    return "[" + " ".join(found[0][1:-1].split()) + "]"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def write_object(path: Path, data: Mapping[str, Any], *, compact: bool = False) -> None:
    """Write data to a JSON file, which is replaced as a whole.

    Args:
        path (Path): The file.
        data (Mapping[str, Any]): The data.
        compact (bool, optional): See :func:`to_json`. (default: :obj:`False`)
    """
    with atomic_write(path) as file:
        file.write(to_json(data, compact=compact).encode())
