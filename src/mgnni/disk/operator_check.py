"""Checks that the files of a stored graph hold the operator that they describe."""

from __future__ import annotations

import numpy as np
import torch

from mgnni.disk.stored_graph import StoredGraph, blocks
from mgnni.errors import DataError

CLOSE = 1e-5  # of a product and that with the transpose, relative to the sizes of their terms


def check_operator(graph: StoredGraph) -> None:
    """Check row pointers, columns and entries, and symmetry if it is claimed, in one pass.

    Symmetry is checked by the products of P and of its transpose with a random vector.

    Args:
        graph (StoredGraph): The graph.
    """
    crow = graph.array("crow")
    first, last = int(crow[0]), int(crow[-1])
    if (first, last) != (0, graph.nnz):
        _refuse(graph, "crow", f"run from 0 to {graph.nnz}", f"{first} to {last}")
    probe = torch.randn(graph.num_nodes, dtype=torch.float64, generator=_generator())
    difference, size = torch.zeros_like(probe), torch.zeros_like(probe)
    for start, stop in blocks(graph.num_nodes, graph.rows_per_block()):
        lengths = torch.from_numpy(crow[start : stop + 1].astype(np.int64)).diff()
        if bool((lengths < 0).any()):
            _refuse(graph, "crow", "not decrease", f"a decrease after row {start}")
        part = slice(int(crow[start]), int(crow[stop]))
        col = torch.from_numpy(graph.array("col")[part].astype(np.int64))
        value = torch.from_numpy(graph.array("values")[part].astype(np.float64))
        if col.numel() and not 0 <= int(col.min()) <= int(col.max()) < graph.num_nodes:
            found = f"{int(col.min())} to {int(col.max())}"
            _refuse(graph, "col", f"lie between 0 and {graph.num_nodes - 1}", found)
        if not bool((value.isfinite() & (value >= 0)).all()):
            _refuse(graph, "values", "be finite and not negative", "others")
        row = torch.repeat_interleave(torch.arange(start, stop), lengths)
        there, back = value * probe[col], value * probe[row]
        difference.index_add_(0, row, there).index_add_(0, col, back, alpha=-1)
        size.index_add_(0, row, there.abs()).index_add_(0, col, back.abs())
    if graph.symmetric and bool((difference.abs() > CLOSE * size).any()):
        raise DataError(
            f"{graph.folder}: must hold a symmetric operator, as graph.json says (got a directed "
            "one); set 'symmetric' to false"
        )


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def _refuse(graph: StoredGraph, name: str, wanted: str, found: str) -> None:
    raise DataError(
        f"{graph.folder / name}.npy: must {wanted} (got {found}); store the graph again"
    )
