"""Structural neighbourhoods of graphs whose layout is known."""

import numpy as np
import pytest
import torch
from torch_geometric.utils import to_undirected

from mgnni import Propagation
from mgnni.graph.geometry import RELATIONS, close_pairs, quadrants, structural, structure
from problems import chain, lopsided_edges


def operator(edge_index, num_nodes, **options):
    options = {"normalization": "none", "self_loops": False, "dtype": torch.float64, **options}
    return Propagation.from_edge_index(edge_index, num_nodes, **options)


def triples(edge_index, num_nodes, **options):
    found = structure(operator(edge_index, num_nodes, **options))
    return set(zip(*(part.tolist() for part in found), strict=True))


def test_quadrants_are_seen_from_the_node_that_gathers():
    place = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])
    centre, others = np.zeros(5, dtype=int), np.arange(1, 6)
    # left below 0, right below 1, left above 2, right above 3; the same place counts as that
    assert quadrants(place, centre, others).tolist() == [3, 2, 0, 1, 3]
    assert quadrants(place, others, centre).tolist() == [0, 1, 3, 2, 3]


@pytest.mark.parametrize(
    ("count", "pairs"), [(1, {(0, 1)}), (2, {(0, 1), (1, 2), (2, 3)}), (4, None)]
)
def test_close_pairs_are_as_many_as_asked_for_and_all_at_a_tie(count, pairs):
    place = np.array([[0.0, 0.0], [0.0, 0.5], [0.0, 1.5], [1.0, 1.5], [9.0, 9.0]])
    found = {tuple(sorted(pair)) for pair in close_pairs(place, count).T.tolist()}
    assert found == pairs if pairs else len(found) == 4


def test_a_path_by_hand():
    # 0 lies on the right. Neighbours in the plane are those in the graph, and all is at one height.
    right, left = 3, 2
    want = {(v, v, 8) for v in range(4)}
    for v in range(3):
        want |= {(v + 1, v, right), (v, v + 1, left), (v + 1, v, 4 + right), (v, v + 1, 4 + left)}
    assert triples(chain(4), 4) == want


def test_a_directed_path_gathers_along_edges_and_is_laid_out_as_if_it_had_no_direction(device):
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


def test_parts_are_laid_out_by_themselves_whether_they_are_a_batch_or_not(device):
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
def test_the_operator_of_virtual_nodes_densely(directed, device):
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
def test_without_edges_a_node_has_itself(size, device):
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    assert triples(none, size) == {(v, v, 8) for v in range(size)}
    loops = torch.arange(size, device=device).expand(2, -1)
    assert triples(loops, size) == {(v, v, 8) for v in range(size)}
    assert structural(operator(none, size)).values.tolist() == [1] * size
