"""Sums over rows and columns against dense matrices, and the norm that they bound."""

import gc
import weakref

import pytest
import torch

from mgnni import Propagation
from mgnni.graph.bounds import largest_degrees, row_sums
from problems import chain, lopsided_edges, propagation

KINDS = ("none", "sym", "dir", "row")


def bound(dense):
    return (dense.abs().sum(1).max() * dense.abs().sum(0).max()).sqrt()


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_the_dense_matrix_and_bound_its_norm(kind, device):
    operator = propagation(kind).to(device)
    dense = operator.to_dense()
    torch.testing.assert_close(row_sums(operator), dense.sum(1, keepdim=True))
    degrees = largest_degrees(operator)
    assert degrees.shape == (1,)
    torch.testing.assert_close(degrees[0], bound(dense))
    assert torch.linalg.svdvals(dense)[0] <= degrees[0] * (1 + 1e-12)


def test_the_bound_of_an_undirected_graph_is_its_largest_degree(device):
    operator = Propagation.from_edge_index(
        chain(5).to(device), 5, normalization="none", self_loops=False
    )
    assert largest_degrees(operator).tolist() == [2.0]
    assert largest_degrees(operator).dtype is torch.float64


def test_negative_weights_count_by_their_size(device):
    edge_index, weight = (part.to(device) for part in lopsided_edges())
    weight = weight * torch.where(torch.arange(len(weight), device=device) % 3 == 0, -1.0, 1.0)
    operator = Propagation.from_edge_index(edge_index, 12, weight, "none", False)
    torch.testing.assert_close(largest_degrees(operator)[0], bound(operator.to_dense()))
    torch.testing.assert_close(row_sums(operator), operator.to_dense().sum(1, keepdim=True))


def test_graphs_have_bounds_of_their_own_and_those_without_edges_a_one(device):
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
def test_they_can_be_differentiated_in_the_weights(sums, device):
    edge_index, weight = (part.to(device) for part in lopsided_edges())

    def value(weight):
        return sums(Propagation.from_edge_index(edge_index, 12, weight, "none", False))

    assert torch.autograd.gradcheck(value, (weight.requires_grad_(),), nondet_tol=1e-9)


@pytest.mark.parametrize("sums", [row_sums, largest_degrees])
def test_they_are_found_once_and_forgotten_with_the_operator(sums, device):
    operator = propagation("none").to(device)
    with torch.inference_mode():
        kept = weakref.ref(sums(operator))
    assert sums(operator) is kept()
    assert not kept().is_inference()
    del operator
    gc.collect()
    assert kept() is None
