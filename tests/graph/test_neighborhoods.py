"""Neighbourhoods against reachability in dense matrices of zeros and ones."""

import pytest
import torch
from torch_geometric.utils import to_undirected

from mgnni import ArgumentError, Propagation
from mgnni.graph import neighborhoods
from mgnni.graph.neighborhoods import closed_pattern, strict_hops
from problems import chain, lopsided_edges

NODES = 12


def gathers(edge_index, num_nodes):
    """Whether there is an edge from another node u to v, at ``[v, u]``."""
    table = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for source, target in edge_index.T.tolist():
        table[target, source] = float(source != target)
    return table


def normalized(table):
    """Divide by the roots of row and column sums, leaving zeros alone."""
    rows, columns = table.sum(1, keepdim=True), table.sum(0, keepdim=True)
    return table / (rows * columns).sqrt().clamp(min=1)


def dense_hops(edge_index, num_nodes):
    one = gathers(edge_index, num_nodes)
    near = one + torch.eye(num_nodes, dtype=one.dtype)
    two = ((near @ near > 0) & (near == 0)).double()
    return normalized(one), normalized(two)


CASES = {
    "directed": (lopsided_edges(NODES)[0], NODES),
    "undirected": (to_undirected(lopsided_edges(NODES)[0], num_nodes=NODES), NODES),
    "chain": (chain(6), 6),
    "a cycle of three, all within one hop": (torch.tensor([[0, 1, 2], [1, 2, 0]]), 3),
    "loops only": (torch.tensor([[0, 2], [0, 2]]), 3),
    "no edges": (torch.empty(2, 0, dtype=torch.long), 4),
    "one node": (torch.empty(2, 0, dtype=torch.long), 1),
    "no nodes": (torch.empty(2, 0, dtype=torch.long), 0),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
def test_hops_are_strict_and_normalised_separately(case, self_loops, flow, device):
    edge_index, size = CASES[case]
    operator = Propagation.from_edge_index(
        edge_index.to(device),
        size,
        normalization="none",
        self_loops=self_loops,
        flow=flow,
        dtype=torch.float64,
    )
    directed = edge_index if flow == "source_to_target" else edge_index.flip(0)
    for hop, want in zip(strict_hops(operator), dense_hops(directed, size), strict=True):
        assert hop.dtype is torch.float64
        torch.testing.assert_close(hop.to_dense().cpu(), want)


def test_two_hops_of_a_directed_chain_go_along_the_edges(device):
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]], device=device)
    _, two = strict_hops(Propagation.from_edge_index(edge_index, 4, normalization="dir"))
    assert two.pattern.row.tolist() == [2, 3]
    assert two.pattern.col.tolist() == [0, 1]
    assert two.values.tolist() == [1, 1]


def test_neighbourhoods_do_not_depend_on_weights(device):
    edge_index, weight = (part.to(device) for part in lopsided_edges(NODES))
    hops = [
        strict_hops(Propagation.from_edge_index(edge_index, NODES, w, "none", dtype=torch.float32))
        for w in (None, weight, -weight)
    ]
    for other in hops[1:]:
        for a, b in zip(hops[0], other, strict=True):
            assert a.dtype is torch.float32
            assert torch.equal(a.to_dense(), b.to_dense())


def test_a_batch_has_the_hops_of_its_graphs(device):
    edge_index = torch.cat([chain(4), chain(3) + 4], dim=1).to(device)
    batch = torch.tensor([0, 0, 0, 0, 1, 1, 1], device=device)
    operator = Propagation.from_edge_index(edge_index, 7, batch=batch)
    for hop, a, b in zip(
        strict_hops(operator), dense_hops(chain(4), 4), dense_hops(chain(3), 3), strict=True
    ):
        assert hop.num_graphs == 2
        torch.testing.assert_close(hop.to_dense().cpu().double(), torch.block_diag(a, b))


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_closed_pattern_has_every_edge_and_every_loop_once(case, self_loops, device):
    edge_index, size = CASES[case]
    operator = Propagation.from_edge_index(
        edge_index.to(device), size, self_loops=self_loops, normalization="none"
    )
    pattern = closed_pattern(operator)
    pairs = [tuple(pair) for pair in zip(pattern.col.tolist(), pattern.row.tolist(), strict=True)]
    want = {tuple(pair) for pair in edge_index.T.tolist()} | {(i, i) for i in range(size)}
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == want


def test_a_graph_with_too_many_pairs_is_refused(monkeypatch, device):
    # A star of n leaves has n (n - 1) pairs of leaves, plus the walks back.
    leaves = torch.arange(1, 11)
    star = to_undirected(torch.stack([torch.zeros(10, dtype=torch.long), leaves])).to(device)
    operator = Propagation.from_edge_index(star, 11)
    monkeypatch.setattr(neighborhoods, "MAX_PAIRS", 109)
    with pytest.raises(ArgumentError, match=r"at most 109 pairs.*got up to 110\).*smaller"):
        strict_hops(operator)
    monkeypatch.setattr(neighborhoods, "MAX_PAIRS", 110)
    assert strict_hops(operator)[1].pattern.nnz == 90
