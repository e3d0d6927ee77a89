"""Solving on the core of a directed graph, against a dense solve of all nodes."""

import pytest
import torch

from mgnni import Propagation, solve_equilibrium
from mgnni.solve.certify import measure
from mgnni.solve.core import OnCore, on_core
from mgnni.solve.equation import Equations
from mgnni.solve.sweep import Series
from mgnni.solve.weights import Weights
from problems import admits, dense_solution, generator, weight
from solve.core_graphs import KINDS, NODES, graph


def normal(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed))


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("solver", ["series", "picard", "anderson", "gmres", "dense"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_core_determines_the_solution_at_all_nodes(kind, solver, adjoint):
    operator = graph(kind)
    operator = operator.adjoint() if adjoint else operator
    for form in ("rank-one", "general"):
        w = weight(form, 2)
        if not admits(solver, operator, w):
            continue
        for scale in (1, 2, 3):
            bias = normal(NODES, 2, seed=scale)
            result = solve_equilibrium(operator, w, bias, scale, 0.9, solver=solver, tol=1e-11)
            expected = dense_solution(operator, w, bias, scale, 0.9)
            assert (result.value - expected).norm() <= 1e-9 * expected.norm()
            assert (result.value - expected).norm() <= result.error_bound + 1e-12
            assert result.solver == solver


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_hop_and_image_of_a_proposal_are_those_of_its_states(kind, shared):
    operator = graph(kind)
    stack = torch.stack([weight("random", 40, seed) for seed in range(3)])
    bias = normal(1 if shared else 3, NODES, 40).expand(3, -1, -1)
    equations = Equations(operator, (1, 2, 4), 0.8, Weights(stack))
    method = on_core(Series(equations), equations)
    assert isinstance(method, OnCore)
    found = method.propose(bias, 1e-3, 1000)  # far from solved
    torch.testing.assert_close(found.hop, equations.hop(found.z))
    given, plain = measure(equations, bias, found.z, *found[3:]), measure(equations, bias, found.z)
    torch.testing.assert_close(given.residual, plain.residual)
    assert float(given.relative.max()) < 1e-3
    if kind not in ("an acyclic core", "no core"):  # these are solved exactly
        assert 1e-9 < float(given.relative.max())


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_through_the_core_are_those_of_the_dense_solution(kind):
    w, bias = weight("general", 2).requires_grad_(), normal(NODES, 2).requires_grad_()
    operator, cotangent = graph(kind), normal(NODES, 2, seed=3)
    solution = solve_equilibrium(operator, w, bias, 2, 0.9, tol=1e-12).value
    got = torch.autograd.grad(solution, (w, bias), cotangent)
    want = torch.autograd.grad(dense_solution(operator, w, bias, 2, 0.9), (w, bias), cotangent)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_float32_states_are_corrected_to_their_rounding():
    operator = graph("both").to(torch.float32)
    w, bias = weight("rank-one", 2).float(), normal(NODES, 2).float()
    result = solve_equilibrium(operator, w, bias, 2, 0.99, tol=3e-7)
    expected = dense_solution(operator, w, bias, 2, 0.99)
    assert result.relative_residual <= 3e-7
    assert (result.value.double() - expected).norm() <= result.error_bound


@pytest.mark.parametrize("solver", ["series", "picard", "gmres"])
def test_a_budget_that_is_too_low_is_reported(solver):
    w, bias = weight("rank-one", 2), normal(NODES, 2)
    options = {"solver": solver, "max_iter": 2, "tol": 1e-12, "on_failure": "warn"}
    with pytest.warns(Warning, match="stopped after 2"):
        solve_equilibrium(graph("both"), w, bias, 1, 0.99, **options)


def test_a_method_prepared_for_an_operator_without_core_is_plain():
    """The adjoint in a batch, for example, has none."""
    operator = graph("both")
    equations = Equations(operator, (1,), 0.9, Weights(weight("random", 2)[None]))
    method = on_core(Series(equations), equations)
    edges = torch.tensor([[0, 1], [1, 0]])
    small = Propagation.from_edge_index(edges, 2, normalization="dir", dtype=torch.float64)
    other = Equations(small, (1,), 0.9, equations.weights)
    assert type(method.prepared_for(other)) is Series
