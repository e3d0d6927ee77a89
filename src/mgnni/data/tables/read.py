"""Reads graphs from files and from PyG objects.

This module needs no pyarrow; only folders of tables do.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from mgnni.data.tables.adjacency import with_edge_index
from mgnni.data.tables.arrays import from_arrays
from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.messages import first_line, listed, os_reason, printable
from mgnni.data.tables.schema import Schema, TableOptions
from mgnni.errors import ArgumentError, DataError

TABLES = (".csv", ".tsv", ".gz", ".parquet")
NPZ_NAMES = {
    "x": ("node_features", "x"),
    "y": ("node_labels", "y"),
    "edge_index": ("edges", "edge_index"),
    "edge_weight": ("edge_weight", "edge_weights"),
    "train_mask": ("train_masks", "train_mask"),
    "val_mask": ("val_masks", "val_mask"),
    "test_mask": ("test_masks", "test_mask"),
}
PYG_NAMES = (*NPZ_NAMES, "edge_attr", "adj_t")


def read_graphs(
    path: Path, options: TableOptions | None = None, schema: Schema | None = None
) -> GraphFile:
    """Reads one or several graphs from a file or folder. No code in a file is ever executed.

    Args:
        path (str or Path): A folder with ``nodes.csv`` and ``edges.csv`` (or ``.tsv``,
            ``.csv.gz``, ``.parquet``), and ``graphs.csv`` for graph classification; an ``.npz``
            file with ``node_features``, ``node_labels`` and ``edges``, or ``x``, ``y`` and
            ``edge_index``; or a ``.pt`` file with a PyG ``Data``, its dictionary, or a list of
            these.
        options (TableOptions, optional): Says which column is what. By default, columns are found
            by their names.
        schema (Schema, optional): The schema of the file a model was trained on, to read another
            file for prediction: features are encoded in the same way, labels are optional, and
            splits are not read. Only the delimiter may be given in ``options`` then.

    Raises:
        DataError: The file is invalid; the message names the file, the row and a remedy.
    """
    path = Path(path)
    options = options or TableOptions()
    if schema is not None:
        options = schema.options_for(options)
    try:
        return _read(path, options, schema)
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({os_reason(error)}); check its permissions and those of its "
            "folder"
        ) from error


def from_pyg(
    data: Data | Dataset | Sequence[Data],
    options: TableOptions | None = None,
    schema: Schema | None = None,
    name: str = "data",
) -> GraphFile:
    """Creates a graph file from PyG objects.

    Args:
        data (Data, Dataset or list of Data): One graph with node labels, or several graphs. Edges
            are in ``edge_index`` and ``edge_weight``, or in a sparse matrix ``adj_t``.
        options (TableOptions, optional): Only ``directed``, ``degree``, ``standardize`` and
            ``allow_unseen`` have a meaning here.
        schema (Schema, optional): The schema of the data a model was trained on, to read other
            data for prediction.
        name (str, optional): Name of the result, also used in messages. (default: ``"data"``)
    """
    if isinstance(data, Dataset):
        data = list(data)
        if len(data) == 1 and schema is None:  # how PyG stores a single graph
            data = data[0]
    options = options or TableOptions()
    if schema is not None:
        options = schema.options_for(options)
    return _from_objects(name, name, data, options, schema)


def read_like(data: Any, schema: Schema | None, delimiter: str | None = None) -> GraphFile:
    """Reads a path or PyG objects for a trained model.

    Args:
        data (str or Path or Data or Dataset or list[Data]): The data.
        schema (Schema, optional): The schema of the data the model was trained on.
        delimiter (str, optional): Delimiter of text tables. (default: that of the training)
    """
    if isinstance(data, (str, Path)):
        return read_graphs(Path(data), TableOptions(delimiter=delimiter), schema)
    if isinstance(data, (Data, Dataset, Sequence)):
        return from_pyg(data, schema=schema)
    raise ArgumentError(
        "'data' must be a path, a PyG Data or Dataset, or a list of Data (got "
        f"{type(data).__name__})"
    )


def _read(path: Path, options: TableOptions, schema: Schema | None) -> GraphFile:
    if not path.exists():
        raise DataError(
            f"{path}: must be a folder with nodes.csv and edges.csv, or a .npz or .pt file (got "
            "no such file); check the path"
        )
    if path.is_dir():
        # Imported here because only tables need pyarrow.
        from mgnni.data.tables.folder import read_folder

        return read_folder(path, options, schema)
    if path.suffix == ".npz":
        return from_arrays(
            str(path), path.stem, [_npz_arrays(path)], options, schema, several=False
        )
    if path.suffix in (".pt", ".pth"):
        return _from_objects(str(path), path.stem, _load_pt(path), options, schema)
    if path.suffix in TABLES:
        raise DataError(
            f"{path}: a graph in tables is a folder with nodes.csv and edges.csv (got one table); "
            f"put both into a folder and pass the folder, perhaps {path.parent}"
        )
    raise DataError(
        f"{path}: must be a folder, or a file that ends in .npz or .pt (got {path.suffix!r}); "
        "convert it, or correct its suffix"
    )


def _load_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    known = [key for keys in NPZ_NAMES.values() for key in keys]
    try:
        # Opened here because numpy does not close a truncated file.
        with path.open("rb") as stream:
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            return {key: file[key] for key in known if key in file.files}
    except PermissionError:
        raise
    except Exception as error:  # numpy documents no error types for damaged files
        # numpy advises to allow pickle, which would execute code of the file.
        problem = "pickled objects" if "pickle" in str(error) else first_line(error)
        raise DataError(
            f"{path}: must hold plain arrays as written by numpy.savez (got {problem}); save it "
            "again, with text as fixed-width strings and no objects"
        ) from error


def _npz_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Returns the arrays of a file under the names and in the shapes of PyG."""
    loaded = _load_npz(path)
    arrays = {}
    for name, keys in NPZ_NAMES.items():
        found = [key for key in keys if key in loaded]
        if len(found) > 1:
            raise DataError(
                f"{path}: one array must be {name} (got {listed(found)}); remove one of them"
            )
        for key in found:
            # The heterophilous collection stores edges, and masks of several splits, as rows.
            rows = key == "edges" or (key.endswith("_masks") and loaded[key].ndim == 2)
            arrays[name] = loaded[key].T if rows else loaded[key]
    return arrays


def _load_pt(path: Path) -> Any:
    # PyG has already allowed the classes that it needs; removing them would break its datasets.
    allowed = torch.serialization.get_safe_globals()
    pyg = [cls for cls in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if cls not in allowed]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(pyg):
            warnings.simplefilter("ignore")  # the error below says what is wrong
            # Indices out of range would crash.
            with torch.sparse.check_sparse_tensor_invariants():  # type: ignore[no-untyped-call]
                return torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    except Exception as error:  # torch documents no error types for damaged files
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        got = f"a reference to {printable(foreign[1])}" if foreign else "another kind of file"
        raise DataError(
            f"{path}: must hold a PyG Data, its dict or a list of these, and nothing else, as no "
            f"code of a file is run (got {got}); save it with torch.save(data.to_dict(), path)"
        ) from error


def _from_objects(
    where: str, name: str, data: Any, options: TableOptions, schema: Schema | None
) -> GraphFile:
    several = isinstance(data, (list, tuple))
    graphs = []
    for index, graph in enumerate(data if several else [data]):
        place = f"{where}, graph {index} (from 0)" if several else where
        graphs.append(_pyg_arrays(place, graph))
    return from_arrays(where, name, graphs, options, schema, several=several)


def _pyg_arrays(where: str, graph: Any) -> dict[str, npt.NDArray[Any]]:
    stored = with_edge_index(where, _stored(where, graph))
    arrays: dict[str, npt.NDArray[Any]] = {}
    for key in PYG_NAMES:
        value = stored.get(key)
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.layout is not torch.strided:
            kind = value.layout if isinstance(value, Tensor) else type(value).__name__
            raise DataError(f"{where}: {key} must be a dense tensor (got {kind}); convert it")
        try:
            value = value.detach().cpu()
            arrays[key] = (value.float() if value.dtype is torch.bfloat16 else value).numpy()
        except (TypeError, RuntimeError, NotImplementedError) as error:
            raise DataError(
                f"{where}: {key} must be a tensor that NumPy supports (got {value.dtype}: "
                f"{first_line(error)}); convert it"
            ) from error
    if isinstance(stored.get("num_nodes"), int):
        arrays["num_nodes"] = np.array(stored["num_nodes"])
    if not arrays:
        raise DataError(f"{where}: must hold x, edge_index and y (got {listed(stored)}); add them")
    return arrays


def _stored(where: str, graph: Any) -> Mapping[str, Any]:
    """Returns the attributes of a graph."""
    if isinstance(graph, Mapping):
        return graph
    problem: Exception | None = None
    if isinstance(graph, Data):
        try:
            return dict(graph.to_dict())
        except Exception as error:  # an object from a file may lack any of its attributes
            problem = error
    raise DataError(
        f"{where}: must be a torch_geometric.data.Data or its dict (got "
        f"{type(graph).__name__}); convert it, from HeteroData with .to_homogeneous()"
    ) from problem
