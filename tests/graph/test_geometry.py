"""Positions of nodes against known distances, and structural neighbourhoods of known graphs."""

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.sparse.csgraph import shortest_path
from torch_geometric.utils import to_undirected

from mgnni import ArgumentError, Propagation
from mgnni.graph import geometry
from mgnni.graph.geometry import (
    RELATIONS,
    close_pairs,
    isomap,
    quadrants,
    structural,
    structure,
)
from problems import chain, lopsided_edges


def operator(edge_index, num_nodes, **options):
    options = {"normalization": "none", "self_loops": False, "dtype": torch.float64, **options}
    return Propagation.from_edge_index(edge_index, num_nodes, **options)


def triples(edge_index, num_nodes, **options):
    found = structure(operator(edge_index, num_nodes, **options))
    return set(zip(*(part.tolist() for part in found), strict=True))


def test_quadrants_are_relative_to_the_aggregating_node():
    place = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])
    centre, others = np.zeros(5, dtype=int), np.arange(1, 6)
    # left below 0, right below 1, left above 2, right above 3; the same place counts as that
    assert quadrants(place, centre, others).tolist() == [3, 2, 0, 1, 3]
    assert quadrants(place, others, centre).tolist() == [0, 1, 3, 2, 3]


@pytest.mark.parametrize(
    ("count", "pairs"), [(1, {(0, 1)}), (2, {(0, 1), (1, 2), (2, 3)}), (4, None)]
)
def test_close_pairs_include_all_ties(count, pairs):
    place = np.array([[0.0, 0.0], [0.0, 0.5], [0.0, 1.5], [1.0, 1.5], [9.0, 9.0]])
    found = {tuple(sorted(pair)) for pair in close_pairs(place, count).T.tolist()}
    assert found == pairs if pairs else len(found) == 4


def test_the_structure_of_a_path_is_known():
    # 0 lies on the right. Neighbours in the plane are those in the graph, and all is at one height.
    right, left = 3, 2
    want = {(v, v, 8) for v in range(4)}
    for v in range(3):
        want |= {(v + 1, v, right), (v, v + 1, left), (v + 1, v, 4 + right), (v, v + 1, 4 + left)}
    assert triples(chain(4), 4) == want


def test_a_directed_path_aggregates_along_edges_and_is_embedded_as_undirected(device):
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]], device=device)
    graph = {t for t in triples(edge_index, 4) if t[2] < 4}
    assert graph == {(1, 0, 3), (2, 1, 3), (3, 2, 3)}
    backwards = triples(edge_index, 4, flow="target_to_source")
    assert {t for t in backwards if t[2] < 4} == {(0, 1, 2), (1, 2, 2), (2, 3, 2)}
    # Three edges make an average that two pairs reach first, and all three tie.
    near = {t for t in triples(edge_index, 4) if 4 <= t[2] < 8}
    assert near == {t for t in triples(chain(4), 4) if 4 <= t[2] < 8}


def test_the_plane_has_as_many_neighbours_as_the_graph():
    edge_index = to_undirected(lopsided_edges(40, seed=2)[0], num_nodes=40)
    row, col, relation = structure(operator(edge_index, 40))
    own = row == col
    graph, plane = (relation < 4).sum(), ((relation >= 4) & (relation < 8)).sum()
    assert graph == (edge_index[0] != edge_index[1]).sum()
    assert graph <= plane <= graph + 20  # ties
    assert own.sum() == 40
    assert (relation[own] == 8).all()
    pairs = set(zip(row[relation > 3].tolist(), col[relation > 3].tolist(), strict=True))
    assert all((b, a) in pairs for a, b in pairs)


def test_components_are_embedded_separately_in_a_batch_or_not(device):
    sizes, first = (5, 1, 4), 0
    whole, edges = set(), []
    for size in sizes:
        edge_index = chain(size) if size < 5 else torch.tensor([[0, 0, 1, 3], [1, 2, 3, 4]])
        edges.append(edge_index + first)
        whole |= {(v + first, u + first, r) for v, u, r in triples(edge_index, size)}
        first += size
    together = torch.cat(edges, dim=1).to(device)
    batch = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes)).to(device)
    assert triples(together, 10) == whole
    assert triples(together, 10, batch=batch) == whole


@pytest.mark.parametrize("directed", [False, True])
def test_the_operator_of_virtual_nodes_matches_its_definition(directed, device):
    size = 12
    edge_index = lopsided_edges(size)[0]
    if not directed:
        edge_index = to_undirected(edge_index, num_nodes=size)
    source = operator(edge_index.to(device), size)
    entries = list(zip(*(part.tolist() for part in structure(source)), strict=True))
    degree = [sum(v == node for v, _, _ in entries) for node in range(size)]
    want = torch.zeros(size, RELATIONS, size, RELATIONS, dtype=torch.float64)
    for v, u, r in entries:
        want[v, r, u, r] = (degree[v] * degree[u]) ** -0.5
    virtual = structural(source)
    assert virtual.dtype is torch.float64
    torch.testing.assert_close(virtual.to_dense().cpu(), want.view(size * RELATIONS, -1))
    assert structural(source) is virtual


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_node_without_edges_aggregates_from_itself(size, device):
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    assert triples(none, size) == {(v, v, 8) for v in range(size)}
    loops = torch.arange(size, device=device).expand(2, -1)
    assert triples(loops, size) == {(v, v, 8) for v in range(size)}
    assert structural(operator(none, size)).values.tolist() == [1] * size


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


def distances(place):
    return np.linalg.norm(place[:, None] - place[None], axis=-1)


@pytest.mark.parametrize("dense", [500, 1], ids=["all eigenvalues", "two eigenvalues"])
@pytest.mark.parametrize("size", [5, 8])
def test_a_path_is_a_line(size, dense, monkeypatch):
    monkeypatch.setattr(geometry, "DENSE", dense)
    place = isomap(path(size))
    hops = np.abs(np.arange(size)[:, None] - np.arange(size))
    np.testing.assert_allclose(distances(place), hops * 2 / (size - 1), atol=1e-8)
    assert (place[:, 1] == 0).all()
    assert place[0, 0] == 1  # a mirror image of itself: the first node is on the right


@pytest.mark.parametrize("size", [7, 8])
def test_a_cycle_is_a_regular_polygon(size):
    place = isomap(cycle(size))
    distance = distances(place)
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
def test_a_tree_matches_a_dense_eigendecomposition(dense, monkeypatch):
    monkeypatch.setattr(geometry, "DENSE", dense)
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


def test_positions_do_not_depend_on_the_order_of_the_nodes():
    graph = random_tree(30, seed=3)
    order = np.random.default_rng(1).permutation(30)
    np.testing.assert_allclose(isomap(graph[order][:, order]), isomap(graph)[order], atol=1e-8)


def test_indistinguishable_nodes_share_a_position_to_the_digit():
    # Three legs of three; leaves 10 and 11 hang on one of them, and they are indistinguishable.
    legs = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6), (0, 7), (7, 8), (8, 9)]
    place = isomap(adjacency([*legs, (3, 10), (3, 11)], 12))
    assert (place[10] == place[11]).all()
    assert len(np.unique(place, axis=0)) == 11


def test_two_nodes_are_opposite():
    assert isomap(path(2)).tolist() == [[1, 0], [-1, 0]]


def test_positions_do_not_depend_on_the_values_of_the_entries():
    graph = random_tree(10)
    weighted = graph.astype(float)
    weighted.data *= np.arange(1, 1 + graph.nnz)
    assert (isomap(weighted) == isomap(graph)).all()


def test_a_large_graph_is_refused(monkeypatch):
    monkeypatch.setattr(geometry, "MAX_NODES", 6)
    isomap(path(6))
    with pytest.raises(ArgumentError, match=r"at most 6 nodes.*got 7\).*smaller"):
        isomap(path(7))
