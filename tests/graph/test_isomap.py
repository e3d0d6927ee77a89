"""Places of nodes against distances that are known."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.csgraph import shortest_path

from mgnni import ArgumentError
from mgnni.graph import isomap as module
from mgnni.graph.isomap import isomap


def adjacency(edges, size):
    a, b = np.array(edges).T
    return sparse.csr_matrix(
        (np.ones(2 * len(a), dtype=bool), (np.r_[a, b], np.r_[b, a])), shape=(size, size)
    )


def path(size):
    return adjacency([(i, i + 1) for i in range(size - 1)], size)


def cycle(size):
    return adjacency([(i, (i + 1) % size) for i in range(size)], size)


def random_tree(size, seed=0):
    rng = np.random.default_rng(seed)
    return adjacency([(int(rng.integers(i)), i) for i in range(1, size)], size)


def apart(place):
    return np.linalg.norm(place[:, None] - place[None], axis=-1)


@pytest.mark.parametrize("dense", [500, 1], ids=["all eigenvalues", "two eigenvalues"])
@pytest.mark.parametrize("size", [5, 8])
def test_a_path_is_a_line(size, dense, monkeypatch):
    monkeypatch.setattr(module, "DENSE", dense)
    place = isomap(path(size))
    hops = np.abs(np.arange(size)[:, None] - np.arange(size))
    np.testing.assert_allclose(apart(place), hops * 2 / (size - 1), atol=1e-8)
    assert (place[:, 1] == 0).all()
    assert place[0, 0] == 1  # a mirror image of itself: the first node is on the right


@pytest.mark.parametrize("size", [7, 8])
def test_a_cycle_is_a_regular_polygon(size):
    place = isomap(cycle(size))
    distance = apart(place)
    hops = shortest_path(cycle(size), unweighted=True)
    radius = np.linalg.norm(place, axis=1)
    np.testing.assert_allclose(radius, radius[0], atol=1e-8)
    np.testing.assert_allclose(distance, 2 * radius[0] * np.sin(np.pi * hops / size), atol=1e-8)


def test_a_grid_keeps_its_axes():
    width, height = 9, 3
    node = np.arange(width * height).reshape(height, width)
    beside, below = (node[:, :-1], node[:, 1:]), (node[:-1], node[1:])
    edges = np.hstack([np.reshape(ends, (2, -1)) for ends in (beside, below)]).T
    place = isomap(adjacency(edges, node.size)).reshape(height, width, 2)
    along, across = np.diff(place[..., 0], axis=1), np.diff(place[..., 1], axis=0)
    assert (along > 0).all() or (along < 0).all()
    assert (across[:, 2:-2] > 0).all() or (across[:, 2:-2] < 0).all()


@pytest.mark.parametrize("dense", [500, 1], ids=["all eigenvalues", "two eigenvalues"])
def test_a_tree_against_a_dense_eigendecomposition(dense, monkeypatch):
    monkeypatch.setattr(module, "DENSE", dense)
    graph = random_tree(40)
    size = 40
    centre = np.eye(size) - 1 / size
    squared = shortest_path(graph, unweighted=True) ** 2
    value, vector = np.linalg.eigh(-centre @ squared @ centre / 2)
    want = vector[:, [-1, -2]] * np.sqrt(value[[-1, -2]])
    want = want / np.abs(want).max()
    place = isomap(graph)
    np.testing.assert_allclose(np.abs(place), np.abs(want), atol=1e-8)
    assert (np.power(place, 3).sum(0) > 0).all()
    assert place[:, 0].var() > place[:, 1].var()


def test_places_do_not_depend_on_the_order_of_the_nodes():
    graph = random_tree(30, seed=3)
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_allclose(isomap(graph[order][:, order]), isomap(graph)[order], atol=1e-8)


def test_twins_share_a_place_to_the_last_digit():
    # Three legs of three; leaves 10 and 11 hang on one of them, and nothing tells them apart.
    legs = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6), (0, 7), (7, 8), (8, 9)]
    place = isomap(adjacency([*legs, (3, 10), (3, 11)], 12))
    assert (place[10] == place[11]).all()
    assert len(np.unique(place, axis=0)) == 11


def test_two_nodes():
    assert isomap(path(2)).tolist() == [[1, 0], [-1, 0]]


def test_values_of_entries_do_not_count():
    graph = random_tree(10)
    weighted = graph.astype(float)
    weighted.data *= np.arange(1, 1 + graph.nnz)
    assert (isomap(weighted) == isomap(graph)).all()


def test_a_large_graph_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MOST_NODES", 6)
    isomap(path(6))
    with pytest.raises(ArgumentError, match=r"at most 6 nodes.*got 7\).*smaller"):
        isomap(path(7))
