"""Which solver is chosen, and whether the budget it gets is enough."""

import pytest
import torch

from mgnni import solve_equilibrium
from mgnni.solve.prepare import METHODS
from problems import dense_solution, propagation, weight


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
def test_auto_goes_by_what_is_proven(kind, form, gamma, expected, device):
    operator, w = propagation(kind).to(device), weight(form, 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 2, gamma, tol=1e-12)
    assert result.solver == expected
    torch.testing.assert_close(
        result.value, dense_solution(operator, w, bias, 2, gamma), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("form", ["symmetric", "general"])
def test_a_very_wide_weight_is_not_decomposed(form, device):
    """Past 512 channels: a few of its eigenpairs or GMRES, and the Frobenius norm as a bound."""
    operator = propagation("sym", 3).to(device)
    factor = torch.randn(513, 513, dtype=torch.float64, device=device)
    w = factor @ factor.T if form == "symmetric" else factor
    w = w / torch.linalg.matrix_norm(w)
    bias = torch.randn(3, 513, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 1, 0.9, tol=1e-10)
    assert result.solver == ("wide" if form == "symmetric" else "gmres")
    assert result.contraction >= 0.9 * torch.linalg.matrix_norm(w, 2).item()
    residual = 0.9 * operator.to_dense() @ result.value @ w + bias - result.value
    assert residual.norm() <= 1e-10 * result.value.norm()
    assert result.error_bound < 1e-6


@pytest.mark.parametrize("solver", ["picard", "series"])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row"])
def test_the_default_budget_is_enough(normalization, solver, device):
    """What contracts is solved to any tolerance without asking for more iterations."""
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
