"""Bounds on the largest eigenvalue, against dense eigenvalues."""

import pytest
import torch

from mgnni import Propagation
from mgnni.graph.bounds import perron_bound
from problems import chain, lopsided_edges, propagation, state_norm


def raw(edge_index, num_nodes, edge_weight=None, **options):
    options = {"normalization": "none", "self_loops": False, "dtype": torch.float64, **options}
    return Propagation.from_edge_index(edge_index, num_nodes, edge_weight, **options)


def eigenvalue(operator):
    return torch.linalg.eigvals(operator.to_dense().abs()).abs().max().item()


def check(operator, slack):
    """The bound holds for the eigenvalue, for the norm that it names, and is close."""
    bound = perron_bound(operator)
    known = eigenvalue(operator)
    assert known <= bound.value <= (1 + slack) * known
    z = torch.randn(operator.num_nodes, 1, dtype=torch.float64, device=operator.device)
    dense = operator.to_dense()
    if bound.norm.kind == "frobenius":
        assert torch.linalg.matrix_norm(dense, 2).item() <= bound.value
    else:
        v = bound.norm.weight
        assert (v > 0).all()
        assert (dense.abs() @ v / v).max().item() <= bound.value
        named = Propagation(
            operator.pattern,
            operator.values,
            symmetric=False,
            bound=bound,
            normalization="none",
        )
        assert state_norm(named, dense @ z) <= bound.value * state_norm(named, z)
    return bound


@pytest.mark.parametrize("self_loops", [False, True])
@pytest.mark.parametrize("num_nodes", [5, 12, 60])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_a_bound_close_to_the_eigenvalue(directed, num_nodes, self_loops, device):
    edge_index, weight = (t.to(device) for t in lopsided_edges(num_nodes))
    if not directed:
        edge_index, weight = torch.cat([edge_index, edge_index.flip(0)], 1), weight.repeat(2)
    bound = check(raw(edge_index, num_nodes, weight, self_loops=self_loops), 1e-3)
    if bound.norm.weight is not None:  # isolated nodes are not left with next to nothing
        assert bound.norm.weight.min() > 0.9e-6 * bound.norm.weight.max()


def test_weights_may_be_negative(device):
    edge_index, weight = (t.to(device) for t in lopsided_edges(12))
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64, device=device)
    check(raw(edge_index, 12, weight * sign.repeat(len(weight))[: len(weight)]), 1e-3)


def test_a_hub(device):
    # The largest row sum is 99, the eigenvalue its root; the graph has a period of two.
    spokes = torch.arange(1, 100, device=device)
    edge_index = torch.stack([torch.zeros_like(spokes), spokes])
    operator = raw(torch.cat([edge_index, edge_index.flip(0)], 1), 100)
    assert check(operator, 1e-3).value == pytest.approx(99**0.5, rel=1e-3)


def test_a_path_and_a_graph_without_edges(device):
    assert perron_bound(raw(chain(30).to(device), 30)).value <= 2.0
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    assert perron_bound(raw(none, 3)).value == 0
    assert perron_bound(raw(none, 0)).value == 0
    one_way = torch.stack([torch.arange(9), torch.arange(1, 10)]).to(device)
    assert 0 < perron_bound(raw(one_way, 10)).value <= 1  # its eigenvalues are zero


@pytest.mark.parametrize("kind", ["sym", "dir", "out", "row"])
def test_what_is_normalised_has_its_bound_already(kind, device):
    operator = propagation(kind).to(device)
    assert perron_bound(operator) is operator.bound
    assert eigenvalue(operator) <= operator.norm_bound + 1e-12


def test_found_once(device):
    edge_index, weight = (t.to(device) for t in lopsided_edges(12))
    operator = raw(edge_index, 12, weight)
    with torch.inference_mode():
        found = perron_bound(operator)
    assert perron_bound(operator) is found
    assert found.norm.weight is None or not found.norm.weight.is_inference()
