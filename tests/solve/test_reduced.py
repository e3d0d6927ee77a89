"""Solving by the core against a dense solve of all nodes."""

import pytest
import torch
from mgnni.solve.reduced import propose

from mgnni import Propagation, solve_equilibrium
from mgnni.graph import core as module
from mgnni.solve.certify import measure
from mgnni.solve.equation import Equations
from mgnni.solve.prepare import METHODS
from mgnni.solve.weights import Weights
from problems import admits, dense_solution, generator, lopsided_edges, weight


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Take the core however small it is."""
    monkeypatch.setattr(module, "SAVED", 1)
    monkeypatch.setattr(module, "WORTH", 1.0)


def graph(kind: str, n: int = 14, **options: object) -> Propagation:
    """A directed graph with nodes that read nobody, nodes that nobody reads, both, or no core."""
    edge_index, edge_weight = lopsided_edges(n)
    source, target = edge_index
    kept = {
        "read nobody": source >= 4,
        "nobody reads": target < n - 6,
        "both": (source >= 3) & (target < n - 5),
        "no cycle": source > target,
        "no edge": source < 0,
    }[kind]
    options = {"dtype": torch.float64, "flow": "target_to_source", **options}
    return Propagation.from_edge_index(
        edge_index[:, kept], n, edge_weight[kept], "out", self_loops=False, **options
    )


KINDS = ["read nobody", "nobody reads", "both", "no cycle", "no edge"]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("solver", ["series", "picard", "anderson", "gmres"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_core_leads_to_the_solution_of_all(kind, solver, adjoint):
    operator = graph(kind)
    operator = operator.adjoint() if adjoint else operator
    for form in ("rank-one", "general"):
        w = weight(form, 3)
        if not admits(solver, operator, w):
            continue
        for scale in (1, 2, 3):
            bias = torch.randn(14, 3, dtype=torch.float64, generator=generator(scale))
            result = solve_equilibrium(operator, w, bias, scale, 0.9, solver=solver, tol=1e-11)
            expected = dense_solution(operator, w, bias, scale, 0.9)
            assert (result.value - expected).norm() <= 1e-9 * expected.norm()
            assert (result.value - expected).norm() <= result.error_bound + 1e-12


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", KINDS[:3])
def test_the_hop_that_comes_along_is_that_of_the_states(kind, shared):
    operator = graph(kind)
    stack = torch.stack([weight("random", 40, seed) for seed in range(3)])
    bias = torch.randn(1 if shared else 3, 14, 40, dtype=torch.float64).expand(3, -1, -1)
    equations = Equations(operator, (1, 2, 4), 0.8, Weights(stack), bias)
    found = propose(METHODS["series"], equations, 1e-3, 1000)  # far from solved
    torch.testing.assert_close(found.hop, equations.hop(found.z))
    taken, plain = measure(equations, *found[:1], *found[3:]), measure(equations, found.z)
    torch.testing.assert_close(taken.residual, plain.residual)
    assert 1e-9 < float(taken.relative.max()) < 1e-3


@pytest.mark.parametrize("kind", KINDS[:3])
def test_gradients_go_through_the_core(kind):
    w, bias = weight("general", 3).requires_grad_(), torch.randn(14, 3, dtype=torch.float64)
    bias.requires_grad_()
    operator = graph(kind)
    cotangent = torch.randn(14, 3, dtype=torch.float64)
    solution = solve_equilibrium(operator, w, bias, 2, 0.9, tol=1e-12).value
    got = torch.autograd.grad(solution, (w, bias), cotangent)
    want = torch.autograd.grad(dense_solution(operator, w, bias, 2, 0.9), (w, bias), cotangent)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_float32_states_are_refined_to_their_rounding():
    operator = graph("both").to(torch.float32)
    w = weight("rank-one", 3).float()
    bias = torch.randn(14, 3, generator=generator(1))
    result = solve_equilibrium(operator, w, bias, 2, 0.99, tol=2e-7)
    expected = dense_solution(operator, w, bias, 2, 0.99)
    assert result.relative_residual <= 2e-7
    assert (result.value.double() - expected).norm() <= result.error_bound


def test_few_steps_are_admitted():
    operator = graph("both")
    bias = torch.randn(14, 3, dtype=torch.float64)
    w = weight("rank-one", 3)
    for solver in ("series", "picard", "gmres"):
        with pytest.warns(Warning, match="stopped after 2"):
            solve_equilibrium(
                operator, w, bias, 1, 0.99, solver=solver, max_iter=2, on_failure="warn"
            )
