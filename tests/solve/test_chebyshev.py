"""The Chebyshev expansion against quadrature, and its proven tail against the truncation error."""

import math

import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev as cheb
from scipy import fft

from mgnni import Propagation, solve_equilibrium
from mgnni.solve.chebyshev import chebyshev, expansion
from mgnni.solve.equation import Equations
from mgnni.solve.weights import Weights
from problems import chain, weight

VALUES = [0.0, 0.3, -0.3, 0.8, -0.8, 0.99, -0.99]
SCALES = [1, 2, 3, 5, 8]
scales = pytest.mark.parametrize("scale", SCALES)


def resolvent(mu: float, scale: int, s: np.ndarray) -> np.ndarray:
    return 1 / (1 - mu * s**scale)


def quadrature(mu: float, scale: int, count: int) -> np.ndarray:
    """Chebyshev coefficients by Gauss quadrature: a cosine transform of values at the nodes."""
    size = 8192  # far past the decay of the coefficients, so aliasing is below rounding
    nodes = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    coefficients = fft.dct(resolvent(mu, scale, nodes), type=2) / size
    coefficients[0] /= 2
    return coefficients[:count]


def polynomials(operator: Propagation, w: torch.Tensor, scale: int, gamma: float, tol: float):
    """The polynomials of one equation: coefficients by column, degrees, the operator's divisor."""
    bias = torch.ones(1, operator.num_nodes, w.size(0), dtype=torch.float64, device=w.device)
    equations = Equations(operator, (scale,), gamma, Weights(w.unsqueeze(0)), bias)
    found, short = chebyshev(equations, tol, 10**6)
    assert not short
    highest = int(found.degree.max())
    identity = torch.arange(w.size(0))
    rows = found.block(0, highest + 1, identity, torch.zeros((), dtype=torch.float64))
    eigenvalues = equations.weights.decoupling.eigenvalues[0]
    return rows.numpy(), found.degree.tolist(), found.bound, eigenvalues.tolist()


def diagonal(values: list[float], device: torch.device) -> torch.Tensor:
    """A symmetric weight with these eigenvalues, in a basis of its own."""
    q, _ = torch.linalg.qr(torch.randn(len(values), len(values), dtype=torch.float64))
    return (q @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ q.T).to(device)


@scales
def test_coefficients_match_quadrature(scale):
    front, rho = expansion(torch.tensor(VALUES, dtype=torch.float64), scale)
    k = np.arange(60)
    for j, mu in enumerate(VALUES):
        parts = front[j].numpy()[None, :] * rho[j].numpy()[None, :] ** k[:, None]
        coefficients = parts.sum(1).real
        coefficients[0] /= 2
        np.testing.assert_allclose(coefficients, quadrature(mu, scale, 60), rtol=0, atol=1e-12)


@scales
def test_the_table_of_a_solve_matches_quadrature(scale, device):
    operator = Propagation.from_edge_index(chain(4).to(device), 4, dtype=torch.float64)
    rows, degree, bound, values = polynomials(
        operator, diagonal([1.0, 0.5, 0.0, -0.7], device), scale, 0.9, 1e-10
    )
    assert bound == 1.0
    for j, value in enumerate(values):
        expected = quadrature(0.9 * value, scale, len(rows))
        expected[degree[j] + 1 :] = 0
        np.testing.assert_allclose(rows[:, j], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-12])
@scales
def test_the_tail_bound_bounds_the_truncation(scale, tol, device):
    """The error of the truncated series is at most tol / 2 all over [-1, 1], the residual tol."""
    operator = Propagation.from_edge_index(chain(4).to(device), 4, dtype=torch.float64)
    w = diagonal([1.0, 0.9, 0.3, 1e-8, 0.0, -0.5, -1.0], device)
    rows, degree, _, values = polynomials(operator, w, scale, 0.99, tol)
    s = np.cos(np.linspace(0, np.pi, 4001))
    rounding = 1e-11  # of a sum of some hundred terms that add up to a hundred
    for j, value in enumerate(values):
        mu = 0.99 * value
        sum_ = cheb.chebval(s, rows[:, j])
        assert np.abs(sum_ - resolvent(mu, scale, s)).max() <= tol / 2 + rounding
        assert np.abs((1 - mu * s**scale) * sum_ - 1).max() <= tol + rounding
        # No more terms than needed: of the terms that are left out, the next matters.
        full = quadrature(mu, scale, degree[j] + 1)
        if degree[j] > 4 * scale:
            half = full[degree[j] // 2 + 1 :]
            assert np.abs(half).sum() > tol / 2


@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("gamma", [0.5, 0.8, 0.95, 0.99])
def test_the_degree_on_a_chain_is_that_of_the_closed_form(gamma, tol, device):
    r"""At scale 1: tail :math:`2 \rho^{K+1} / ((1 - \rho) \sqrt{1 - \gamma^2})` below tol / 2."""
    operator = Propagation.from_edge_index(chain(50).to(device), 50, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    bias = torch.randn(50, 1, dtype=torch.float64, device=device)
    root = math.sqrt(1 - gamma**2)
    rho = gamma / (1 + root)
    needed = math.log(0.7 * tol / 2 * (1 - rho) * root / 2) / math.log(rho) - 1
    result = solve_equilibrium(operator, one, bias, 1, gamma, solver="chebyshev", tol=tol)
    assert result.iterations == math.ceil(needed)
    assert result.relative_residual <= 0.7 * tol + 1e-14


def test_an_operator_of_another_norm_is_divided_by_it(device):
    """Weights as given with norm bound 1.5: the spectrum leaves [-1, 1] unless it is scaled."""
    edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
    given = torch.full((2,), 1.5, dtype=torch.float64, device=device)
    operator = Propagation.from_edge_index(edge_index, 2, given, "none", False)
    for scale, gamma in ((1, 0.6), (2, 0.4), (3, 0.29)):
        w = weight("identity", 1).to(device)
        bias = torch.tensor([[1.0], [-0.5]], dtype=torch.float64, device=device)
        result = solve_equilibrium(operator, w, bias, scale, gamma, solver="chebyshev", tol=1e-12)
        p = torch.tensor([[0.0, 1.5], [1.5, 0.0]], dtype=torch.float64, device=device)
        p = torch.linalg.matrix_power(p, scale)
        expected = torch.linalg.solve(
            torch.eye(2, dtype=torch.float64, device=device) - gamma * p, bias
        )
        torch.testing.assert_close(result.value, expected, rtol=1e-11, atol=1e-11)
        rows, _, bound, _ = polynomials(operator, w, scale, gamma, 1e-10)
        assert bound == 1.5
        np.testing.assert_allclose(
            rows[:, 0], quadrature(gamma * 1.5**scale, scale, len(rows)), rtol=0, atol=1e-12
        )


def test_too_low_a_degree_is_admitted(device):
    operator = Propagation.from_edge_index(chain(4).to(device), 4, dtype=torch.float64)
    w = torch.eye(2, dtype=torch.float64, device=device)
    bias = torch.ones(1, 4, 2, dtype=torch.float64, device=device)
    equations = Equations(operator, (1,), 0.99, Weights(w.unsqueeze(0)), bias)
    found, short = chebyshev(equations, 1e-8, 7)
    assert short
    assert found.degree.tolist() == [7, 7]
