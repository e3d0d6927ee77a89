"""Neighbourhoods of nodes as sets: edges count, whatever their weights are."""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

from mgnni.errors import ArgumentError
from mgnni.graph.derived import derived
from mgnni.graph.pattern import Pattern
from mgnni.graph.propagation import Propagation

MOST_PAIRS = 10**8  # two hops apart; building their operator takes some 60 bytes for each


def neighbors(propagation: Propagation) -> sparse.csr_matrix:
    """Return which other nodes each node gathers from, as a matrix of booleans on the CPU."""
    pattern, size = propagation.pattern, propagation.num_nodes
    # Not by numpy(), which refuses what torch.func wraps.
    row, col = np.array(pattern.row.tolist(), int), np.array(pattern.col.tolist(), int)
    other = row != col
    index = (row[other], col[other])
    return sparse.csr_matrix((np.ones(other.sum(), dtype=bool), index), shape=(size, size))


@derived
def closed_pattern(propagation: Propagation) -> Pattern:
    """Return where the operator has entries, and the diagonal; found once."""
    row, col, size = propagation.pattern.row, propagation.pattern.col.long(), propagation.num_nodes
    own = torch.arange(size, device=row.device) * (size + 1)
    key = torch.unique(torch.cat([row * size + col, own]))
    return Pattern.from_sorted(key // max(size, 1), key % max(size, 1), size)


@derived
def strict_hops(propagation: Propagation) -> tuple[Propagation, Propagation]:
    r"""Return the operators of the nodes one hop away, and of those two hops away and no nearer.

    Neither has self-loops. Both are normalised by themselves, ``"sym"`` if they are symmetric and
    ``"dir"`` if not. They are found once for an operator, by a sparse product on the CPU.
    """
    one = neighbors(propagation)
    size = propagation.num_nodes
    walks = int((one.getnnz(axis=0).astype(np.int64) * one.getnnz(axis=1)).sum())
    pairs = min(walks, size * size)
    if pairs > MOST_PAIRS:
        raise ArgumentError(
            f"the graph must have at most {MOST_PAIRS:,} pairs of nodes two hops apart (got up to "
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
        normalization="auto",
        self_loops=False,
        batch=propagation.batch,
        dtype=propagation.dtype,
    )
