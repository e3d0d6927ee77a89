"""Structural neighbourhoods of Geom-GCN: nodes are embedded in a plane by their graph distances.

Pei et al., "Geom-GCN: Geometric Graph Convolutional Networks", ICLR 2020.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components, shortest_path
from scipy.sparse.linalg import eigsh
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

from mgnni.errors import ArgumentError
from mgnni.graph.memo import memoize
from mgnni.graph.neighborhoods import neighbors
from mgnni.graph.propagation import Propagation

QUADRANTS = 4
RELATIONS = 2 * QUADRANTS + 1  # neighbours in the graph, neighbours in the plane, the node itself
NEAR = 1e-8  # coordinates are at most one, and rounded to less than this
MAX_NODES = 20_000  # of a connected graph, whose distance matrices take 6 GB
DENSE = 500  # nodes up to which all eigenvalues are computed
DIGITS = 9  # of the coordinates, so that rounding does not separate equal positions

Index = NDArray[np.signedinteger]
Array = NDArray[np.float64]


class Structure(NamedTuple):
    """Structural neighbourhoods: node ``row`` aggregates from node ``col`` in a relation."""

    row: Index
    col: Index
    relation: Index


@memoize
def structural(propagation: Propagation) -> Propagation:
    r"""Return an operator on virtual nodes, one per node and relation, cached per operator.

    Row :math:`v R + r` aggregates from the neighbours :math:`u` of node :math:`v` in relation
    :math:`r` of :math:`R`, with weights :math:`1 / \sqrt{d_v d_u}`. The degrees count the
    neighbours in all relations.
    """
    row, col, relation = structure(propagation)
    degree = np.bincount(row, minlength=propagation.num_nodes)
    weight = 1 / np.sqrt(degree[row] * degree[col])
    virtual = np.stack([col, row]) * RELATIONS + relation
    return Propagation.from_edge_index(
        torch.from_numpy(virtual).to(propagation.device),
        propagation.num_nodes * RELATIONS,
        torch.from_numpy(weight).to(propagation.device),
        "none",
        self_loops=False,
        dtype=propagation.dtype,
    )


def structure(propagation: Propagation) -> Structure:
    """Return the structural neighbourhoods of all nodes.

    Every connected component is embedded in a plane of its own. There, nodes within a radius are
    neighbours. The radius is the smallest with as many neighbours on average as in the graph.
    """
    adjacency = neighbors(propagation)
    size = propagation.num_nodes
    row, col = adjacency.nonzero()
    undirected = (adjacency + adjacency.T).tocsr()
    place = np.zeros((size, 2))
    near: list[Index] = [np.empty((2, 0), dtype=np.int64)]
    for nodes in _components(undirected):
        place[nodes] = isomap(undirected[nodes][:, nodes])
        edges = adjacency[nodes].nnz
        near.append(nodes[close_pairs(place[nodes], math.ceil(edges / 2))])
    a, b = np.concatenate(near, axis=1)
    near_row, near_col = np.concatenate([a, b]), np.concatenate([b, a])
    diagonal = np.arange(size)
    relation = [
        quadrants(place, row, col),
        QUADRANTS + quadrants(place, near_row, near_col),
        np.full(size, RELATIONS - 1),
    ]
    return Structure(
        np.concatenate([row, near_row, diagonal]),
        np.concatenate([col, near_col, diagonal]),
        np.concatenate(relation),
    )


def quadrants(place: Array, row: Index, col: Index) -> Index:
    """Return the quadrant of each ``col`` relative to its ``row``: left/right, below/above."""
    right, above = (place[row] <= place[col]).T
    found: Index = right + 2 * above.astype(np.int64)
    return found


def close_pairs(place: Array, count: int) -> Index:
    """Return the ``count`` closest pairs and all pairs that tie with them, shape ``(2, pairs)``."""
    distance = pdist(place)
    radius = np.partition(distance, count - 1)[count - 1]
    found: Index = KDTree(place).query_pairs(radius + NEAR, output_type="ndarray").T
    return found


def _components(undirected: sparse.csr_matrix) -> list[Index]:
    """Return the nodes of every connected component that has an edge."""
    size = undirected.shape[0]
    if not size:
        return []
    _, component = connected_components(undirected, directed=False)
    order = np.argsort(component, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(component[order])) + 1)
    return [nodes for nodes in parts if len(nodes) > 1]


def isomap(adjacency: sparse.csr_matrix) -> Array:
    r"""Return the positions of the nodes of a connected, undirected graph in a plane.

    This is classical multidimensional scaling of the shortest-path distances :math:`D` (Isomap
    with the graph itself as its neighbourhood graph): with
    :math:`J = I - \frac1n 1 1^{\top}`, the eigenvectors of the two largest eigenvalues of
    :math:`-\frac12 J D^2 J`, times the roots of the eigenvalues. The largest coordinate is one.
    The sign of each axis is chosen such that its skewness is positive.

    Args:
        adjacency (scipy.sparse.csr_matrix): The edges; their values are ignored.

    Shapes:
        - **output:** :math:`(|\mathcal{V}|, 2)`
    """
    size = adjacency.shape[0]
    if size > MAX_NODES:
        raise ArgumentError(
            f"a connected graph must have at most {MAX_NODES:,} nodes to be embedded by its "
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
    # The second eigenvalue of a path is zero up to rounding.
    value = np.where(value > 1e-9 * value[0], value, 0.0)
    place = np.zeros((size, 2))
    place[:, : len(value)] = vector * np.sqrt(value)
    largest = np.abs(place).max()
    return _orient((place / largest if largest else place).round(DIGITS))


def _orient(place: Array) -> Array:
    for axis in place.T:
        skewness = np.power(axis, 3).sum()
        if abs(skewness) < 1e-6 * len(axis):  # symmetric: the first node decides
            skewness = axis[np.argmax(axis != 0)]
        if skewness < 0:
            axis *= -1
    return place
