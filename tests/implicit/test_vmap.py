"""Equations under vmap, torch.func transforms and vectorised Jacobians."""

import pytest
import torch
from torch.autograd.functional import hessian, jacobian

from implicit.cases import (
    assert_all_close,
    dense,
    edges,
    implicit,
    normal,
    operator,
    weights,
)
from mgnni import MultiscaleEquilibrium, solve_equilibrium
from problems import dense_solution

RUNS = 3


@pytest.fixture(params=["psd", "general"])
def case(request, device):
    """An operator, and runs of weights and of biases, all different."""
    propagation = operator("dir", *edges("dir", device))
    w = weights(request.param, device)
    stack = torch.stack([w, 0.5 * w, w.flip(0)])
    biases = torch.stack([normal(8, 3, device=device, seed=seed) for seed in range(RUNS)])
    return propagation, stack, biases


def loss(z):
    return z[:, 3].pow(3).sum()


def test_vmap_over_biases_gives_dense_solutions(case):
    propagation, stack, biases = case
    together = torch.func.vmap(lambda bias: implicit(propagation, stack[0], bias))(biases)
    want = torch.stack([dense(propagation, stack[0], bias) for bias in biases])
    torch.testing.assert_close(together, want, rtol=1e-9, atol=1e-11)


def test_vmap_over_weights_gives_dense_solutions(case):
    propagation, stack, biases = case
    together = torch.func.vmap(lambda w: implicit(propagation, w, biases[0]))(stack)
    want = torch.stack([dense(propagation, w, biases[0]) for w in stack])
    torch.testing.assert_close(together, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dims", [(0, 0), (1, 2)])
def test_vmap_over_both_works_along_any_dimension(dims, case):
    propagation, stack, biases = case
    moved = stack.movedim(0, dims[0]), biases.movedim(0, dims[1])
    together = torch.func.vmap(lambda w, bias: implicit(propagation, w, bias), in_dims=dims)(*moved)
    want = torch.stack([dense(propagation, w, b) for w, b in zip(stack, biases, strict=True)])
    torch.testing.assert_close(together, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("memory", ["fast", "low"])
def test_every_run_has_its_own_gradients(memory, case):
    propagation, stack, biases = case

    def value(w, bias):
        return loss(implicit(propagation, w, bias, memory=memory))

    ours = torch.func.vmap(torch.func.grad(value, (0, 1)))(stack, biases)
    leaves = [stack.clone().requires_grad_(), biases.clone().requires_grad_()]
    runs = zip(*leaves, strict=True)
    total = sum(loss(dense(propagation, w, bias)) for w, bias in runs)
    want = torch.autograd.grad(total, leaves)
    assert_all_close(ours, want, rtol=1e-8)
    through = torch.autograd.grad(torch.func.vmap(value)(*leaves).sum(), leaves)
    assert_all_close(through, want, rtol=1e-8)


def test_runs_share_the_gradient_of_their_edges(case, device):
    _, stack, biases = case
    edge_index, edge_weight = edges("dir", device)
    edge_weight.requires_grad_()
    propagation = operator("dir", edge_index, edge_weight)
    together = torch.func.vmap(lambda bias: implicit(propagation, stack[0], bias))(biases)
    ours = torch.autograd.grad(together.pow(3).sum(), edge_weight, retain_graph=True)
    total = sum(dense(propagation, stack[0], bias).pow(3).sum() for bias in biases)
    assert_all_close(ours, torch.autograd.grad(total, edge_weight), rtol=1e-8)


def test_jacobians_are_those_of_the_dense_solution(case):
    propagation, stack, biases = case
    want = jacobian(lambda bias: dense(propagation, stack[0], bias)[:, 3], biases[0])

    def state(bias):
        return implicit(propagation, stack[0], bias)[:, 3]

    found = [
        torch.func.jacrev(state)(biases[0]),
        jacobian(state, biases[0], vectorize=True),
        jacobian(state, biases[0], vectorize=False),
    ]
    for got in found:
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)


def test_vectorised_jacobians_of_weights_and_edges_are_exact(case, device):
    _, stack, biases = case
    edge_index, edge_weight = edges("dir", device)

    def state(solve):
        def at(w, edge_weight):
            return solve(operator("dir", edge_index, edge_weight), w, biases[0])[:, 3]

        return at

    ours = jacobian(state(implicit), (stack[0], edge_weight), vectorize=True)
    want = jacobian(state(dense), (stack[0], edge_weight))
    assert_all_close(ours, want, rtol=1e-8)


@pytest.mark.parametrize("vectorize", [False, True])
def test_hessians_are_those_of_the_dense_solution(vectorize, case):
    propagation, stack, biases = case
    want = hessian(lambda bias: loss(dense(propagation, stack[0], bias)), biases[0])
    got = hessian(
        lambda bias: loss(implicit(propagation, stack[0], bias)), biases[0], vectorize=vectorize
    )
    torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)


def test_the_public_solve_works_under_vmap(case):
    propagation, stack, biases = case

    def state(w, bias):
        return solve_equilibrium(propagation, w, bias, scale=2, tol=1e-12).value

    together = torch.func.vmap(state)(stack[:, 0], biases)
    runs = zip(stack[:, 0], biases, strict=True)
    want = torch.stack([dense_solution(propagation, w, bias, 2, 0.8) for w, bias in runs])
    torch.testing.assert_close(together, want, rtol=1e-9, atol=1e-11)


def test_under_vmap_the_record_is_that_of_the_worst_run(device):
    propagation, w = operator("dir", *edges("dir", device)), weights("general", device)[0]
    biases = torch.stack([normal(8, 3, device=device, seed=seed) for seed in range(5)])
    options = {"solver": "picard", "tol": 1e-2}

    def residual(bias):
        return solve_equilibrium(propagation, w, bias, **options).relative_residual

    alone = torch.tensor([residual(bias) for bias in biases])
    assert alone.min() < alone.max()
    for order in (alone.argsort(), alone.argsort(descending=True)):
        seen = []

        def state(bias, seen=seen):
            found = solve_equilibrium(propagation, w, bias, **options)
            seen.append(found.relative_residual)
            return found.value

        torch.func.vmap(state)(biases[order.to(device)])
        assert seen == [pytest.approx(float(alone.max()), rel=1e-5)]


def test_layers_with_stacked_parameters_are_solved_separately(case, device):
    propagation, _, biases = case
    layer = MultiscaleEquilibrium(3, (1, 2), tol=1e-12).to(device, torch.float64)
    factors = torch.stack([normal(2, 3, 3, device=device, seed=seed) for seed in range(RUNS)])

    def run(factor, bias):
        return torch.func.functional_call(layer, {"factor": factor}, (bias, propagation))

    together = torch.func.vmap(run)(factors, biases)
    for z, factor, bias in zip(together, factors, biases, strict=True):
        torch.testing.assert_close(z, run(factor, bias), rtol=1e-9, atol=1e-11)
