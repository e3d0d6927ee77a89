"""GMRES: minimal residuals over the Krylov space, within a cycle and over restarts."""

import pytest
import torch

from mgnni import ConvergenceWarning, solve_equilibrium
from problems import dense_solution, propagation, weight


def after(operator, w, bias, scale, gamma, solver, count):
    """The iterate after some steps."""
    with pytest.warns(ConvergenceWarning):
        return solve_equilibrium(
            operator,
            w,
            bias,
            scale,
            gamma,
            solver=solver,
            tol=1e-14,
            max_iter=count,
            on_failure="warn",
        ).value


@pytest.mark.parametrize("normalization", ["dir", "out", "row"])
def test_residuals_are_minimal_over_the_krylov_space(normalization, device):
    """From zero, by dense least squares over the span of b, A b, A^2 b, .."""
    operator = propagation(normalization, 9).to(device)
    w = weight("general", 2).to(device)
    bias = torch.randn(9, 2, dtype=torch.float64, device=device)
    p = torch.linalg.matrix_power(operator.to_dense(), 2)
    eye = torch.eye(18, dtype=torch.float64, device=device)
    system = eye - 0.95 * torch.kron(p, w.T.contiguous())
    b = bias.flatten()
    basis = [b / b.norm()]
    for _ in range(6):
        v = system @ basis[-1]
        for _ in range(2):
            for u in basis:
                v = v - (u @ v) * u
        basis.append(v / v.norm())
    for size in range(1, 6):
        space = torch.stack(basis[:size], dim=1)
        best = torch.linalg.lstsq(system @ space, b.unsqueeze(1)).solution.squeeze(1)
        value = after(operator, w, bias, 2, 0.95, "gmres", size)
        torch.testing.assert_close(value.flatten(), space @ best, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("normalization", ["dir", "out"])
def test_residuals_within_a_cycle_are_never_above_picards(normalization, device):
    operator = propagation(normalization, 12).to(device)
    w = weight("general", 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    p = operator.to_dense()

    def residual(solver, count):
        z = after(operator, w, bias, 1, 0.99, solver, count)
        return (0.99 * p @ z @ w + bias - z).norm().item()

    for count in range(1, 12):
        assert residual("gmres", count) <= residual("picard", count) * (1 + 1e-10)


def test_restarts_go_on_where_the_cycle_ended(device):
    """A problem that needs several cycles of twelve, far from rounding until the end."""
    operator = propagation("dir", 60, seed=3).to(device)
    w = weight("general", 4).to(device)
    bias = torch.randn(60, 4, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 1, 0.99, solver="gmres", tol=1e-13)
    picard = solve_equilibrium(operator, w, bias, 1, 0.99, solver="picard", tol=1e-13)
    assert 12 < result.iterations < picard.iterations / 2
    expected = dense_solution(operator, w, bias, 1, 0.99)
    assert (result.value - expected).norm() <= 1e-10 * expected.norm()
