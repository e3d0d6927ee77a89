"""Atomic file writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO


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
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with contextlib.suppress(OSError):  # on a read-only file system it would hide the cause
            draft.unlink(missing_ok=True)
