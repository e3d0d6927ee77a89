"""Edges of PyG objects that are stored as a sparse adjacency matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mgnni.errors import DataError

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def with_edge_index(where: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the attributes of a graph, with ``edge_index`` if its edges are in ``adj_t``.

    As in PyG, rows of ``adj_t`` are targets, columns are sources, and values are edge weights. The
    result has the values as ``adj_t``. If there is an ``edge_index`` too, ``adj_t`` is left out.

    Args:
        where (str): The graph, for messages.
        stored (dict): The attributes.
    """
    found = dict(stored)
    adjacency = found.pop("adj_t", None)
    if adjacency is None or found.get("edge_index") is not None:
        return found
    if found.get("edge_weight") is not None:
        raise DataError(
            f"{where}: the edge weights must be the values of adj_t (got edge_weight as well); "
            "remove it, or store edge_index instead of adj_t"
        )
    sparse = isinstance(adjacency, Tensor) and adjacency.layout in LAYOUTS
    if not sparse and not hasattr(adjacency, "sparse_sizes"):  # of torch_sparse.SparseTensor
        kind = adjacency.layout if isinstance(adjacency, Tensor) else type(adjacency).__name__
        raise DataError(
            f"{where}: adj_t must be a sparse matrix in COO, CSR or CSC layout (got {kind}); "
            "convert it with .to_sparse_csr()"
        )
    sizes = tuple(adjacency.shape[:2] if sparse else adjacency.sparse_sizes())
    if len(sizes) != 2 or sizes[0] != sizes[1]:
        raise DataError(
            f"{where}: adj_t must have one row and one column per node (got shape {sizes}); "
            "correct it"
        )
    if sparse:
        matrix = adjacency.to_sparse_coo()
        (target, source), values = matrix._indices(), matrix._values()
    else:
        target, source, values = adjacency.coo()
    found.setdefault("num_nodes", sizes[0])
    found["edge_index"] = torch.stack([source, target])
    found["adj_t"] = torch.ones(source.numel()) if values is None else values
    return found
