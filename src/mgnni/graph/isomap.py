"""A plane in which nodes lie as far apart as they are in hops, as well as a plane can do it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.csgraph import shortest_path
from scipy.sparse.linalg import eigsh

from mgnni.errors import ArgumentError

MOST_NODES = 20_000  # all distances are at hand at once: twice 3 GB
DENSE = 500  # nodes up to which all eigenvalues are found
DIGITS = 9  # of the coordinates; what differs by rounding alone is the same place

Array = np.ndarray[Any, np.dtype[np.float64]]


def isomap(adjacency: sparse.csr_matrix) -> Array:
    r"""Return the places of the nodes of a connected, undirected graph, shape ``(num_nodes, 2)``.

    Classical scaling of the distances in hops, which is Isomap on the graph itself: with
    :math:`J = I - \frac1n 1 1^{\top}`, the two largest eigenvalues of :math:`-\frac12 J D^2 J`, and
    their eigenvectors times their roots. The largest coordinate is one. A mirror image would do
    as well; the skewness of every coordinate is made positive, so that it is always the same one.

    Args:
        adjacency: whose entries stand where edges are, whatever their values.
    """
    size = adjacency.shape[0]
    if size > MOST_NODES:
        raise ArgumentError(
            f"a connected graph must have at most {MOST_NODES:,} nodes to be laid out by its "
            f"distances (got {size:,}); use a smaller graph, or another model"
        )
    gram = shortest_path(adjacency, method="D", directed=False, unweighted=True)
    np.square(gram, out=gram)
    mean = gram.mean(axis=0)
    gram -= mean
    gram -= (mean - mean.mean())[:, None]
    gram *= -0.5
    if size <= DENSE:
        value, vector = eigh(gram, subset_by_index=(max(size - 2, 0), size - 1))
    else:
        start = np.random.default_rng(0).standard_normal(size)
        value, vector = eigsh(gram, 2, which="LA", v0=start)
    order = np.argsort(-value)
    value, vector = value[order], vector[:, order]
    # A path fills a line: what is left of its second eigenvalue is rounding.
    value = np.where(value > 1e-9 * value[0], value, 0.0)
    place = np.zeros((size, 2))
    place[:, : len(value)] = vector * np.sqrt(value)
    largest = np.abs(place).max()
    return _upright((place / largest if largest else place).round(DIGITS))


def _upright(place: Array) -> Array:
    for axis in place.T:
        skewness = np.power(axis, 3).sum()
        if abs(skewness) < 1e-6 * len(axis):  # as much on either side: let the first node decide
            skewness = axis[np.argmax(axis != 0)]
        if skewness < 0:
            axis *= -1
    return place
