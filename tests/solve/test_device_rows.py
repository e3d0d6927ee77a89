"""Expansions in the weight by products on the device, row by row, against exact solves."""

import pytest
import torch

from kernels.reference import no_kernels, use_kernels
from mgnni import MultiscaleEquilibrium, Propagation, Status
from mgnni.implicit.linear import deferred
from mgnni.solve.device_rows import DeviceRows
from mgnni.solve.equation import Equations
from mgnni.solve.prepare import prepare
from mgnni.solve.result import Options
from mgnni.solve.weights import Weights
from problems import propagation, weight
from solve.device_cases import assert_agree

H, SCALES = 130, (1, 2, 3)


@pytest.fixture(autouse=True)
def kernels(device, monkeypatch):
    use_kernels(device, monkeypatch)


@pytest.fixture
def operator(device) -> Propagation:
    """With two isolated nodes, whose rows are empty."""
    return propagation("sym", self_loops=False, dtype=torch.float32).to(device)


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("size", [1.0, 1e-20, 1e15])
def test_states_are_those_of_exact_solves(operator, shared, size):
    kinds = ("gram", "rank-one", "identity")
    ws = torch.stack([weight(kind, H, seed) for seed, kind in enumerate(kinds)])
    ws = ws.float().to(operator.device)
    bias = torch.randn(1 if shared else 3, operator.num_nodes, H).to(operator.device) * size
    bias = bias.expand(3, -1, -1)
    plan = prepare(Equations(operator, SCALES, 0.8, Weights(ws, psd_norm=1.0)), Options())
    assert isinstance(plan, DeviceRows)
    assert plan.adjoint() is plan
    found = plan.solve(bias)
    assert found.records.exhausted is None, "the fallback has solved the equations"
    p = operator.to_dense().double().cpu()
    s, v = torch.linalg.eigh(p)
    eye = torch.eye(H, dtype=torch.float64)
    for i, one in enumerate(found.records.stats):
        w, b = ws[i].double().cpu(), bias[i].double().cpu()
        rows = [
            torch.linalg.solve(eye - 0.8 * float(mu) ** SCALES[i] * w.T, c)
            for mu, c in zip(s, v.T @ b, strict=True)
        ]
        wanted = v @ torch.stack(rows)
        gap = float((found.z[i].cpu() - wanted).norm())
        assert gap <= 1e-5 * float(wanted.norm())
        power = torch.linalg.matrix_power(p, SCALES[i])
        assert (found.hop[i].cpu() - power @ wanted).norm() <= 1e-5 * wanted.norm()
        assert one.status is Status.CONVERGED
        assert (one.solver, one.scale) == ("wide", SCALES[i])
        assert gap <= one.error_bound
        assert one.iterations > 3


def test_graphs_with_more_nodes_than_channels_are_solved_by_a_sweep(device):
    larger = propagation("sym", num_nodes=H + 1, dtype=torch.float32).to(device)
    weights = Weights(weight("gram", H)[None].float().to(device), psd_norm=1.0)
    assert not isinstance(prepare(Equations(larger, (1,), 0.8, weights), Options()), DeviceRows)


@pytest.mark.parametrize("channels", [H, 1703])
def test_states_and_gradients_of_a_layer_are_those_without_kernels(
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
    assert [one.solver for one in made.log.deferred] == ["wide", "wide"]
    no_kernels(monkeypatch)
    z = made(bias, operator)
    wanted = [z, *torch.autograd.grad(z, [bias, made.factor], cotangent)]
    assert not made.log.deferred
    assert_agree(found, wanted)
