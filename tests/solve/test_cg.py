"""Conjugate gradients: optimal over the Krylov space, and no slower than the theory."""

import math

import pytest
import torch

from mgnni import ConvergenceWarning, Propagation, solve_equilibrium
from problems import chain, propagation, weight


def krylov(system: torch.Tensor, start: torch.Tensor, size: int) -> torch.Tensor:
    """An orthonormal basis of the span of r, A r, .., A^{size-1} r, in float64."""
    vectors = []
    v = start
    for _ in range(size):
        for _ in range(2):
            for u in vectors:
                v = v - (u @ v) * u
        v = v / v.norm()
        vectors.append(v)
        v = system @ v
    return torch.stack(vectors, dim=1)


@pytest.mark.parametrize("form", ["random", "indefinite"])
def test_iterates_minimise_the_energy_norm_over_the_krylov_space(form, device):
    operator = propagation("sym", 8).to(device)
    w = weight(form, 2).to(device)
    bias = torch.randn(8, 2, dtype=torch.float64, device=device)
    p = torch.linalg.matrix_power(operator.to_dense(), 2)
    system = torch.eye(16, dtype=torch.float64, device=device) - 0.95 * torch.kron(p, w)
    b = bias.flatten()
    for count in range(1, 6):
        basis = krylov(system, b, count)
        expected = basis @ torch.linalg.solve(basis.T @ system @ basis, basis.T @ b)
        with pytest.warns(ConvergenceWarning):
            result = solve_equilibrium(
                operator,
                w,
                bias,
                2,
                0.95,
                solver="cg",
                tol=1e-14,
                max_iter=count,
                on_failure="warn",
            )
        torch.testing.assert_close(result.value.flatten(), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize("gamma", [0.8, 0.95, 0.99])
def test_iterations_on_a_chain_stay_below_the_closed_form(gamma, tol, device):
    r"""Residual at most :math:`2 \sqrt\kappa\, \rho^k`, :math:`\kappa = (1 + L) / (1 - L)`."""
    operator = Propagation.from_edge_index(chain(200).to(device), 200, dtype=torch.float64)
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    bias = torch.randn(200, 1, dtype=torch.float64, device=device)
    rate = (1 - math.sqrt(1 - gamma**2)) / gamma
    kappa = (1 + gamma) / (1 - gamma)
    limit = math.ceil(math.log(0.7 * tol / (2 * math.sqrt(kappa))) / math.log(rate))
    result = solve_equilibrium(operator, one, bias, 1, gamma, solver="cg", tol=tol)
    picard = solve_equilibrium(operator, one, bias, 1, gamma, solver="picard", tol=tol)
    assert result.iterations <= limit
    assert result.iterations < picard.iterations / 2


def test_it_ends_after_as_many_steps_as_there_are_eigenvalues(device):
    """The complete graph with loops has the eigenvalues 1 and 0, so A has two."""
    nodes = torch.arange(9)
    edge_index = torch.cartesian_prod(nodes, nodes).T
    edge_index = edge_index[:, edge_index[0] != edge_index[1]].to(device)
    operator = Propagation.from_edge_index(edge_index, 9, dtype=torch.float64)
    w = torch.eye(2, dtype=torch.float64, device=device)
    bias = torch.randn(9, 2, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 1, 0.99, solver="cg", tol=1e-11)
    assert result.iterations == 2
    mean = bias.mean(0, keepdim=True)
    torch.testing.assert_close(result.value, bias - mean + mean / (1 - 0.99))
