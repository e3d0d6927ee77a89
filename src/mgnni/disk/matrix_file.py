"""Rows of matrices in NumPy files.

Whole rows are read and written as they are, which takes half as long as through a memory map, where
every page is a fault of its own. Parts of rows go through a memory map.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


def read_rows(path: Path, start: int, stop: int, columns: slice) -> NDArray[Any]:
    """Return some rows of a matrix, or some columns of them.

    Args:
        path (Path): The file.
        start (int): The first row.
        stop (int): The row after the last.
        columns (slice): The columns, with a start and a stop.
    """
    with path.open("rb") as file:
        (_, width), dtype = _header(file)
        if (columns.start, columns.stop) == (0, width):
            file.seek(start * width * dtype.itemsize, 1)
            found = np.fromfile(file, dtype, (stop - start) * width)
            return found.reshape(stop - start, width)
    return np.array(np.load(path, mmap_mode="r")[start:stop, columns])


def write_rows(path: Path, start: int, columns: slice, rows: NDArray[Any]) -> None:
    """Write some rows of a matrix, or some columns of them, into an existing file.

    Args:
        path (Path): The file.
        start (int): The first row.
        columns (slice): The columns, with a start and a stop.
        rows (NDArray): The numbers.

    Shapes:
        - **rows:** ``(rows, columns)``
    """
    with path.open("r+b") as file:
        (_, width), dtype = _header(file)
        if (columns.start, columns.stop) == (0, width):
            file.seek(start * width * dtype.itemsize, 1)
            np.ascontiguousarray(rows, dtype).tofile(file)
            return
    np.load(path, mmap_mode="r+")[start : start + len(rows), columns] = rows


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header; return shape and dtype, with the file at the first number."""
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape, dtype
