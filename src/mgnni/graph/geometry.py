"""Structural neighbourhoods: neighbours in the graph and in a plane, by where they lie."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree
from scipy.spatial.distance import pdist

from mgnni.graph.derived import derived
from mgnni.graph.isomap import Array, isomap
from mgnni.graph.neighborhoods import neighbors
from mgnni.graph.propagation import Propagation

QUADRANTS = 4
RELATIONS = 2 * QUADRANTS + 1  # in the graph, in the plane, and a node to itself
NEAR = 1e-8  # coordinates are at most one, and rounded to less than this

Index = np.ndarray[Any, np.dtype[np.integer[Any]]]


class Structure(NamedTuple):
    """Which node gathers from which, and in what relation; one entry a pair and neighbourhood."""

    row: Index
    col: Index
    relation: Index


def quadrants(place: Array, row: Index, col: Index) -> Index:
    """Return where each ``col`` lies as seen from its ``row``: right or left, above or below."""
    right, above = (place[row] <= place[col]).T
    found: Index = right + 2 * above.astype(np.int64)
    return found


def close_pairs(place: Array, count: int) -> Index:
    """Return the pairs that are closest, shape ``(2, pairs)``: ``count``, and all at a tie."""
    distance = pdist(place)
    radius = np.partition(distance, count - 1)[count - 1]
    found: Index = KDTree(place).query_pairs(radius + NEAR, output_type="ndarray").T
    return found


def structure(propagation: Propagation) -> Structure:
    """Return the structural neighbourhoods of all nodes.

    Every connected part is laid out in a plane of its own. There, nodes within a radius are
    neighbours: the least one with which nodes have, on average, as many of them as in the graph.
    """
    adjacency = neighbors(propagation)
    size = propagation.num_nodes
    row, col = adjacency.nonzero()
    undirected = (adjacency + adjacency.T).tocsr()
    place = np.zeros((size, 2))
    near: list[Index] = [np.empty((2, 0), dtype=np.int64)]
    for nodes in _connected(undirected):
        place[nodes] = isomap(undirected[nodes][:, nodes])
        edges = adjacency[nodes].nnz
        near.append(nodes[close_pairs(place[nodes], math.ceil(edges / 2))])
    a, b = np.concatenate(near, axis=1)
    near_row, near_col = np.concatenate([a, b]), np.concatenate([b, a])
    own = np.arange(size)
    relation = [
        quadrants(place, row, col),
        QUADRANTS + quadrants(place, near_row, near_col),
        np.full(size, RELATIONS - 1),
    ]
    return Structure(
        np.concatenate([row, near_row, own]),
        np.concatenate([col, near_col, own]),
        np.concatenate(relation),
    )


def _connected(undirected: sparse.csr_matrix) -> list[Index]:
    """Return the nodes of every connected part that has an edge."""
    size = undirected.shape[0]
    if not size:
        return []
    _, part = connected_components(undirected, directed=False)
    order = np.argsort(part, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(part[order])) + 1)
    return [nodes for nodes in parts if len(nodes) > 1]


@derived
def structural(propagation: Propagation) -> Propagation:
    r"""Return an operator on virtual nodes, one for each node and relation; found once.

    Row :math:`v R + r` gathers from the neighbours of node :math:`v` in relation :math:`r` of
    :math:`R`, each divided by :math:`\sqrt{d_v d_u}`, the entries of their nodes over all
    relations.
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
