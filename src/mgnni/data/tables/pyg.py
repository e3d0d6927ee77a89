"""PyG objects, in memory or in a .pt file; loading one runs no code of the file."""

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

from mgnni.data.tables.arrays import from_arrays
from mgnni.data.tables.graphfile import GraphFile
from mgnni.data.tables.options import TableOptions
from mgnni.data.tables.schema import Schema
from mgnni.data.tables.wording import listed, printable
from mgnni.errors import DataError

USED = ("x", "edge_index", "edge_weight", "edge_attr", "y", "train_mask", "val_mask", "test_mask")


def read_pt(path: Path, options: TableOptions, schema: Schema | None) -> GraphFile:
    """Read a ``Data``, its dict, or a list of these."""
    # Those that PyG needs for itself it has allowed already, and would miss afterwards.
    known = torch.serialization.get_safe_globals()
    ours = [cls for cls in (Data, DataEdgeAttr, DataTensorAttr, GlobalStorage) if cls not in known]
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(ours):
            warnings.simplefilter("ignore")  # what is wrong with the file we say ourselves
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError:
        raise
    # A file may be wrong in any way, and torch promises no kind of error for it.
    except Exception as error:
        foreign = re.search(r"GLOBAL (\S+)", str(error))
        got = f"a reference to {printable(foreign[1])}" if foreign else "another kind of file"
        raise DataError(
            f"{path}: must hold a PyG Data, its dict or a list of these, and nothing else, as no "
            f"code of a file is run (got {got}); save it with torch.save(data.to_dict(), path)"
        ) from error
    return _graph_file(str(path), path.stem, loaded, options, schema)


def from_pyg(
    data: Data | Dataset | Sequence[Data],
    options: TableOptions | None = None,
    schema: Schema | None = None,
    name: str = "data",
) -> GraphFile:
    """Make a graph file of PyG objects.

    Args:
        data: one graph whose nodes have labels, or several graphs.
        options: ``directed``, ``degree``, ``standardize`` and ``allow_unseen`` of them.
        schema: of what a model was trained on, to read something else for its predictions.
        name: of the result, and for messages.
    """
    if isinstance(data, Dataset):
        data = list(data)
        if len(data) == 1 and schema is None:  # PyG's way to hold a single graph
            data = data[0]
    options = options or TableOptions()
    if schema is not None:
        options = schema.options_for(options)
    return _graph_file(name, name, data, options, schema)


def _graph_file(
    where: str, name: str, data: Any, options: TableOptions, schema: Schema | None
) -> GraphFile:
    several = isinstance(data, (list, tuple))
    graphs = []
    for index, graph in enumerate(data if several else [data]):
        place = f"{where}, graph {index} (from 0)" if several else where
        graphs.append(_arrays(place, graph))
    return from_arrays(where, name, graphs, options, schema, several=several)


def _arrays(where: str, graph: Any) -> dict[str, npt.NDArray[Any]]:
    stored = _stored(where, graph)
    arrays: dict[str, npt.NDArray[Any]] = {}
    for key in USED:
        value = stored.get(key)
        if value is None:
            continue
        if not isinstance(value, Tensor) or value.layout is not torch.strided:
            kind = value.layout if isinstance(value, Tensor) else type(value).__name__
            raise DataError(f"{where}: {key} must be a dense tensor (got {kind}); convert it")
        value = value.detach().cpu()
        arrays[key] = (value.float() if value.dtype is torch.bfloat16 else value).numpy()
    if isinstance(stored.get("num_nodes"), int):
        arrays["num_nodes"] = np.array(stored["num_nodes"])
    if not arrays:
        raise DataError(f"{where}: must hold x, edge_index and y (got {listed(stored)}); add them")
    return arrays


def _stored(where: str, graph: Any) -> Mapping[str, Any]:
    """Return what a graph holds."""
    if isinstance(graph, Mapping):
        return graph
    problem: Exception | None = None
    if isinstance(graph, Data):
        try:
            return dict(graph.to_dict())
        except Exception as error:  # an object from a file may lack any of its parts
            problem = error
    raise DataError(
        f"{where}: must be a torch_geometric.data.Data or its dict (got "
        f"{type(graph).__name__}); convert it, from HeteroData with .to_homogeneous()"
    ) from problem
