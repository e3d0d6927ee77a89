"""Rows of matrices in NumPy files.

Whole rows are read and written as they are, which takes half as long as through a memory map, where
every page is a fault of its own and counts as memory of the process. Parts of rows, and single rows
far from each other, go through a memory map.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

GAP = 64  # rows between two wanted ones up to which all of them are read
MANY = 8  # wanted rows per read, and rows read per wanted one, past which a map is better


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


def gather_rows(path: Path, index: NDArray[np.int64]) -> NDArray[Any]:
    """Return chosen rows of a matrix.

    Args:
        path (Path): The file.
        index (NDArray): The rows; reading is fastest if they are sorted, with small gaps.

    Shapes:
        - **index:** ``(rows,)``
        - **output:** ``(rows, columns)``
    """
    steps = np.diff(index)
    cuts = np.flatnonzero((steps < 0) | (steps > GAP)) + 1
    first, last = np.append(0, cuts), np.append(cuts, len(index)) - 1
    if len(index) <= MANY * len(first) or (index[last] - index[first]).sum() > MANY * len(index):
        return np.array(np.load(path, mmap_mode="r")[index])
    with path.open("rb") as file:
        (_, width), dtype = _header(file)
        begin = file.tell()
        found = np.empty((len(index), width), dtype)
        for one, other in zip(first, last + 1, strict=True):
            wanted = index[one:other] - index[one]
            file.seek(begin + int(index[one]) * width * dtype.itemsize)
            block = np.fromfile(file, dtype, (int(wanted[-1]) + 1) * width)
            np.take(block.reshape(-1, width), wanted, 0, found[one:other])
    return found


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
