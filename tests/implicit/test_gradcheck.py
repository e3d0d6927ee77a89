"""First and second derivatives against finite differences and against the dense solution."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from implicit.cases import (
    ADMITTED,
    NORMALIZATIONS,
    SCALES,
    assert_all_close,
    dense,
    implicit,
    normal,
    operator,
    weights,
)
from mgnni import Propagation, solve_equilibrium
from mgnni.implicit.normalized_gram import normalized_gram

# Small, because every entry is perturbed separately. Node 3 is isolated.
EDGES = torch.tensor([[0, 0, 1, 2, 2], [1, 2, 2, 0, 2]])
NODES, CHANNELS, NODE = 4, 2, 2
SLACK = {"nondet_tol": 1e-9}  # sums on a device are not deterministic


def problem(normalization, device, kind="general"):
    """Edges, and leaves ``(bias, weights, edge_weight)``."""
    edge_weight = torch.tensor([0.3, 0.6, 0.8, 0.5, 0.2], dtype=torch.float64, device=device)
    w = weights(kind, device, CHANNELS)
    bias = normal(NODES, CHANNELS, device=device)
    return EDGES.to(device), [leaf.requires_grad_() for leaf in (bias, w, edge_weight)]


@pytest.mark.parametrize(
    ("normalization", "memory"),
    [*((normalization, "fast") for normalization in NORMALIZATIONS), ("dir", "low")],
)
def test_first_and_second_derivatives_at_one_node_match_finite_differences(
    normalization, memory, device
):
    edge_index, (bias, w, edge_weight) = problem(normalization, device)

    def state_of_one_node(bias, w, edge_weight):
        propagation = operator(normalization, edge_index, edge_weight, NODES)
        return implicit(propagation, w, bias, memory=memory)[:, NODE]

    assert gradcheck(state_of_one_node, (bias, w, edge_weight), **SLACK)
    assert gradgradcheck(state_of_one_node, (bias, w, edge_weight), fast_mode=True, **SLACK)


@pytest.mark.parametrize(
    ("normalization", "solver"),
    [(n, s) for n, kind, s in ADMITTED if kind == "psd" and n in ("sym", "dir")],
)
def test_derivatives_by_the_factor_match_finite_differences(normalization, solver, device):
    edge_index, (bias, _, edge_weight) = problem(normalization, device)
    propagation = operator(normalization, edge_index, edge_weight.detach(), NODES)
    factor = normal(len(SCALES), CHANNELS, CHANNELS, device=device, seed=3).requires_grad_()

    def state_of_one_node(bias, factor):
        return implicit(propagation, normalized_gram(factor), bias, solver)[:, NODE]

    assert gradcheck(state_of_one_node, (bias, factor), fast_mode=True, **SLACK)
    assert gradgradcheck(state_of_one_node, (bias, factor), fast_mode=True, **SLACK)


@pytest.mark.parametrize("scale", [1, 3])
def test_derivatives_of_one_equation_match_finite_differences(scale, device):
    edge_index, (bias, w, edge_weight) = problem("dir", device)

    def state_of_one_node(bias, w, edge_weight):
        propagation = operator("dir", edge_index, edge_weight, NODES)
        return solve_equilibrium(propagation, w, bias, scale, tol=1e-12).value[NODE]

    inputs = (bias, w[0].detach().requires_grad_(), edge_weight)
    assert gradcheck(state_of_one_node, inputs, **SLACK)
    assert gradgradcheck(state_of_one_node, inputs, **SLACK)


def hessian_times(solve, normalization, device, kind, directions):
    """The product of the Hessian of a loss on one node with ``directions``."""
    edge_index, leaves = problem(normalization, device, kind)
    bias, w, edge_weight = leaves
    z = solve(operator(normalization, edge_index, edge_weight, NODES), w, bias)
    loss = (z[:, NODE] ** 3).sum()
    first = torch.autograd.grad(loss, leaves, create_graph=True)
    slope = sum((g * d).sum() for g, d in zip(first, directions, strict=True))
    return torch.autograd.grad(slope, leaves)


def some_directions(normalization, device):
    _, leaves = problem(normalization, device)
    return [normal(*leaf.shape, device=device, seed=10 + i) for i, leaf in enumerate(leaves)]


@pytest.mark.parametrize(("normalization", "kind", "solver"), ADMITTED)
def test_second_derivatives_match_the_dense_solution(normalization, kind, solver, device):
    directions = some_directions(normalization, device)
    ours = hessian_times(
        lambda *args: implicit(*args, solver), normalization, device, kind, directions
    )
    want = hessian_times(dense, normalization, device, kind, directions)
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize("normalization", ["sym", "dir"])
def test_second_derivatives_match_differences_of_first_ones(normalization, device):
    directions = some_directions(normalization, device)

    def first_derivatives(step):
        edge_index, leaves = problem(normalization, device)
        moved = [
            (leaf.detach() + step * d).requires_grad_()
            for leaf, d in zip(leaves, directions, strict=True)
        ]
        bias, w, edge_weight = moved
        z = implicit(operator(normalization, edge_index, edge_weight, NODES), w, bias)
        return torch.autograd.grad((z[:, NODE] ** 3).sum(), moved)

    step = 1e-5  # error: step^2 = 1e-10 from truncation, tol / step = 1e-7 from the solves
    ahead, behind = first_derivatives(step), first_derivatives(-step)
    differences = tuple((a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True))
    ours = hessian_times(implicit, normalization, device, "general", directions)
    assert_all_close(ours, differences, rtol=1e-6)


@pytest.mark.parametrize("solver", ["auto", "cg", "spectral", "gmres"])
def test_edges_of_a_symmetric_operator_have_second_derivatives_of_their_own(solver, device):
    # P equals its transpose in numbers, but moving P_ij moves the adjoint's P_ji.
    forth = torch.tensor([[0, 1, 2], [1, 2, 3]], device=device)
    edge_index = torch.cat([forth, forth.flip(0)], dim=1)
    direction = normal(6, device=device, seed=4)
    w, bias = weights("psd", device, CHANNELS), normal(NODES, CHANNELS, device=device)
    found = []
    for solve in (lambda *args: implicit(*args, solver), dense):
        edge_weight = torch.ones_like(direction).requires_grad_()
        propagation = Propagation.from_edge_index(edge_index, NODES, edge_weight)
        assert propagation.symmetric
        z = solve(propagation, w, bias)
        (first,) = torch.autograd.grad(z[:, NODE].sum(), edge_weight, create_graph=True)
        found.append(torch.autograd.grad((first * direction).sum(), edge_weight))
    (want,) = found[1]
    assert (want[:3] - want[3:]).abs().max() > 0.01
    assert_all_close(*found, rtol=1e-8)


def test_third_derivatives_match_the_dense_solution(device):
    def third(solve):
        edge_index, leaves = problem("dir", device)
        bias, w, edge_weight = leaves
        z = solve(operator("dir", edge_index, edge_weight, NODES), w, bias)
        value = (z[:, NODE] ** 3).sum()
        for seed in range(2):
            grads = torch.autograd.grad(value, leaves, create_graph=True)
            directions = [normal(*g.shape, device=device, seed=20 + seed) for g in grads]
            value = sum((g * d).sum() for g, d in zip(grads, directions, strict=True))
        return torch.autograd.grad(value, leaves)

    assert_all_close(third(implicit), third(dense), rtol=1e-8)


def test_derivatives_by_the_weights_of_an_undirected_graph_match_finite_differences(device):
    # A change of one direction of an edge makes the graph directed.
    edge_index = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]], device=device)
    edge_weight = torch.tensor([0.5, 0.5, 1.0, 1.0, 2.0, 2.0], dtype=torch.float64, device=device)
    w, bias = weights("psd", device, CHANNELS), normal(NODES, CHANNELS, device=device)

    def states(edge_weight):
        propagation = Propagation.from_edge_index(
            edge_index, NODES, edge_weight, dtype=torch.float64
        )
        return implicit(propagation, w, bias)

    assert gradcheck(states, (edge_weight.requires_grad_(),), **SLACK)
    whole = Propagation.from_edge_index(edge_index, NODES, edge_weight, dtype=torch.float64)
    fixed = Propagation.from_edge_index(
        edge_index, NODES, edge_weight.detach(), dtype=torch.float64
    )
    assert whole.normalization == fixed.normalization == "sym"
    torch.testing.assert_close(whole.to_dense(), fixed.to_dense())
