"""Ids of the rows of a graph, in a file beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mgnni.data.tables.table import pa, parquet
from mgnni.errors import DataError

NAME = "ids.parquet"


def write_ids(folder: Path, ids: Any) -> None:
    """Write the ids of all rows; they keep their type.

    Args:
        folder (Path): The folder, which is created.
        ids (pyarrow.ChunkedArray or range): One id per row.
    """
    folder.mkdir(parents=True, exist_ok=True)
    column = ids if isinstance(ids, (pa.Array, pa.ChunkedArray)) else pa.array(ids)
    parquet.write_table(pa.table({"id": column}), folder / NAME)


def read_ids(folder: Path, count: int) -> Any:
    """Return the ids of all rows; the numbers of the rows if none were written.

    Args:
        folder (Path): The folder.
        count (int): Number of rows.
    """
    path = folder / NAME
    if not path.exists():
        return range(count)
    try:
        ids = parquet.read_table(path).column("id")
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise DataError(f"{path}: cannot be read ({error}); store the graph again") from error
    if len(ids) != count:
        raise DataError(
            f"{path}: must have one id per node, {count} (got {len(ids)}); store the graph again"
        )
    return ids
