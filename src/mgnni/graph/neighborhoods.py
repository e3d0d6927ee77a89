"""Neighbourhoods of nodes as sets, independent of the edge weights."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from mgnni.errors import ArgumentError
from mgnni.graph.csr import Pattern
from mgnni.graph.memo import memoize
from mgnni.graph.propagation import Propagation

MAX_PAIRS = 10**8  # of nodes two hops apart; their operator takes about 60 bytes per pair


def neighbors(propagation: Propagation) -> sparse.csr_matrix:
    """Return which other nodes each node aggregates from, as a boolean matrix on the CPU."""
    pattern, size = propagation.pattern, propagation.num_nodes
    # Tensor.numpy() does not support tensors wrapped by torch.func.
    row, col = np.array(pattern.row.tolist(), int), np.array(pattern.col.tolist(), int)
    other = row != col
    index = (row[other], col[other])
    return sparse.csr_matrix((np.ones(other.sum(), dtype=bool), index), shape=(size, size))


@memoize
def closed_pattern(propagation: Propagation) -> Pattern:
    """Return the pattern of an operator with the diagonal added, cached per operator."""
    row, col, size = propagation.pattern.row, propagation.pattern.col.long(), propagation.num_nodes
    diagonal = torch.arange(size, device=row.device) * (size + 1)
    key = torch.unique(torch.cat([row * size + col, diagonal]))
    return Pattern.from_sorted(key // max(size, 1), key % max(size, 1), size)


@memoize
def strict_hops(propagation: Propagation) -> tuple[Propagation, Propagation]:
    r"""Return the operators of the neighbours at distance one and at distance exactly two.

    Neither has self-loops. Each is normalised on its own, by ``"sym"`` if it is symmetric, else by
    ``"dir"``. They are computed once per operator, by a sparse product on the CPU.
    """
    one = neighbors(propagation)
    size = propagation.num_nodes
    walks = int((one.getnnz(axis=0).astype(np.int64) * one.getnnz(axis=1)).sum())
    pairs = min(walks, size * size)
    if pairs > MAX_PAIRS:
        raise ArgumentError(
            f"the graph must have at most {MAX_PAIRS:,} pairs of nodes two hops apart (got up to "
            f"{pairs:,}); use a smaller or sparser graph, or a model of one hop"
        )
    nearer = one + sparse.identity(size, dtype=bool, format="csr")
    two = (one @ one) > nearer
    return _operator(one, propagation), _operator(two, propagation)


def _operator(matrix: sparse.csr_matrix, propagation: Propagation) -> Propagation:
    target, source = matrix.nonzero()
    edge_index = torch.from_numpy(np.stack([source, target]).astype(np.int64))
    return Propagation.from_edge_index(
        edge_index.to(propagation.device),
        propagation.num_nodes,
        self_loops=False,
        batch=propagation.batch,
        batch_size=propagation.num_graphs,
        dtype=propagation.dtype,
    )
