"""Neumann's series: its coefficients, and the bound that says where it may be cut off."""

import math

import pytest
import torch

from mgnni import solve_equilibria, solve_equilibrium
from mgnni.solve.equation import Equations
from mgnni.solve.series import neumann
from mgnni.solve.weights import Weights
from problems import generator, propagation, state_norm, weight, widths_of_products


def build(operator, stack, scales, gamma, tol, max_iter=10**6):
    bias = torch.ones(len(scales), operator.num_nodes, stack.size(-1), dtype=torch.float64)
    equations = Equations(operator, scales, gamma, Weights(stack), bias.to(stack.device))
    found, short = neumann(equations, tol, max_iter)
    return found, short, equations.weights.decoupling.eigenvalues.flatten().tolist()


def test_coefficients_are_powers_at_multiples_of_the_scale(device):
    operator = propagation("dir").to(device)
    scales, gamma, tol = (1, 3), 0.9, 1e-6
    stack = torch.stack([weight("random", 3), weight("indefinite", 3, 1)]).to(device)
    found, short, values = build(operator, stack, scales, gamma, tol)
    assert not short
    highest = int(found.degree.max())
    order = torch.arange(6)
    rows = found.block(0, highest + 1, order, torch.zeros((), dtype=torch.float64))
    for j, value in enumerate(values):
        scale, mu = scales[j // 3], gamma * value
        for k in range(highest + 1):
            used = k % scale == 0 and k <= found.degree[j]
            expected = mu ** (k // scale) if used else 0.0
            assert rows[k, j].item() == pytest.approx(expected, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
def test_every_column_takes_the_terms_it_needs(tol, device):
    """The residual after k terms is at most l^{k+1}: enough of them, and not two too many."""
    operator = propagation("dir").to(device)
    stack = weight("indefinite", 5).unsqueeze(0).to(device)
    found, _, values = build(operator, stack, (2,), 0.95, tol)
    for value, degree in zip(values, found.degree.tolist(), strict=True):
        rate = 0.95 * abs(value)
        terms = degree // 2
        assert degree % 2 == 0
        assert rate ** (terms + 1) <= tol
        assert terms <= 1 or rate ** (terms - 1) > tol


@pytest.mark.parametrize("normalization", ["dir", "out", "row"])
def test_the_residual_bound_holds_in_the_norm_of_the_operator(normalization, device):
    operator = propagation(normalization, 12).to(device)
    tol = 1e-3
    for seed in range(20):
        w = weight("random", 3, seed).to(device)
        bias = torch.randn(12, 3, dtype=torch.float64, generator=generator(seed)).to(device)
        q = torch.linalg.eigh(w).eigenvectors
        result = solve_equilibrium(operator, w, bias, 2, 0.95, solver="series", tol=tol)
        p = operator.to_dense() @ operator.to_dense()
        residual = (0.95 * p @ result.value @ w + bias - result.value) @ q
        for j in range(3):
            column = state_norm(operator, (bias @ q)[:, j : j + 1])
            assert state_norm(operator, residual[:, j : j + 1]) <= 0.7 * tol * column + 1e-13


def test_iterations_count_terms(device):
    operator = propagation("dir").to(device)
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    bias = torch.randn(12, 1, dtype=torch.float64, device=device)
    for scale in (1, 2, 5):
        result = solve_equilibrium(operator, one, bias, scale, 0.8, solver="series", tol=1e-6)
        assert result.iterations == math.ceil(math.log(0.7e-6) / math.log(0.8))


def test_slow_columns_are_few(device, monkeypatch):
    """Weights of unit Frobenius norm: most columns leave the sweep early, whatever they are."""
    operator = propagation("dir", 20).to(device)
    stack = torch.stack([weight("random", 64, seed) for seed in range(2)]).to(device)
    widths = widths_of_products(monkeypatch)
    bias = torch.randn(20, 64, dtype=torch.float64, device=device)
    first, second = solve_equilibria(operator, stack, bias, (1, 2), 0.8, solver="series", tol=1e-6)
    sweep = widths[:-3]  # the last three products, one and two hops, measure the residuals
    assert sweep == sorted(sweep, reverse=True)
    assert sweep[0] == 128
    # The design's count: 8.5 full-width products at gamma 0.8 to 1e-6, a scale and hop.
    assert sum(sweep) <= (1 + 2) * 64 * 8.5 * 1.25
    assert max(first.relative_residual, second.relative_residual) <= 1e-6


def test_too_few_terms_are_admitted(device):
    operator = propagation("dir").to(device)
    stack = torch.eye(2, dtype=torch.float64, device=device).unsqueeze(0)
    found, short, _ = build(operator, stack, (3,), 0.99, 1e-8, max_iter=4)
    assert short
    assert found.degree.tolist() == [12, 12]
