"""What every refusal of a file has in common."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import DataError


def listing(folder: Path) -> dict[str, str]:
    """A hash of every file."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refused(path: Path, folder: Path, options: TableOptions | None = None) -> str:
    """The message, after the checks that hold for every message."""
    before = listing(folder)
    with pytest.raises(DataError) as caught:
        read_graphs(path, options)
    message = str(caught.value)
    assert listing(folder) == before
    assert "\n" not in message
    assert message.startswith(str(path)), message
    assert ";" in message, f"no remedy: {message}"
    return message


def npz(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def parquet_bytes(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())
