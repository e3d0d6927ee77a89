"""Wide weights without a look at a number: the same answers, the same certificates."""

import pytest
import torch
from mgnni.solve.planned import solve_planned
from mgnni.solve.planned_wide import expansion, solve_planned_wide
from mgnni.solve.solve import Options, plan_for, solve

from kernels.reference import no_kernels, use_kernels
from mgnni import Propagation
from mgnni.implicit.linear import deferred
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.solve.certify import measure
from mgnni.solve.equation import Equations
from mgnni.solve.result import Status
from mgnni.solve.weights import Weights
from problems import propagation, weight

H, SCALES = 130, (1, 2, 3)


@pytest.fixture(autouse=True)
def kernels(device, monkeypatch):
    use_kernels(device, monkeypatch)


@pytest.fixture
def operator(device) -> Propagation:
    """With two isolated nodes, whose rows are empty."""
    return propagation("sym", self_loops=False, dtype=torch.float32).to(device)


def equations(operator: Propagation, shared: bool = True, size: float = 1.0) -> Equations:
    kinds = ("gram", "rank-one", "identity")
    ws = torch.stack([weight(kind, H, seed) for seed, kind in enumerate(kinds)])
    bias = torch.randn(1 if shared else 3, operator.num_nodes, H).to(operator.device) * size
    ws = ws.float().to(operator.device)
    return Equations(operator, SCALES, 0.8, Weights(ws, normed=True), bias.expand(3, -1, -1))


@pytest.mark.parametrize("tol", [1e-3, 1e-6, 1e-12])
def test_the_expansion_is_the_function(tol):
    mu = torch.tensor([[-0.99, -0.8, -1e-3, -1e-300], [0.0, 1e-9, 0.5, 0.99]], dtype=torch.float64)
    table, degree = expansion(mu, tol)
    assert degree.shape == mu.shape
    x = torch.linspace(0, 1, 501, dtype=torch.float64)
    k = torch.arange(table.size(0), dtype=torch.float64)
    basis = torch.cos(k.unsqueeze(1) * (2 * x - 1).clamp(-1, 1).acos())
    for place in range(mu.numel()):
        m, d = float(mu.flatten()[place]), int(degree.flatten()[place])
        coefficient = table.flatten(1)[:, place]
        residual = 1 - (1 - m * x) * (coefficient @ basis)
        assert float(residual.abs().max()) <= tol * (1 + 1e-6) + 1e-14
        assert not coefficient[d + 1 :].any()
        if d:  # many fewer terms would not do
            fewer = coefficient * (k < 0.6 * d)
            assert float((1 - (1 - m * x) * (fewer @ basis)).abs().max()) > tol
    assert int(degree[1, 0]) == 0
    assert int(degree[1, 3]) == int(degree.max())


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "own bias"])
@pytest.mark.parametrize("size", [1.0, 1e-20, 1e15])
def test_states_are_those_of_exact_solves(operator, shared, size):
    problem = equations(operator, shared, size)
    p = operator.to_dense().double().cpu()
    s, v = torch.linalg.eigh(p)
    z, hop, pending = solve_planned_wide(problem, 1e-6)
    for i, one in enumerate(pending.records()):
        w, b = problem.weights.tensor[i].double().cpu(), problem.bias[i].double().cpu()
        eye = torch.eye(H, dtype=torch.float64)
        rows = [
            torch.linalg.solve(eye - 0.8 * float(mu) ** SCALES[i] * w.T, c)
            for mu, c in zip(s, v.T @ b, strict=True)
        ]
        wanted = v @ torch.stack(rows)
        gap = float((z[i].cpu() - wanted).norm())
        assert gap <= 1e-5 * float(wanted.norm())
        power = torch.linalg.matrix_power(p, SCALES[i])
        assert (hop[i].cpu() - power @ wanted).norm() <= 1e-5 * wanted.norm()
        assert one.status is Status.CONVERGED
        assert (one.solver, one.scale) == ("wide", SCALES[i])
        assert gap <= one.error_bound
        assert one.iterations > 3


def test_certificates_are_those_of_the_plain_way(operator):
    problem = equations(operator)
    z, _, pending = solve_planned_wide(problem, 1e-2)  # so coarse that rounding does not matter
    wanted = measure(problem, z)
    residual, reference, bound, contraction, _ = pending.numbers.cpu()
    torch.testing.assert_close(residual, wanted.residual_norm, rtol=1e-3, atol=0)
    torch.testing.assert_close(reference, wanted.reference, rtol=1e-6, atol=0)
    # The plain way knows the spectral norm of the weights; here it is one at most.
    proven = torch.tensor(problem.contractions, dtype=torch.float64).unsqueeze(1)
    assert (contraction >= proven).all()
    assert (bound >= wanted.error_bound * (1 - 1e-3)).all()
    again = wanted.error_bound * (1 - proven) / (1 - contraction)
    torch.testing.assert_close(bound, again, rtol=1e-3, atol=0)


@pytest.mark.parametrize("where", ["weight", "bias"])
def test_what_is_not_finite_is_told(operator, where):
    problem = equations(operator, shared=False)
    broken = problem.weights.tensor if where == "weight" else problem.bias
    broken[1, 2, 1] = float("nan")
    records = solve_planned_wide(problem, 1e-6)[2].records()
    wanted = [Status.CONVERGED, Status.NOT_FINITE, Status.CONVERGED]
    assert [one.status for one in records] == wanted


def test_which_equations_are_planned(operator, device):
    problem = equations(operator)
    assert plan_for(problem, "auto") is plan_for(problem, "wide") is solve_planned_wide
    assert plan_for(problem, "chebyshev") is solve_planned
    directed = propagation("dir", dtype=torch.float32).to(device)
    assert plan_for(equations(directed), "auto") is solve_planned
    larger = propagation("sym", num_nodes=H + 1, dtype=torch.float32).to(device)
    assert plan_for(equations(larger), "auto") is solve_planned
    assert all(one.converged for one in solve(problem, Options()).stats)


@pytest.mark.parametrize("channels", [H, 1703])
def test_states_and_gradients_of_a_layer_are_those_of_the_plain_way(
    operator, channels, device, monkeypatch
):
    if channels > H and device.type == "cpu":
        pytest.skip("takes seconds on a CPU; set MGNNI_TEST_DEVICE=cuda")
    made = MultiscaleEquilibrium(channels, (1, 2), tol=2e-7).to(device)
    bias = torch.randn(12, channels).to(device).requires_grad_()
    cotangent = torch.randn(2, 12, channels).to(device)
    with deferred():
        z = made(bias, operator)
        found = [z, *torch.autograd.grad(z, [bias, made.factor], cotangent)]
    assert [one.solver for one in made.log.pending] == ["wide", "wide"]
    no_kernels(monkeypatch)
    z = made(bias, operator)
    wanted = [z, *torch.autograd.grad(z, [bias, made.factor], cotangent)]
    assert not made.log.pending
    for ours, theirs, close in zip(found, wanted, (1e-5, 1e-4, 1e-4), strict=True):
        assert (ours - theirs).norm() <= close * theirs.norm()
