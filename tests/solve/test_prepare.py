"""Which method is chosen, whether its budget suffices, and when a plan is used again."""

import weakref
from dataclasses import replace

import pytest
import torch

from mgnni import Propagation, solve_equilibrium
from mgnni.solve.equation import Equations
from mgnni.solve.prepare import METHODS, prepare
from mgnni.solve.refine import RefinedPlan
from mgnni.solve.result import Options
from mgnni.solve.weights import Weights
from problems import chain, dense_solution, generator, propagation, weight


@pytest.mark.parametrize(
    ("kind", "form", "gamma", "expected"),
    [
        ("sym", "random", 0.9, "chebyshev"),
        ("sym", "indefinite", 0.9, "chebyshev"),
        ("dir", "random", 0.9, "series"),
        ("out", "rank-one", 0.9, "series"),
        ("sym", "general", 0.9, "gmres"),
        ("dir", "general", 0.9, "gmres"),
        ("dir", "general", 0.49, "picard"),
        ("sym", "general", 0.4, "picard"),
    ],
)
def test_auto_decides_by_symmetry_and_contraction(kind, form, gamma, expected, device):
    operator, w = propagation(kind).to(device), weight(form, 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 2, gamma, tol=1e-12)
    assert result.solver == expected
    torch.testing.assert_close(
        result.value, dense_solution(operator, w, bias, 2, gamma), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("form", ["symmetric", "general"])
def test_a_very_wide_weight_is_not_decomposed(form, device):
    """Past 512 channels: few eigenpairs or GMRES, and the Frobenius norm as a bound."""
    operator = propagation("sym", 20).to(device)
    factor = torch.randn(513, 513, dtype=torch.float64, device=device)
    w = factor @ factor.T if form == "symmetric" else factor
    w = w / torch.linalg.matrix_norm(w)
    bias = torch.randn(20, 513, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 1, 0.9, tol=1e-10)
    assert result.solver == ("wide" if form == "symmetric" else "gmres")
    assert result.contraction >= 0.9 * torch.linalg.matrix_norm(w, 2).item()
    residual = 0.9 * operator.to_dense() @ result.value @ w + bias - result.value
    assert residual.norm() <= 1e-10 * result.value.norm()
    assert result.error_bound < 1e-6


@pytest.mark.parametrize(
    ("nodes", "directed", "largest", "expected"),
    [
        (513, False, 0.05, "wide"),
        (514, False, 0.05, "deflated"),
        (514, False, 0.9, "cg"),  # too many large eigenvalues
        (514, False, -0.9, "cg"),
        (513, True, 0.9, "gmres"),
        (513, True, 0.5, "picard"),
        (513, True, 0.03, "deflated"),  # Picard iteration would take few steps, too, but more
    ],
)
def test_auto_solves_very_wide_weights(nodes, directed, largest, expected, device):
    edge_index = chain(nodes).to(device)
    if directed:
        edge_index = edge_index[:, edge_index[0] < edge_index[1]]
    operator = Propagation.from_edge_index(edge_index, nodes)
    w = torch.diag(torch.linspace(0, largest, 513, device=device))
    bias = torch.randn(nodes, 513, device=device)
    result = solve_equilibrium(operator, w, bias, 1, 0.9)
    assert result.solver == expected
    # W is diagonal, so every column is an equation of its own.
    hop = operator.to_dense().double() @ result.value.double()
    residual = 0.9 * hop * w.diag().double() + bias.double() - result.value.double()
    assert residual.norm() <= 2e-6 * bias.norm()


@pytest.mark.parametrize("solver", ["picard", "series"])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row"])
def test_the_default_budget_suffices(normalization, solver, device):
    operator = propagation(normalization, 30).to(device)
    w = weight("rank-one", 2).to(device)
    bias = torch.randn(30, 2, dtype=torch.float64, device=device)
    for gamma in (1e-6, 0.1, 0.9, 0.97):
        for tol in (0.5, 1e-3, 1e-12):
            result = solve_equilibrium(operator, w, bias, 3, gamma, solver=solver, tol=tol)
            assert result.relative_residual <= tol


def test_every_solver_is_documented():
    for name in METHODS:
        assert f'``"{name}"``' in solve_equilibrium.__doc__


def test_plans_on_a_cpu_are_refined_and_synchronise():
    equations = Equations(propagation("sym"), (1,), 0.9, Weights(weight("random")[None]))
    plan = prepare(equations, Options())
    assert isinstance(plan, RefinedPlan)
    assert plan.synchronises


def equations_of(device):
    stack = torch.stack([weight("random", 4, seed) for seed in (0, 1)]).to(device)
    return Equations(propagation("sym").to(device), (1, 2), 0.9, Weights(stack))


def test_eigenpairs_and_expansions_are_reused_for_equal_weights(device):
    equations = equations_of(device)
    plan = prepare(equations, Options())
    equal = replace(equations, weights=Weights(equations.weights.tensor.clone()))
    again = prepare(equal, Options(), plan.previous())
    assert again.equations.weights is equations.weights
    assert again.expansions is plan.expansions


def _changed(tensor):
    tensor = tensor.clone()
    tensor[1, 2, 3] += 1e-3
    tensor[1, 3, 2] += 1e-3
    return tensor


CHANGES = {
    "operator": lambda e: replace(e, operator=propagation("sym", seed=1).to(e.operator.device)),
    "one weight": lambda e: replace(e, weights=Weights(_changed(e.weights.tensor))),
    "fewer weights": lambda e: e[0],
    "scales": lambda e: replace(e, scales=(1, 3)),
    "gamma": lambda e: replace(e, gamma=0.8),
    "what is known of the weights": lambda e: replace(e, weights=Weights(e.weights.tensor, True)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_equations_reuse_what_still_holds_and_have_their_own_states(change, device):
    equations = equations_of(device)
    bias = torch.randn(1, 12, 4, dtype=torch.float64, generator=generator()).to(device)
    plan = prepare(equations, Options(tol=1e-12))
    plan.solve(bias.expand(2, -1, -1))
    changed = CHANGES[change](equations)
    other = prepare(changed, Options(tol=1e-12), plan.previous())
    same_weights = change in ("operator", "scales", "gamma")
    assert (other.equations.weights is equations.weights) == same_weights
    assert (other.expansions is plan.expansions) == (change == "operator")  # of the same norm
    found = other.solve(bias.expand(len(changed), -1, -1))
    for z, w, scale in zip(found.z, changed.weights.tensor, changed.scales, strict=True):
        expected = dense_solution(changed.operator, w, bias[0], scale, changed.gamma)
        torch.testing.assert_close(z, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("options", [Options(tol=1e-7), Options("picard"), Options(max_iter=99)])
def test_nothing_is_reused_for_other_options(options, device):
    equations = equations_of(device)
    plan = prepare(equations, Options())
    other = prepare(equations, options, plan.previous())
    assert other.options == options
    assert other.expansions is not plan.expansions


def test_what_a_plan_leaves_does_not_keep_the_operator_alive(device):
    equations = equations_of(device)
    previous = prepare(equations, Options()).previous()
    operator = weakref.ref(equations.operator)
    del equations
    assert operator() is None
    assert previous.weights.channels == 4
