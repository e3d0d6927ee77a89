"""Atomic file writes, and JSON files."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
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
