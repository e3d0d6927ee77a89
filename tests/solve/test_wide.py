"""Wide weights on small graphs, against the closed form from all eigenpairs."""

import pytest
import torch
from solve.test_outliers import trained, with_spectrum
from torch_geometric.utils import to_undirected

from mgnni import ConvergenceError, Propagation, Status, solve_equilibria, solve_equilibrium
from problems import chain, generator, lopsided_edges, propagation

CHANNELS = 150
SPECTRA = {
    "trained": trained(CHANNELS),
    "slow": torch.cat([torch.tensor([0.999]), torch.zeros(CHANNELS - 1)]).double(),
    "many": torch.linspace(0, 0.12, CHANNELS, dtype=torch.float64),
    "of both signs": torch.linspace(-0.9, 0.9, CHANNELS, dtype=torch.float64),
    "all alike": torch.full((CHANNELS,), 0.5, dtype=torch.float64),
    "nothing": torch.zeros(CHANNELS, dtype=torch.float64),
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


def test_negative_eigenvalues_of_the_operator(device):
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
    order = torch.randperm(first, generator=generator(0))  # graphs need not stand together
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


@pytest.mark.parametrize("shared", [True, False])
def test_equations_together_are_those_alone(shared, device):
    operator = propagation("sym", 15).to(device)
    w = torch.stack([with_spectrum(trained(CHANNELS), seed)[0] for seed in (0, 1)]).to(device)
    bias = torch.randn(2, 15, CHANNELS, dtype=torch.float64, device=device)
    bias = bias[0] if shared else bias
    if not shared:
        alone = [
            solve_equilibrium(operator, w[i], bias[i], i + 1, 0.9, solver="wide", tol=1e-12).value
            for i in (0, 1)
        ]
        expected = [closed_form(operator, w[i], bias[i], i + 1, 0.9) for i in (0, 1)]
        torch.testing.assert_close(torch.stack(alone), torch.stack(expected))
        return
    results = solve_equilibria(operator, w, bias, (1, 2), 0.9, solver="wide", tol=1e-12)
    for index, result in enumerate(results):
        expected = closed_form(operator, w[index], bias, index + 1, 0.9)
        assert relative(result.value, expected) <= 1e-10


def test_few_products_are_enough_once_outliers_are_set_apart(device):
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
    with pytest.raises(ConvergenceError, match=r"'wide' .* 4 iterations .* raise max_iter"):
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


@pytest.mark.parametrize(("nodes", "expected"), [(513, "wide"), (514, "cg")])
def test_auto_takes_it_for_graphs_smaller_than_the_weight(nodes, expected, device):
    operator = Propagation.from_edge_index(chain(nodes).to(device), nodes)
    w = torch.diag(torch.linspace(0, 0.05, 513, device=device))
    bias = torch.randn(nodes, 513, device=device)
    result = solve_equilibrium(operator, w, bias, 1, 0.9)
    assert result.solver == expected
    # W is diagonal, so every column is an equation of its own.
    hop = operator.to_dense().double() @ result.value.double()
    residual = 0.9 * hop * w.diag().double() + bias.double() - result.value.double()
    assert residual.norm() <= 2e-6 * bias.norm()
