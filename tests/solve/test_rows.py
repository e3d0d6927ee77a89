"""Wide weights on small graphs, row by row, against the closed form from all eigenpairs."""

import pytest
import torch
from torch_geometric.utils import to_undirected

from mgnni import ConvergenceError, Propagation, Status, solve_equilibrium
from mgnni.solve.equation import Equations
from mgnni.solve.rows import Wide
from mgnni.solve.weights import Weights
from problems import chain, generator, lopsided_edges, propagation
from solve.test_weights import trained, with_spectrum

CHANNELS = 150
SPECTRA = {
    "trained": trained(CHANNELS),
    "slow": torch.cat([torch.tensor([0.999]), torch.zeros(CHANNELS - 1)]).double(),
    "many": torch.linspace(0, 0.12, CHANNELS, dtype=torch.float64),
    "of both signs": torch.linspace(-0.9, 0.9, CHANNELS, dtype=torch.float64),
    "all equal": torch.full((CHANNELS,), 0.5, dtype=torch.float64),
    "zero": torch.zeros(CHANNELS, dtype=torch.float64),
}


def closed_form(operator, w, bias, scale, gamma):
    s, v = torch.linalg.eigh(operator.to_dense().double())
    values, q = torch.linalg.eigh(w.double())
    below = 1 - gamma * (s**scale).unsqueeze(1) * values
    return v @ ((v.T @ bias.double() @ q) / below) @ q.T


def relative(value, expected):
    return ((value.double() - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_the_solution_is_the_closed_form(spectrum, scale, dtype, device):
    operator = propagation("sym", 20).to(device).to(dtype)
    w = with_spectrum(SPECTRA[spectrum])[0].to(device, dtype)
    w = (w + w.T) / 2
    bias = torch.randn(20, CHANNELS, dtype=torch.float64, generator=generator(1)).to(device, dtype)
    tol, limit = (1e-12, 1e-10) if dtype is torch.float64 else (1e-6, 1e-5)
    for gamma in (0.5, 0.95):
        result = solve_equilibrium(operator, w, bias, scale, gamma, solver="wide", tol=tol)
        expected = closed_form(operator, w, bias, scale, gamma)
        assert relative(result.value, expected) <= limit
        error = (result.value.double() - expected).norm().item()
        assert error <= result.error_bound + 1e-14 * expected.norm().item()  # of the closed form
        assert result.relative_residual <= tol
        assert (result.solver, result.status) == ("wide", Status.CONVERGED)


def test_operators_with_negative_eigenvalues_are_solved(device):
    # Without self-loops the chain has eigenvalues of both signs, so mu has too.
    operator = Propagation.from_edge_index(
        chain(9).to(device), 9, self_loops=False, dtype=torch.float64
    )
    w = with_spectrum(trained(CHANNELS))[0].to(device)
    bias = torch.randn(9, CHANNELS, dtype=torch.float64, device=device)
    for scale in (1, 2):
        result = solve_equilibrium(operator, w, bias, scale, 0.95, solver="wide", tol=1e-12)
        assert relative(result.value, closed_form(operator, w, bias, scale, 0.95)) <= 1e-10


def test_graphs_of_a_batch_are_separate_problems(device):
    sizes, edges, first = (3, 17, 1, 30), [], 0
    for seed, size in enumerate(sizes):
        edge_index, _ = lopsided_edges(size, seed)
        edges.append(to_undirected(edge_index, num_nodes=size) + first)
        first += size
    batch = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    order = torch.randperm(first, generator=generator(0))  # nodes of a graph need not be adjacent
    place = torch.argsort(order)
    edge_index, batch = place[torch.cat(edges, 1)].to(device), batch[order].to(device)
    operator = Propagation.from_edge_index(edge_index, first, batch=batch, dtype=torch.float64)
    w = with_spectrum(trained(CHANNELS))[0].to(device)
    bias = torch.randn(first, CHANNELS, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, w, bias, 2, 0.9, solver="wide", tol=1e-12)
    torch.testing.assert_close(
        result.value, closed_form(operator, w, bias, 2, 0.9), rtol=1e-10, atol=1e-10
    )
    assert result.graph_error_bound.shape == (len(sizes),)


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
def test_equations_together_are_those_alone(shared, device):
    operator = propagation("sym", 15).to(device)
    w = torch.stack([with_spectrum(trained(CHANNELS), seed)[0] for seed in (0, 1)]).to(device)
    bias = torch.randn(1 if shared else 2, 15, CHANNELS, dtype=torch.float64, device=device)
    bias = bias.expand(2, -1, -1)
    found = Wide(Equations(operator, (1, 2), 0.9, Weights(w))).propose(bias, 1e-12, 1000)
    assert not found.exhausted
    for i in (0, 1):
        expected = closed_form(operator, w[i], bias[i], i + 1, 0.9)
        assert relative(found.z[i], expected) <= 1e-10


@pytest.mark.parametrize("scale", [1, 12])
@pytest.mark.parametrize("gamma", [0.9, 0.999])
def test_a_single_isolated_node_is_solved(gamma, scale, device):
    """P is [[1]] and W the identity, so the state is the bias over 1 - gamma."""
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(empty, 1, dtype=torch.float64)
    eye = torch.eye(128, dtype=torch.float64, device=device)
    bias = torch.randn(1, 128, dtype=torch.float64, device=device)
    result = solve_equilibrium(operator, eye, bias, scale, gamma, solver="wide")
    assert result.converged
    expected = bias / (1 - gamma)
    assert (result.value - expected).norm() <= min(result.error_bound, 1e-3 * expected.norm())


def solved_on_a_pair(eigenvalues, gamma, tol, dtype, device):
    """Two linked nodes without self-loops, so that P has the eigenvalues 1 and -1."""
    operator = Propagation.from_edge_index(
        torch.tensor([[0, 1], [1, 0]], device=device), 2, self_loops=False, dtype=dtype
    )
    w = with_spectrum(eigenvalues)[0].to(device, dtype)
    w = (w + w.T) / 2
    bias = torch.randn(2, len(w), dtype=torch.float64, generator=generator(1)).to(device, dtype)
    result = solve_equilibrium(operator, w, bias, 1, gamma, solver="wide", tol=tol)
    error = (result.value.double() - closed_form(operator, w, bias, 1, gamma)).norm()
    assert error <= result.error_bound
    return result


@pytest.mark.parametrize("others", [0.2, 0.4])
def test_inaccurate_outliers_are_allowed_for(others, device):
    """The outliers leak into the other directions, and amplify by 1 / (1 - gamma)."""
    signs = torch.ones(CHANNELS, dtype=torch.float64)
    signs[1::2] = -1
    values = others * signs
    values[:2] = torch.tensor([0.999, 0.9999])
    assert solved_on_a_pair(values, 0.9999, 1e-10, torch.float64, device).converged


def test_rounding_along_the_outliers_does_not_grow(device):
    """All other eigenvalues are negative, so the interval of the expansion ends at zero."""
    values = torch.full((CHANNELS,), -0.8, dtype=torch.float64)
    values[:20] = torch.linspace(0.9995, 0.9999, 20)
    assert solved_on_a_pair(values, 0.999, 1e-6, torch.float32, device).converged


def test_few_products_suffice_once_outliers_are_separated(device):
    operator = propagation("sym", 20).to(device)
    bias = torch.randn(20, CHANNELS, dtype=torch.float64, device=device)
    w = with_spectrum(trained(CHANNELS))[0].to(device)
    steps = {
        solver: solve_equilibrium(operator, w, bias, 1, 0.95, solver=solver).iterations
        for solver in ("wide", "cg")
    }
    assert steps["wide"] <= 3 < steps["cg"]


def test_too_few_iterations_are_reported(device):
    operator = propagation("sym", 20).to(device)
    bias = torch.randn(20, CHANNELS, dtype=torch.float64, device=device)
    w = with_spectrum(SPECTRA["of both signs"])[0].to(device)
    with pytest.raises(ConvergenceError, match=r"'wide' .* 4 iterations .* max_iter at None"):
        solve_equilibrium(operator, w, bias, 1, 0.95, solver="wide", max_iter=4)


def test_gradients_are_those_of_the_closed_form(device):
    operator = propagation("sym", 10).to(device)
    w = with_spectrum(trained(80))[0].to(device).requires_grad_()
    bias = torch.randn(10, 80, dtype=torch.float64, device=device, requires_grad=True)
    eye = torch.eye(800, dtype=torch.float64, device=device)
    system = eye - 0.9 * torch.kron(operator.to_dense() @ operator.to_dense(), w.T.contiguous())
    want = torch.linalg.solve(system, bias.flatten()).view(10, 80)
    ours = solve_equilibrium(operator, w, bias, 2, 0.9, solver="wide", tol=1e-12).value
    torch.testing.assert_close(ours, want, rtol=1e-9, atol=1e-10)
    for got, known in zip(
        torch.autograd.grad(ours[3].pow(3).sum(), [w, bias]),
        torch.autograd.grad(want[3].pow(3).sum(), [w, bias]),
        strict=True,
    ):
        torch.testing.assert_close(got, known, rtol=1e-8, atol=1e-9)
