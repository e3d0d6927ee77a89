"""A stack of equations: constants, hops, and its adjoint."""

import pytest
import torch

from mgnni import NotContractiveError
from mgnni.solve.equation import PANEL, Equations
from mgnni.solve.weights import Weights
from problems import propagation, weight, widths_of_products


def stack(device, normalization="out", gamma=0.9, scales=(1, 2, 4), channels=3):
    operator = propagation(normalization, self_loops=normalization != "none").to(device)
    weights = torch.stack([weight("general", channels, seed) for seed in range(len(scales))])
    bias = torch.randn(len(scales), 12, channels, dtype=torch.float64, device=device)
    return Equations(operator, scales, gamma, Weights(weights.to(device)), bias)


@pytest.mark.parametrize("normalization", ["sym", "out", "none"])
def test_constants_are_those_of_the_definition(normalization, device):
    equations = stack(device, normalization)
    for i, scale in enumerate(equations.scales):
        spectral = torch.linalg.svdvals(equations.weights.tensor[i])[0].item()
        expected = 0.9 * spectral * equations.operator.norm_bound**scale
        assert equations.contractions[i] == pytest.approx(expected, rel=1e-12)


def test_hops_are_powers_of_the_operator(device):
    equations = stack(device)
    z = torch.randn(3, 12, 3, dtype=torch.float64, device=device)
    hopped = equations.hop(z)
    for i, scale in enumerate(equations.scales):
        expected = torch.linalg.matrix_power(equations.operator.to_dense(), scale) @ z[i]
        torch.testing.assert_close(hopped[i], expected)


@pytest.mark.parametrize("at_once", [0, 2**20], ids=["in panels", "at once"])
def test_hops_of_many_columns_on_a_cpu(at_once, monkeypatch):
    monkeypatch.setattr("mgnni.solve.equation.AT_ONCE", at_once)
    widths = widths_of_products(monkeypatch)
    channels = 2 * PANEL + 3
    equations = stack(torch.device("cpu"), channels=channels)
    z = torch.randn(3, 12, channels, dtype=torch.float64)
    for states in (z, z.mT.contiguous().mT):  # without gaps, and column by column
        hopped = equations.hop(states)
        for i, scale in enumerate(equations.scales):
            expected = torch.linalg.matrix_power(equations.operator.to_dense(), scale) @ z[i]
            torch.testing.assert_close(hopped[i], expected)
    assert set(widths) == ({channels} if at_once else {PANEL, channels - 2 * PANEL})


def test_hops_of_states_that_lie_side_by_side(device):
    channels = 2 * PANEL + 3
    equations = stack(device, channels=channels)
    z = torch.randn(12, 3, channels, dtype=torch.float64, device=device).transpose(0, 1)
    hopped = equations.hop(z)
    for i, scale in enumerate(equations.scales):
        expected = torch.linalg.matrix_power(equations.operator.to_dense(), scale) @ z[i]
        torch.testing.assert_close(hopped[i], expected)


@pytest.mark.parametrize("form", ["general", "random"])
def test_the_adjoint_is_that_of_the_map(form, device):
    """Against any two states: <M x, y> = <x, M' y>, and twice adjoint is the map itself."""
    operator = propagation("out").to(device)
    w = torch.stack([weight(form, 3, seed) for seed in range(2)]).to(device)
    bias = torch.zeros(2, 12, 3, dtype=torch.float64, device=device)
    equations = Equations(operator, (1, 3), 0.9, Weights(w), bias)
    turned = equations.adjoint(bias)
    x, y = torch.randn(2, 2, 12, 3, dtype=torch.float64, device=device)
    there = (equations.gamma * equations.hop(x) @ equations.weights.tensor * y).sum((1, 2))
    back = (turned.gamma * turned.hop(y) @ turned.weights.tensor * x).sum((1, 2))
    torch.testing.assert_close(there, back)
    assert turned.contractions == pytest.approx(equations.contractions, rel=1e-12)
    again = turned.adjoint(bias)
    torch.testing.assert_close(again.weights.tensor, equations.weights.tensor)
    torch.testing.assert_close(again.operator.to_dense(), operator.to_dense())


def test_one_equation_of_many(device):
    equations = stack(device)
    part = equations[1]
    assert (len(part), part.scales) == (1, (2,))
    torch.testing.assert_close(part.weights.tensor[0], equations.weights.tensor[1])
    torch.testing.assert_close(part.bias[0], equations.bias[1])
    assert part.contractions == pytest.approx(equations.contractions[1:2], rel=1e-12)


def test_a_stack_is_refused_for_one_that_expands(device):
    equations = stack(device)
    equations.require_contraction()
    weights = equations.weights.tensor.clone()
    weights[1] *= 1.2
    expanding = Equations(equations.operator, (1, 2, 4), 0.9, Weights(weights), equations.bias)
    with pytest.raises(NotContractiveError, match=r"got 1\.08 = 0\.9 \* 1\.2 \* 1\^2; "):
        expanding.require_contraction()


def test_a_shared_bias_is_seen(device):
    equations = stack(device)
    assert not equations.shared_bias
    assert equations.with_bias(equations.bias[:1].expand(3, -1, -1)).shared_bias
    assert equations[0].shared_bias


def test_in_double_nothing_else_changes(device):
    equations = stack(device)
    assert equations.double() is equations
    single = Equations(
        equations.operator.to(torch.float32),
        equations.scales,
        0.9,
        Weights(equations.weights.tensor.float()),
        equations.bias.float(),
    )
    wide = single.double()
    assert wide.bias.dtype is wide.weights.tensor.dtype is torch.float64
    torch.testing.assert_close(wide.bias, single.bias.double(), rtol=0, atol=0)
    torch.testing.assert_close(wide.weights.tensor, single.weights.tensor.double(), rtol=0, atol=0)
    torch.testing.assert_close(
        wide.operator.to_dense(), single.operator.to_dense().double(), rtol=0, atol=0
    )
