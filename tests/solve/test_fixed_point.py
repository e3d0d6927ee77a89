"""Fixed points of any map: norms of states, the error bound, and when a graph stops."""

from types import SimpleNamespace

import pytest
import torch

from mgnni import ConvergenceWarning, SolveLog, implicit_fixed_point
from mgnni.solve.fixed_point import FixedPoint, StateNorm
from problems import generator, weight

KINDS = ("frobenius", "max", "sum")
BATCH = (0, 2, 0, 2, 2)


def normal(*shape, device, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(seed)).to(device)


def by_definition(norm, x):
    """The norm of one graph, one channel at a time."""
    weight = torch.ones(len(x)) if norm.weight is None else norm.weight
    columns = []
    for column in x.T:
        pairs = [(abs(z), w) for z, w in zip(column.tolist(), weight.tolist(), strict=True)]
        columns.append(
            {
                "frobenius": sum(z * z for z, _ in pairs) ** 0.5,
                "max": max(z / w for z, w in pairs),
                "sum": sum(z * w for z, w in pairs),
            }[norm.kind]
        )
    squares = sum(c * c for c in columns) ** 0.5
    return {"frobenius": squares, "max": max(columns), "sum": sum(columns)}[norm.channels]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("channels", KINDS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_norm_its_dual_and_its_factor(kind, channels, weighted, device):
    weight = 0.1 + torch.rand(5, dtype=torch.float64, generator=generator(1)).to(device)
    norm = StateNorm(kind, weight if weighted else None, channels)
    graphs = SimpleNamespace(batch=torch.tensor(BATCH, device=device), num_graphs=3)
    x, y = (normal(5, 3, device=device, seed=seed) for seed in (2, 3))
    found, dual, factor = norm(graphs, x), norm.dual()(graphs, y), norm.to_frobenius(graphs, x)
    assert found[1] == 0  # a graph without nodes
    assert vars(norm.dual().dual()) == vars(norm)
    for graph in (0, 2):
        rows = graphs.batch == graph
        own = weight[rows] if weighted else None
        alone = StateNorm(kind, own, channels)
        assert found[graph].item() == pytest.approx(by_definition(alone, x[rows]))
        assert dual[graph].item() == pytest.approx(by_definition(alone.dual(), y[rows]))
        # Hoelder's inequality.
        pairing = (x[rows] * y[rows]).sum().abs()
        assert pairing <= found[graph] * dual[graph]
        assert x[rows].square().sum().sqrt() <= factor[graph] * found[graph] * (1 + 1e-12)
        single = SimpleNamespace(batch=None, num_graphs=1)
        assert alone(single, x[rows]).item() == pytest.approx(found[graph].item())


def test_a_graph_that_stopped_stays_converged_if_its_map_rounds_differently(device):
    """As sums on a device do; its residual is measured again while another graph iterates."""
    rate = torch.tensor([[0.5 ** (1 / 3)]] * 5 + [[0.95]], dtype=torch.float64, device=device)
    batch, noise = torch.tensor([0] * 5 + [1], device=device), generator(5)
    for seed in range(40):
        bias = normal(6, 2, device=device, seed=seed)

        def image(z, bias=bias):
            error = 2e-8 * torch.randn(z.shape, dtype=z.dtype, generator=noise).to(z.device)
            return (rate * z + bias) * (1 + error)

        problem = FixedPoint(StateNorm(), None, "picard", 1e-6, None, batch, 2)
        _, records = problem.solve(image, torch.zeros_like(bias))
        (stats,) = records.stats
        assert stats.graph_iterations[0] < stats.graph_iterations[1]
        assert stats.converged, stats.failure()


@pytest.mark.parametrize("solver", ["picard", "anderson"])
@pytest.mark.parametrize("norm", ["frobenius", "max"])
def test_the_bound_covers_the_rounding_of_the_map(norm, solver, device):
    """Iterated until nothing moves any more, the residual is zero and the error is not."""
    rate, largest = torch.tensor(0.9, device=device), 0.0
    for start in (0.0, 20.0):  # from below and from above
        bias = torch.linspace(0.1, 1, 50, device=device).unsqueeze(1)
        found = implicit_fixed_point(
            lambda z, bias: rate * z + bias,
            torch.full_like(bias, start),
            (bias,),
            contraction=0.9,
            norm=norm,
            solver=solver,
            tol=1e-9,
        )
        exact = bias.double() / (1 - rate.double())
        error = (found.value.double() - exact).norm().item()
        assert found.residual == 0
        assert error <= found.error_bound
        largest = max(largest, error)
    assert largest > 0


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_the_bound_of_the_adjoint_equation_is_in_the_units_of_the_gradient(size, device):
    matrix, log = 0.9 * weight("general", 3).to(device), SolveLog()
    bias = normal(6, 3, device=device).requires_grad_()
    found = implicit_fixed_point(
        lambda z, b: z @ matrix + b,
        torch.zeros_like(bias),
        (bias,),
        contraction=0.9,
        solver="picard",
        tol=1e-3,
        log=log,
    )
    cotangent = size * normal(6, 3, device=device, seed=1)
    (gradient,) = torch.autograd.grad(found.value, bias, cotangent)
    eye = torch.eye(3, dtype=torch.float64, device=device)
    exact = torch.linalg.solve(eye - matrix, cotangent.T).T
    error = (gradient - exact).norm().item()
    (record,) = log.backward
    assert 0 < error <= record.error_bound <= 1e3 * error
    assert record.residual <= 1e-3 * 1.01 * max(exact.norm(), cotangent.norm()).item()


def test_one_graph_that_is_not_solved_fails_for_the_batch(device):
    rate = torch.tensor([[0.1], [0.999]], dtype=torch.float64, device=device)
    with pytest.warns(ConvergenceWarning, match="budget"):
        found = implicit_fixed_point(
            lambda z: rate * z + 1,
            torch.zeros_like(rate),
            contraction=0.999,
            solver="picard",
            max_iter=20,
            on_failure="warn",
            batch=torch.tensor([0, 1], device=device),
            num_graphs=2,
        )
    assert not found.converged
    assert found.graph_relative_residual[0] <= 1e-6 < found.graph_relative_residual[1]
    assert found.relative_residual == found.graph_relative_residual[1].item()
    assert found.error_bound == found.graph_error_bound.max().item()
    assert found.iterations == 20


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.9, 0.99])
def test_the_default_budget_suffices_for_the_slowest_map(rate, device):
    bias = torch.ones(3, 2, dtype=torch.float64, device=device)
    found = implicit_fixed_point(
        lambda z: rate * z + bias, 1e3 * bias, contraction=rate, solver="picard", tol=1e-9
    )
    assert found.converged
    torch.testing.assert_close(found.value, bias / (1 - rate), rtol=1e-6, atol=0)
