"""Row sums, degrees and eigenvalue bounds, against dense matrices."""

import gc
import weakref

import pytest
import torch

from mgnni import Propagation
from mgnni.graph.bounds import largest_degrees, perron_bound, row_sums
from problems import chain, lopsided_edges, propagation, state_norm


def raw(edge_index, num_nodes, edge_weight=None, **options):
    options = {"normalization": "none", "self_loops": False, "dtype": torch.float64, **options}
    return Propagation.from_edge_index(edge_index, num_nodes, edge_weight, **options)


def eigenvalue(operator):
    return torch.linalg.eigvals(operator.to_dense().abs()).abs().max().item()


def check(operator, slack):
    """Check that the bound holds for the eigenvalue and in its norm, and that it is tight."""
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
    if bound.norm.weight is not None:  # isolated nodes keep a weight
        assert bound.norm.weight.min() > 0.9e-6 * bound.norm.weight.max()


def test_the_eigenvalue_bound_holds_for_negative_weights(device):
    edge_index, weight = (t.to(device) for t in lopsided_edges(12))
    sign = torch.tensor([1.0, -1.0], dtype=torch.float64, device=device)
    check(raw(edge_index, 12, weight * sign.repeat(len(weight))[: len(weight)]), 1e-3)


def test_the_eigenvalue_bound_of_a_star_is_tight(device):
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
def test_a_normalised_operator_keeps_its_own_bound(kind, device):
    operator = propagation(kind).to(device)
    assert perron_bound(operator) is operator.bound
    assert eigenvalue(operator) <= operator.norm_bound + 1e-12


def test_the_bound_is_cached(device):
    edge_index, weight = (t.to(device) for t in lopsided_edges(12))
    operator = raw(edge_index, 12, weight)
    with torch.inference_mode():
        found = perron_bound(operator)
    assert perron_bound(operator) is found
    assert found.norm.weight is None or not found.norm.weight.is_inference()


KINDS = ("none", "sym", "dir", "row")


def root_of_sums(dense):
    return (dense.abs().sum(1).max() * dense.abs().sum(0).max()).sqrt()


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_the_dense_matrix_and_bound_its_norm(kind, device):
    operator = propagation(kind).to(device)
    dense = operator.to_dense()
    torch.testing.assert_close(row_sums(operator), dense.sum(1, keepdim=True))
    degrees = largest_degrees(operator)
    assert degrees.shape == (1,)
    torch.testing.assert_close(degrees[0], root_of_sums(dense))
    assert torch.linalg.svdvals(dense)[0] <= degrees[0] * (1 + 1e-12)


def test_the_bound_of_an_undirected_graph_is_its_largest_degree(device):
    operator = Propagation.from_edge_index(
        chain(5).to(device), 5, normalization="none", self_loops=False
    )
    assert largest_degrees(operator).tolist() == [2.0]
    assert largest_degrees(operator).dtype is torch.float64


def test_sums_of_negative_weights(device):
    edge_index, weight = (part.to(device) for part in lopsided_edges())
    weight = weight * torch.where(torch.arange(len(weight), device=device) % 3 == 0, -1.0, 1.0)
    operator = Propagation.from_edge_index(edge_index, 12, weight, "none", False)
    torch.testing.assert_close(largest_degrees(operator)[0], root_of_sums(operator.to_dense()))
    torch.testing.assert_close(row_sums(operator), operator.to_dense().sum(1, keepdim=True))


def test_each_graph_has_its_own_bound_which_is_one_without_edges(device):
    # A chain of four, a node alone, no nodes at all, and an edge of weight 3 in one direction.
    edge_index = torch.cat([chain(4), torch.tensor([[5], [6]])], dim=1).to(device)
    weight = torch.tensor([1.0] * 6 + [3.0], device=device, requires_grad=True)
    batch = torch.tensor([0, 0, 0, 0, 1, 3, 3], device=device)
    operator = Propagation.from_edge_index(edge_index, 7, weight, "none", False, batch=batch)
    degrees = largest_degrees(operator)
    assert degrees.tolist() == [2.0, 1.0, 1.0, 3.0]
    (grad,) = torch.autograd.grad(degrees[1:].sum(), weight)
    assert grad.tolist() == [0.0] * 6 + [1.0]


@pytest.mark.parametrize("sums", [row_sums, largest_degrees])
def test_sums_can_be_differentiated_in_the_weights(sums, device):
    edge_index, weight = (part.to(device) for part in lopsided_edges())

    def value(weight):
        return sums(Propagation.from_edge_index(edge_index, 12, weight, "none", False))

    assert torch.autograd.gradcheck(value, (weight.requires_grad_(),), nondet_tol=1e-9)


@pytest.mark.parametrize("sums", [row_sums, largest_degrees])
def test_sums_are_cached_and_freed_with_the_operator(sums, device):
    operator = propagation("none").to(device)
    with torch.inference_mode():
        kept = weakref.ref(sums(operator))
    assert sums(operator) is kept()
    assert not kept().is_inference()
    del operator
    gc.collect()
    assert kept() is None
