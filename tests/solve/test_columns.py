"""Solves in panels of columns: the same states, certified, with less memory."""

import pytest
import torch

from mgnni import Propagation
from mgnni.implicit.linear import equilibria
from mgnni.solve.result import Options
from problems import generator

NODES, CHANNELS, SCALES, GAMMA = 60, 12, (1, 3), 0.9


def problem(directed, dtype, device):
    """An operator, one weight per scale of norm one, and a bias whose rows differ in size."""
    source, target = torch.randint(NODES, (2, 200), generator=generator(0))
    edges = [torch.stack([source, target])]
    edges += [] if directed else [torch.stack([target, source])]
    operator = Propagation.from_edge_index(torch.cat(edges, 1).to(device), NODES, dtype=dtype)
    assert operator.symmetric != directed
    factor = torch.randn(2, CHANNELS, CHANNELS, dtype=torch.float64, generator=generator(1))
    factor[:, 0] *= 9  # one eigenvalue near one
    weight = factor.mT @ factor
    weight /= torch.linalg.matrix_norm(weight, keepdim=True)
    bias = torch.randn(NODES, CHANNELS, dtype=torch.float64, generator=generator(2))
    bias *= torch.logspace(-3, 3, NODES, dtype=torch.float64).unsqueeze(1)
    return operator, weight.to(device, dtype), bias.to(device, dtype)


def dense(operator, weight, bias, scale):
    """The solution by one dense system in float64."""
    hop = torch.linalg.matrix_power(operator.to_dense().double(), scale)
    system = torch.eye(NODES * CHANNELS, dtype=torch.float64, device=bias.device)
    system -= GAMMA * torch.kron(hop, weight.double().mT.contiguous())
    return torch.linalg.solve(system, bias.double().flatten()).view_as(bias)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(
    ("memory", "dtype", "tol"),
    [
        ("low", torch.float64, 1e-11),
        ("low", torch.float32, 1e-6),
        ("half", torch.float32, 1e-3),
        ("half", torch.float32, 1e-6),
    ],
)
def test_the_error_is_within_the_certified_bound(memory, dtype, tol, directed, device):
    operator, weight, bias = problem(directed, dtype, device)
    z, log = equilibria(
        operator, weight, bias, SCALES, GAMMA, options=Options("auto", tol, memory=memory)
    )
    for index, stats in enumerate(log.forward):
        exact = dense(operator, weight[index], bias, SCALES[index])
        error = (z[index].double() - exact).norm().item()
        assert stats.converged
        assert stats.relative_residual <= tol
        assert error <= stats.error_bound <= 1e3 * tol * exact.norm().item() + 10 * error


def test_sweeps_with_float16_vectors_leave_more_than_one_sweep_can_remove(device):
    # So that the test above shows corrections, and not the precision of a single sweep.
    operator, weight, bias = problem(False, torch.float32, device)
    coarse, fine = (
        equilibria(
            operator, weight[:1], bias, (1,), GAMMA, options=Options(tol=tol, memory="half")
        )[1]
        for tol in (1e-2, 1e-6)
    )
    assert coarse.forward[0].relative_residual > 1e-6
    assert fine.forward[0].iterations > coarse.forward[0].iterations


@pytest.mark.parametrize("memory", ["low", "half"])
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e12])
def test_the_size_of_the_bias_does_not_matter(memory, size, device):
    operator, weight, bias = problem(True, torch.float32, device)
    (z, log), (scaled, other) = (
        equilibria(operator, weight, b, SCALES, GAMMA, options=Options(memory=memory))
        for b in (bias, size * bias)
    )
    torch.testing.assert_close(scaled.double() / size, z.double(), rtol=1e-4, atol=1e-4)
    assert all(one.converged for one in (*log.forward, *other.forward))
    assert other.forward[0].error_bound == pytest.approx(size * log.forward[0].error_bound, rel=0.5)


def test_numbers_past_the_range_of_float16_are_solved_in_float32(device):
    # Without normalisation, the state of a hub exceeds those of its neighbours by a large factor.
    hub, nodes = 40_000, 40_001
    source = torch.arange(1, nodes)
    edges = torch.stack([source, torch.zeros_like(source)])
    ones = torch.ones(hub, device=device)
    operator = Propagation.from_edge_index(
        edges.to(device), nodes, 8 * ones, "none", self_loops=False, norm_bound=1.0
    )
    weight = torch.eye(1, device=device).expand(1, 1, 1).contiguous()
    bias = torch.ones(nodes, 1, device=device)
    z, log = equilibria(operator, weight, bias, (1,), 0.5, options=Options(memory="half"))
    assert z[0, 0].item() == pytest.approx(1 + 0.5 * 8 * hub, rel=1e-6)
    assert log.forward[0].converged


def test_non_finite_input_is_reported(device):
    operator, weight, bias = problem(False, torch.float32, device)
    bias[3, 4] = torch.nan
    with pytest.raises(ValueError, match="must be finite"):
        equilibria(operator, weight, bias, SCALES, GAMMA, options=Options(memory="low"))


@pytest.mark.parametrize("memory", ["low", "half"])
def test_gradients_equal_those_of_fast_memory(memory, device):
    operator, weight, bias = problem(True, torch.float64, device)

    def grads(memory):
        w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
        z, _ = equilibria(
            operator, w, b, SCALES, GAMMA, options=Options("auto", 1e-12, memory=memory)
        )
        return torch.autograd.grad((z[:, ::3] ** 3).sum(), [w, b])

    for one, other in zip(grads(memory), grads("fast"), strict=True):
        assert (one - other).norm() <= 1e-9 * other.norm()
