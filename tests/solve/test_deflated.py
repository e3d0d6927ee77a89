"""Deflation of the large eigenvalues of wide weights, against a dense solve of every column."""

from dataclasses import replace

import pytest
import torch

from mgnni import ConvergenceError, Propagation, Status, solve_equilibria, solve_equilibrium
from mgnni.solve.deflated import deflated_rate
from mgnni.solve.equation import Equations
from mgnni.solve.prepare import choose
from mgnni.solve.result import Options
from mgnni.solve.weights import MARGIN, Weights
from problems import generator, lopsided_edges, propagation
from solve.test_weights import trained, with_spectrum

CHANNELS, NODES = 150, 20
SPECTRA = {
    "trained": trained(CHANNELS),
    "slow": torch.cat([torch.tensor([0.999]), torch.zeros(CHANNELS - 1)]).double(),
    "many": torch.linspace(0, 0.12, CHANNELS, dtype=torch.float64),
    "of both signs": torch.linspace(-0.9, 0.9, CHANNELS, dtype=torch.float64),
    "zero": torch.zeros(CHANNELS, dtype=torch.float64),
}


def solution(operator, w, bias, scale, gamma):
    """In the eigenbasis of the weight, every column has a linear system of its own."""
    values, q = torch.linalg.eigh(w.double())
    power = torch.linalg.matrix_power(operator.to_dense().double(), scale)
    eye = torch.eye(len(power), dtype=torch.float64, device=power.device)
    systems = eye - gamma * values.view(-1, 1, 1) * power
    return torch.linalg.solve(systems, (bias.double() @ q).T.unsqueeze(-1)).squeeze(-1).T @ q.T


def problem(spectrum, device, dtype=torch.float64, nodes=NODES):
    w = with_spectrum(SPECTRA[spectrum])[0].to(device, dtype)
    bias = torch.randn(nodes, CHANNELS, dtype=torch.float64, generator=generator(1))
    return (w + w.T) / 2, bias.to(device, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("normalization", ["sym", "dir", "out"])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_the_solution_is_the_dense_one(spectrum, normalization, dtype, device):
    operator = propagation(normalization, NODES).to(device).to(dtype)
    w, bias = problem(spectrum, device, dtype)
    tol, limit = (1e-12, 1e-10) if dtype is torch.float64 else (1e-6, 1e-5)
    for scale in (1, 3):
        for gamma in (0.5, 0.95):
            result = solve_equilibrium(operator, w, bias, scale, gamma, solver="deflated", tol=tol)
            wanted = solution(operator, w, bias, scale, gamma)
            error = (result.value.double() - wanted).norm()
            assert error <= limit * wanted.norm()
            assert error <= result.error_bound + 1e-14 * wanted.norm()
            assert result.relative_residual <= tol
            assert (result.solver, result.status) == ("deflated", Status.CONVERGED)


def test_gradients_are_those_of_the_dense_solution(device):
    operator, cotangent = propagation("dir", NODES).to(device), None
    w, bias = (one.requires_grad_() for one in problem("trained", device))
    value = solve_equilibrium(operator, w, bias, 2, 0.9, solver="deflated", tol=1e-12).value
    cotangent = torch.randn(value.shape, dtype=value.dtype, generator=generator(2)).to(device)
    found = torch.autograd.grad(value, bias, cotangent)[0]
    # Of the adjoint equation, with the transposed operator.
    wanted = solution(operator.adjoint(), w.detach(), cotangent, 2, 0.9)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def test_equations_of_a_stack_are_solved_as_if_alone(device):
    operator = propagation("out", NODES).to(device)
    parts = [problem(name, device) for name in ("trained", "zero", "many")]
    w, bias = torch.stack([one for one, _ in parts]), parts[0][1]
    options = {"gamma": 0.9, "solver": "deflated", "tol": 1e-11}
    for one, scale, found in zip(
        w, (1, 2, 3), solve_equilibria(operator, w, bias, (1, 2, 3), **options), strict=True
    ):
        alone = solve_equilibrium(operator, one, bias, scale, **options)
        assert found.relative_residual <= 1e-11
        torch.testing.assert_close(found.value, alone.value, rtol=1e-9, atol=1e-9)


def test_graphs_of_a_batch_are_solved_as_if_alone(device):
    edge_index, _ = lopsided_edges(NODES)
    single = Propagation.from_edge_index(edge_index.to(device), NODES, dtype=torch.float64)
    both = torch.cat([edge_index, edge_index + NODES], 1).to(device)
    batch = torch.arange(2, device=device).repeat_interleave(NODES)
    operator = Propagation.from_edge_index(both, 2 * NODES, batch=batch, dtype=torch.float64)
    w, bias = problem("many", device)
    # Bias along the eigenvector of the largest eigenvalue, which is deflated.
    vector = torch.linalg.eigh(w).eigenvectors[:, -1:]
    easy = bias @ vector @ vector.T
    options = {"gamma": 0.9, "solver": "deflated", "tol": 1e-6}
    found = solve_equilibrium(operator, w, torch.cat([bias, easy]), 1, **options)
    for part, one in zip(found.value.split(NODES), (bias, easy), strict=True):
        alone = solve_equilibrium(single, w, one, 1, **options)
        torch.testing.assert_close(part, alone.value, rtol=1e-12, atol=1e-12)
    assert found.iterations > alone.iterations  # fewer steps than the other graph


def test_few_steps_suffice_if_few_eigenvalues_are_large(device):
    operator = propagation("dir", NODES).to(device)
    w, bias = problem("trained", device)
    counts = {
        solver: solve_equilibrium(operator, w, bias, 1, 0.95, solver=solver).iterations
        for solver in ("deflated", "gmres", "picard")
    }
    assert counts["deflated"] < counts["gmres"] < counts["picard"]
    # About the largest of the small eigenvalues; the largest twenty of them are deflated, too.
    rate = deflated_rate(Equations(operator, (1,), 0.95, Weights(w[None])))
    assert 0.95 * 0.003 <= rate <= 0.95 * 0.004 * MARGIN


def spectral_radius(equations):
    """Of the iteration on a node whose only link is its self-loop, from its definition."""
    w, found = equations.weights.tensor[0], equations.weights.outliers
    x, theta = found.vectors[0], found.values[0]
    eye = torch.eye(CHANNELS, dtype=torch.float64, device=w.device)
    m = eye - equations.gamma * (x.T * theta) @ x
    step = eye - torch.linalg.solve(m, eye - equations.gamma * w)
    return torch.linalg.eigvals(step).abs().max().item()


@pytest.mark.parametrize("others", [0.03, 0.1, 0.2])
@pytest.mark.parametrize("gamma", [0.5, 0.9, 0.999, 0.9999])
def test_the_rate_includes_the_error_of_the_outliers(gamma, others, device):
    signs = torch.ones(CHANNELS, dtype=torch.float64)
    signs[6::2] = -1
    values = others * signs
    values[:5] = torch.linspace(0.99, 0.9999, 5)
    w = with_spectrum(values)[0].to(device)
    equations = Equations(propagation("dir", 1).to(device), (1,), gamma, Weights(w[None]))
    radius = spectral_radius(equations)
    assert radius <= deflated_rate(equations) <= 2.5 * radius


def test_auto_does_not_deflate_where_that_would_diverge(device):
    values = torch.full((513,), 0.2, dtype=torch.float64)
    values[1::2] = -0.2
    values[:5] = torch.linspace(0.99, 0.9999, 5)
    w = with_spectrum(values)[0].to(device)
    equations = Equations(propagation("dir", 60).to(device), (1,), 0.9999, Weights(w[None]))
    assert choose(equations, Options()) != "deflated"
    assert choose(replace(equations, gamma=0.5), Options()) == "deflated"


def test_tiny_graphs_are_deflated_too(device):
    """Although plain iterations would be slow, and a dense factorisation fits."""
    values = torch.cat([trained(CHANNELS), torch.zeros(513 - CHANNELS)])
    w = with_spectrum(values)[0].to(device)
    operator = propagation("dir", NODES).to(device)
    bias = torch.randn(NODES, 513, dtype=torch.float64, generator=generator(1)).to(device)
    result = solve_equilibrium(operator, w, bias, 1, 0.9999, tol=1e-10)
    assert (result.solver, result.converged) == ("deflated", True)
    assert result.iterations <= 8


def test_a_budget_that_is_too_low_is_reported(device):
    w, bias = problem("many", device)
    with pytest.raises(ConvergenceError, match="stopped after 1"):
        solve_equilibrium(
            propagation("dir", NODES).to(device), w, bias, 1, 0.9, solver="deflated", max_iter=1
        )


def test_weights_that_can_be_decoupled_are_not_deflated(device):
    w, _ = problem("trained", device)
    equations = Equations(propagation("dir", NODES).to(device), (1,), 0.9, Weights(w[None]))
    assert choose(equations, Options()) == "series"


def test_the_inner_expansion_may_take_as_many_products_as_the_steps(device):
    """Four steps at scale 64 are 256 products, more than the largest eigenvalue needs."""
    operator = propagation("sym", NODES).to(device)
    w, bias = problem("slow", device)
    result = solve_equilibrium(operator, w, bias, 64, 0.99, solver="deflated", max_iter=4)
    wanted = solution(operator, w, bias, 64, 0.99)
    assert (result.value - wanted).norm() <= 1e-4 * wanted.norm()
