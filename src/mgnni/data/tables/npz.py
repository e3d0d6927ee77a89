"""Arrays of a .npz file, under the names that published benchmarks use or those of PyG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.arrays import from_arrays
from mgnni.data.tables.graphfile import GraphFile
from mgnni.data.tables.options import TableOptions
from mgnni.data.tables.schema import Schema
from mgnni.data.tables.wording import first_line, listed
from mgnni.errors import DataError

NAMES = {
    "x": ("node_features", "x"),
    "y": ("node_labels", "y"),
    "edge_index": ("edges", "edge_index"),
    "edge_weight": ("edge_weight", "edge_weights"),
    "train_mask": ("train_masks", "train_mask"),
    "val_mask": ("val_masks", "val_mask"),
    "test_mask": ("test_masks", "test_mask"),
}


def read_npz(path: Path, options: TableOptions, schema: Schema | None) -> GraphFile:
    """Read one graph; what would need pickle, and so might run code, is refused."""
    try:
        arrays = _load(path)
    except PermissionError:
        raise
    # A file may be wrong in any way, and numpy promises no kind of error for it.
    except Exception as error:
        raise DataError(
            f"{path}: must be plain arrays as numpy.savez writes them (got {_problem(error)}); "
            "save it again, text as fixed-width strings and no objects"
        ) from error
    graph = {}
    for name, keys in NAMES.items():
        there = [key for key in keys if key in arrays]
        if len(there) > 1:
            raise DataError(
                f"{path}: one array must be {name} (got {listed(there)}); remove one of them"
            )
        if there:
            graph[name] = _turned(there[0], arrays[there[0]])
    return from_arrays(str(path), path.stem, [graph], options, schema, several=False)


def _load(path: Path) -> dict[str, npt.NDArray[Any]]:
    known = [key for keys in NAMES.values() for key in keys]
    # Opened here, as numpy forgets to close a file that turns out to be cut.
    with path.open("rb") as stream:
        file = np.load(stream, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("a single array")
        return {key: file[key] for key in known if key in file.files}


def _problem(error: Exception) -> str:
    # numpy advises to load such a file nonetheless; we do not.
    return "something pickled" if "pickle" in str(error) else first_line(error)


def _turned(key: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Edges are listed as rows, and masks of several splits too: PyG has both as columns."""
    return array.T if key == "edges" or (key.endswith("_masks") and array.ndim == 2) else array
