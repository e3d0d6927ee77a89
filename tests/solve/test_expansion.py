"""Truncated expansions of the resolvent: coefficients by quadrature, and proven degrees."""

import math

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev as cheb
from scipy import fft

from mgnni import Propagation, solve_equilibrium
from mgnni.solve.equation import Equations
from mgnni.solve.expansion import (
    chebyshev,
    interval_expansion,
    neumann,
    resolvent,
    sufficient_terms,
)
from mgnni.solve.weights import Weights
from problems import chain, generator, propagation, state_norm, weight

SCALES = [1, 2, 3, 5, 8]
VALUES = [0.0, 0.3, -0.3, 0.8, -0.8, 0.99, -0.99]
BOUNDLESS = 10**6  # a budget that is never reached


def quadrature(mu: float, scale: int, count: int) -> np.ndarray:
    """Chebyshev coefficients by Gauss quadrature: a cosine transform of values at the nodes."""
    size = 8192  # far past the decay of the coefficients, so aliasing is below rounding
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    coefficients = fft.dct(1 / (1 - mu * nodes**scale), type=2) / size
    coefficients[0] /= 2
    return coefficients[:count]


def with_eigenvalues(values: list[float], device: torch.device) -> torch.Tensor:
    """A symmetric weight with these eigenvalues and random eigenvectors."""
    q, _ = torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64))
    return (q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ q.T).to(device)


def expanded(method, operator, stack, scales, gamma, tol, max_iter=BOUNDLESS):
    """The expansion, all its coefficients ``(terms, columns)``, and the eigenvalues."""
    equations = Equations(operator, scales, gamma, Weights(stack))
    found = method(equations, tol, max_iter)
    columns = torch.arange(found.degree.numel())
    rows = found.block(0, int(found.degree.max()) + 1, columns, torch.zeros(()).double())
    return found, rows.numpy(), equations.weights.eigenpairs.values.flatten().tolist()


def path(device, nodes=4):
    return Propagation.from_edge_index(chain(nodes).to(device), nodes, dtype=torch.float64)


class TestNeumann:
    def test_coefficients_are_powers_at_multiples_of_the_scale(self, device):
        operator, scales = propagation("dir").to(device), (1, 3)
        stack = torch.stack([weight("random", 3), weight("indefinite", 3, 1)]).to(device)
        found, rows, values = expanded(neumann, operator, stack, scales, 0.9, 1e-6)
        assert not found.truncated
        for j, value in enumerate(values):
            scale, mu = scales[j // 3], 0.9 * value
            for k in range(len(rows)):
                used = k % scale == 0 and k <= found.degree[j]
                expected = mu ** (k // scale) if used else 0.0
                assert rows[k, j] == pytest.approx(expected, rel=1e-12, abs=1e-300)

    @pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
    def test_every_column_takes_the_terms_it_needs(self, tol, device):
        """The residual after k terms is at most l^(k+1): enough terms, at most one too many."""
        stack = weight("indefinite", 5).unsqueeze(0).to(device)
        operator = propagation("dir").to(device)
        found, _, values = expanded(neumann, operator, stack, (2,), 0.95, tol)
        for value, degree in zip(values, found.degree.tolist(), strict=True):
            rate, terms = 0.95 * abs(value), degree // 2
            assert degree % 2 == 0
            assert rate ** (terms + 1) <= tol
            assert terms <= 1 or rate ** (terms - 1) > tol

    @pytest.mark.parametrize("normalization", ["dir", "out", "row"])
    def test_the_residual_bound_holds_in_the_norm_of_the_operator(self, normalization, device):
        operator, tol = propagation(normalization, 12).to(device), 1e-3
        p = operator.to_dense() @ operator.to_dense()
        for seed in range(20):
            w = weight("random", 3, seed).to(device)
            bias = torch.randn(12, 3, dtype=torch.float64, generator=generator(seed)).to(device)
            q = torch.linalg.eigh(w).eigenvectors
            result = solve_equilibrium(operator, w, bias, 2, 0.95, solver="series", tol=tol)
            residual = (0.95 * p @ result.value @ w + bias - result.value) @ q
            for j in range(3):
                column = state_norm(operator, (bias @ q)[:, j : j + 1])
                assert state_norm(operator, residual[:, j : j + 1]) <= 0.7 * tol * column + 1e-13

    def test_iterations_count_terms(self, device):
        operator = propagation("dir").to(device)
        one = torch.ones(1, 1, dtype=torch.float64, device=device)
        bias = torch.randn(12, 1, dtype=torch.float64, device=device)
        for scale in (1, 2, 5):
            result = solve_equilibrium(operator, one, bias, scale, 0.8, solver="series", tol=1e-6)
            assert result.iterations == math.ceil(math.log(0.7e-6) / math.log(0.8))

    def test_slow_columns_are_few(self, device):
        """Weights of unit Frobenius norm need 8.5 products per hop on average, not 62."""
        stack = torch.stack([weight("random", 64, seed) for seed in range(2)]).to(device)
        operator = propagation("dir", 20).to(device)
        found, _, _ = expanded(neumann, operator, stack, (1, 2), 0.8, 0.7e-6)
        assert int(found.degree.max()) <= 2 * 64
        assert int(found.degree.sum()) <= (1 + 2) * 64 * 8.5 * 1.25

    @pytest.mark.parametrize("value", [1000.0, 1.7, 1e-3, 0.0])
    def test_the_operator_is_divided_by_its_norm_bound(self, value, device):
        """So no term exceeds the right-hand side, and no coefficient exceeds one."""
        edge_index = torch.tensor([[0], [1]], device=device)
        given = torch.full((1,), value, dtype=torch.float64, device=device)
        operator = Propagation.from_edge_index(edge_index, 2, given, "none", False)
        for scale in (1, 3):
            w = torch.eye(1, dtype=torch.float64, device=device) / (value**scale or 1.0)
            found, rows, _ = expanded(neumann, operator, w.unsqueeze(0), (scale,), 0.9, 1e-10)
            assert found.bound == (value or 1.0)
            for k in (1, 2, 7):
                assert found.step(k) == (1 / found.bound, 0.0)
            for k, (coefficient,) in enumerate(rows.tolist()):
                used = k % scale == 0 and (value or k == 0)
                expected = 0.9 ** (k // scale) if used else 0.0
                assert coefficient == pytest.approx(expected, rel=1e-12)
            if value:
                count = math.ceil(math.log(1e-10) / math.log(0.9))
                assert found.degree.tolist() == [scale * count]

    def test_a_budget_that_is_too_low_truncates(self, device):
        stack = torch.eye(2, dtype=torch.float64, device=device).unsqueeze(0)
        operator = propagation("dir").to(device)
        found, _, _ = expanded(neumann, operator, stack, (3,), 0.99, 1e-8, 4)
        assert found.truncated
        assert found.degree.tolist() == [12, 12]


class TestChebyshev:
    @pytest.mark.parametrize("scale", SCALES)
    def test_coefficients_match_quadrature(self, scale):
        front, rho = resolvent(torch.tensor(VALUES, dtype=torch.float64), scale)
        k = np.arange(60)
        for j, mu in enumerate(VALUES):
            parts = front[j].numpy()[None, :] * rho[j].numpy()[None, :] ** k[:, None]
            coefficients = parts.sum(1).real
            coefficients[0] /= 2
            np.testing.assert_allclose(coefficients, quadrature(mu, scale, 60), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("scale", SCALES)
    def test_the_table_of_an_equation_matches_quadrature(self, scale, device):
        w = with_eigenvalues([1.0, 0.5, 0.0, -0.7], device).unsqueeze(0)
        found, rows, values = expanded(chebyshev, path(device), w, (scale,), 0.9, 1e-10)
        assert (found.bound, found.truncated) == (1.0, False)
        for j, value in enumerate(values):
            expected = quadrature(0.9 * value, scale, len(rows))
            expected[int(found.degree[j]) + 1 :] = 0
            np.testing.assert_allclose(rows[:, j], expected, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
    @pytest.mark.parametrize("scale", SCALES)
    def test_the_tail_bounds_the_truncation(self, scale, tol, device):
        """On [-1, 1] the error of the truncated series is at most tol / 2, the residual tol."""
        w = with_eigenvalues([1.0, 0.9, 0.3, 1e-8, 0.0, -0.5, -1.0], device).unsqueeze(0)
        found, rows, values = expanded(chebyshev, path(device), w, (scale,), 0.99, tol)
        s = np.cos(np.linspace(0, np.pi, 4001))
        rounding = 1e-11  # of a sum of some hundred terms that add up to a hundred
        for j, value in enumerate(values):
            mu, degree = 0.99 * value, int(found.degree[j])
            total = cheb.chebval(s, rows[:, j])
            assert np.abs(total - 1 / (1 - mu * s**scale)).max() <= tol / 2 + rounding
            assert np.abs((1 - mu * s**scale) * total - 1).max() <= tol + rounding
            if degree > 4 * scale:  # half as many terms would not suffice
                rest = quadrature(mu, scale, degree + 1)[degree // 2 + 1 :]
                assert np.abs(rest).sum() > tol / 2

    @pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
    @pytest.mark.parametrize("gamma", [0.5, 0.8, 0.95, 0.99])
    def test_the_degree_on_a_chain_is_that_of_the_closed_form(self, gamma, tol, device):
        """At scale 1, the tail 2 rho^(K+1) / ((1 - rho) sqrt(1 - gamma^2)) is below tol / 2."""
        one = torch.ones(1, 1, dtype=torch.float64, device=device)
        bias = torch.randn(50, 1, dtype=torch.float64, device=device)
        root = math.sqrt(1 - gamma**2)
        rho = gamma / (1 + root)
        needed = math.log(0.7 * tol / 2 * (1 - rho) * root / 2) / math.log(rho) - 1
        result = solve_equilibrium(
            path(device, 50), one, bias, 1, gamma, solver="chebyshev", tol=tol
        )
        assert result.iterations == math.ceil(needed)
        assert result.relative_residual <= 0.7 * tol + 1e-14

    def test_the_operator_is_divided_by_its_norm_bound(self, device):
        """With norm bound 1.5 the spectrum leaves [-1, 1] unless it is scaled."""
        edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
        given = torch.full((2,), 1.5, dtype=torch.float64, device=device)
        operator = Propagation.from_edge_index(edge_index, 2, given, "none", False)
        eye = torch.eye(2, dtype=torch.float64, device=device)
        w = weight("identity", 1).to(device)
        bias = torch.tensor([[1.0], [-0.5]], dtype=torch.float64, device=device)
        for scale, gamma in ((1, 0.6), (2, 0.4), (3, 0.29)):
            result = solve_equilibrium(
                operator, w, bias, scale, gamma, solver="chebyshev", tol=1e-12
            )
            p = torch.linalg.matrix_power(1.5 * eye.flip(0), scale)
            expected = torch.linalg.solve(eye - gamma * p, bias)
            torch.testing.assert_close(result.value, expected, rtol=1e-11, atol=1e-11)
            found, rows, _ = expanded(chebyshev, operator, w.unsqueeze(0), (scale,), gamma, 1e-10)
            assert found.bound == 1.5
            wanted = quadrature(gamma * 1.5**scale, scale, len(rows))
            np.testing.assert_allclose(rows[:, 0], wanted, rtol=0, atol=1e-12)

    def test_a_budget_that_is_too_low_truncates(self, device):
        w = torch.eye(2, dtype=torch.float64, device=device).unsqueeze(0)
        found, _, _ = expanded(chebyshev, path(device), w, (1,), 0.99, 1e-8, 7)
        assert found.truncated
        assert found.degree.tolist() == [7, 7]


class TestSufficientTerms:
    @pytest.mark.parametrize("is_chebyshev", [True, False], ids=["chebyshev", "powers"])
    @pytest.mark.parametrize("scales", [(1,), (2,), (5,), (1, 4), (16,)])
    @pytest.mark.parametrize(("gamma", "bound"), [(0.8, 1.0), (0.99, 0.9), (0.1, 1.0)])
    @pytest.mark.parametrize("tol", [1e-3, 1e-6])
    def test_terms_suffice_and_are_not_many_more(self, is_chebyshev, scales, gamma, bound, tol):
        terms = sufficient_terms(scales, gamma, bound, tol, is_chebyshev)
        s, most = np.linspace(-1, 1, 2001), 0
        k = np.arange(terms + 1)[:, None]
        for m in scales:
            rate = gamma * bound**m
            if is_chebyshev:
                basis = np.cos(k * np.arccos(s))
                coefficient = quadrature(rate, m, terms + 1)[:, None]
            else:
                basis, coefficient = s**k, np.where(k % m == 0, rate ** (k // m), 0.0)
            sums = np.cumsum(coefficient * basis, 0)
            residual = np.abs(1 - (1 - rate * s**m) * sums).max(1)
            assert residual[terms - 1] <= tol
            most = max(most, int((residual > tol).nonzero()[0].max(initial=-1)) + 2)
        assert terms <= 1.7 * most + 2 * max(scales) + 2


class TestInterval:
    @pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.2, 0.6), (0.0, 0.0)])
    @pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-12])
    def test_the_expansion_is_the_function(self, tol, low, high):
        rows = [[-0.99, -0.8, -1e-3, -1e-300], [0.99, -0.98, 0.9, -0.49], [0.99, 0.5, 1e-9, 0.0]]
        mu = torch.tensor(rows, dtype=torch.float64)
        table, degree = interval_expansion(mu, low, high, tol, BOUNDLESS)
        x = np.linspace(low, high, 501)
        y = np.linspace(-1, 1, 501)
        for row in range(3):
            degrees = degree[row].tolist()
            assert degrees == sorted(degrees, reverse=True)
            for column in range(4):
                m, d = float(mu[row, column]), degrees[column]
                coefficient = table[:, row, column].numpy()
                residual = 1 - (1 - m * x) * cheb.chebval(y, coefficient)
                assert np.abs(residual).max() <= tol * (1 + 1e-6) + 1e-14
                assert not coefficient[d + 1 :].any()
                if d > 1 and row != 1:  # many fewer terms would not suffice
                    fewer = cheb.chebval(y, coefficient * (np.arange(len(table)) < 0.6 * d))
                    assert np.abs(1 - (1 - m * x) * fewer).max() > tol
        assert int(degree[2, 3]) == 0

    def test_a_budget_that_is_too_low_is_reported(self):
        mu = torch.tensor([0.99, 0.1], dtype=torch.float64)
        table, degree = interval_expansion(mu, -1.0, 1.0, 1e-9, 5)
        assert len(table) == 6
        assert degree.tolist()[0] == 6
