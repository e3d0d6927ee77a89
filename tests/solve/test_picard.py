"""Picard's iteration contracts at the proven rate, in the norm in which it is proven."""

import math

import pytest
import torch

from mgnni import ConvergenceWarning, Propagation, solve_equilibrium
from problems import chain, propagation, state_norm, weight


def residual_norms(operator, w, bias, scale, gamma, steps):
    """Own norm of the residual after 1, 2, .. steps, by dense products."""
    p = torch.linalg.matrix_power(operator.to_dense(), scale)
    norms = []
    for count in range(1, steps + 1):
        with pytest.warns(ConvergenceWarning):
            result = solve_equilibrium(
                operator,
                w,
                bias,
                scale,
                gamma,
                solver="picard",
                tol=1e-300,
                max_iter=count,
                on_failure="warn",
            )
        assert result.iterations == count
        norms.append(state_norm(operator, gamma * p @ result.value @ w + bias - result.value))
    return norms


@pytest.mark.parametrize("form", ["random", "general", "rank-one"])
@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row", "none"])
def test_every_step_contracts_by_the_proven_constant(normalization, flow, form, device):
    loops = normalization != "none"
    operator = propagation(normalization, flow=flow, self_loops=loops).to(device)
    w = weight(form, 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    norms = residual_norms(operator, w, bias, 2, 0.95, 8)
    spectral = torch.linalg.matrix_norm(w, 2).item()
    constant = 0.95 * spectral * operator.norm_bound**2
    rounding = 1e-13 * state_norm(operator, bias)
    for before, after in zip([state_norm(operator, bias), *norms], norms, strict=False):
        assert after <= constant * before * (1 + 1e-12) + rounding


def test_the_iterates_are_partial_sums_of_neumanns_series(device):
    operator = propagation("dir").to(device)
    w = weight("general", 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    p = operator.to_dense() @ operator.to_dense()
    term, total = bias, torch.zeros_like(bias)
    for count in range(1, 6):
        total = total + term
        term = 0.9 * p @ term @ w
        with pytest.warns(ConvergenceWarning):
            result = solve_equilibrium(
                operator,
                w,
                bias,
                2,
                0.9,
                solver="picard",
                tol=1e-12,
                max_iter=count,
                on_failure="warn",
            )
        torch.testing.assert_close(result.value, total, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("gamma", [0.5, 0.8, 0.95, 0.99])
def test_it_takes_no_more_steps_than_the_constant_says(gamma, device):
    """The residual of the zero start is the bias, so ln(tol) / ln(L) steps are enough."""
    operator = Propagation.from_edge_index(chain(40).to(device), 40, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    bias = torch.randn(40, 1, dtype=torch.float64, device=device)
    tol = 1e-8
    result = solve_equilibrium(operator, one, bias, 1, gamma, solver="picard", tol=tol)
    assert result.contraction == pytest.approx(gamma)
    assert result.iterations <= math.ceil(math.log(0.7 * tol) / math.log(gamma))


def test_it_stops_at_the_tolerance_and_not_long_after(device):
    """For a constant state on one node the residual is L^k exactly: the step count is known."""
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(empty, 1, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, one, one, 1, 0.5, solver="picard", tol=1e-3)
    # Relative to Z, which is 2 (1 - 2^-k) after k steps: 2^-k / (2 (1 - 2^-k)) <= 0.7e-3.
    steps = next(k for k in range(99) if k and 2.0**-k / (2 - 2.0 ** (1 - k)) <= 0.7e-3)
    assert result.iterations == steps
    assert result.value.item() == pytest.approx(2 * (1 - 2.0**-steps), rel=1e-15)
