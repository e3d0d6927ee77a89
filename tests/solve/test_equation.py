"""A stack of equations: contraction constants, hops, and the adjoint equations."""

import pytest
import torch

from mgnni import NotContractiveError, Propagation, solve_equilibrium
from mgnni.solve.equation import AT_ONCE, PANEL, Equations, one_if_shared
from mgnni.solve.weights import Weights
from problems import directed_ring, propagation, weight


def stack(device, normalization="out", gamma=0.9, scales=(1, 2, 4), channels=3):
    operator = propagation(normalization, self_loops=normalization != "none").to(device)
    weights = torch.stack([weight("general", channels, seed) for seed in range(len(scales))])
    return Equations(operator, scales, gamma, Weights(weights.to(device)))


def assert_hops(equations, z, hopped):
    for i, scale in enumerate(equations.scales):
        expected = torch.linalg.matrix_power(equations.operator.to_dense(), scale) @ z[i]
        torch.testing.assert_close(hopped[i], expected)


@pytest.mark.parametrize("normalization", ["sym", "out", "none"])
def test_contraction_constants_are_those_of_the_definition(normalization, device):
    equations = stack(device, normalization)
    for i, scale in enumerate(equations.scales):
        spectral = torch.linalg.svdvals(equations.weights.tensor[i])[0].item()
        expected = 0.9 * spectral * equations.operator.norm_bound**scale
        assert equations.contractions[i] == pytest.approx(expected, rel=1e-12)


def test_hops_are_powers_of_the_operator(device):
    equations = stack(device)
    z = torch.randn(3, 12, 3, dtype=torch.float64, device=device)
    assert_hops(equations, z, equations.hop(z))


def test_equations_of_equal_scale_have_hops_of_their_own(device):
    equations = stack(device, scales=(2, 1, 2))
    z = torch.randn(3, 12, 3, dtype=torch.float64, device=device)
    assert_hops(equations, z, equations.hop(z))


@pytest.mark.parametrize("layout", ["contiguous", "column by column", "equations side by side"])
def test_hops_do_not_depend_on_the_memory_layout(layout, device):
    channels = 2 * PANEL + 3
    equations = stack(device, channels=channels)
    z = torch.randn(3, 12, channels, dtype=torch.float64, device=device)
    if layout == "column by column":
        z = z.mT.contiguous().mT
    elif layout == "equations side by side":
        z = z.transpose(0, 1).contiguous().transpose(0, 1)
    assert_hops(equations, z, equations.hop(z))


@pytest.mark.parametrize("layout", ["contiguous", "column by column"])
def test_hops_of_a_large_state_are_those_of_a_small_one(layout):
    """A directed ring only moves states, so P^m is known; the state exceeds the CPU caches."""
    nodes, channels = 16_000, 2 * PANEL + 3
    assert nodes * channels > AT_ONCE
    weights = Weights(torch.stack([weight("general", channels, seed) for seed in (0, 1)]))
    equations = Equations(directed_ring(nodes), (1, 3), 0.9, weights)
    z = torch.randn(2, nodes, channels, dtype=torch.float64)
    states = z if layout == "contiguous" else z.mT.contiguous().mT
    hopped = equations.hop(states)
    for i, scale in enumerate(equations.scales):
        assert torch.equal(hopped[i], z[i].roll(scale, 0))


@pytest.mark.parametrize("form", ["general", "random"])
def test_the_adjoint_is_that_of_the_map(form, device):
    """For any two states <M x, y> = <x, M' y>, and the adjoint of the adjoint is the map."""
    operator = propagation("out").to(device)
    w = torch.stack([weight(form, 3, seed) for seed in range(2)]).to(device)
    equations = Equations(operator, (1, 3), 0.9, Weights(w))
    adjoint = equations.adjoint()
    x, y = torch.randn(2, 2, 12, 3, dtype=torch.float64, device=device)
    there = (equations.gamma * equations.hop(x) @ equations.weights.tensor * y).sum((1, 2))
    back = (adjoint.gamma * adjoint.hop(y) @ adjoint.weights.tensor * x).sum((1, 2))
    torch.testing.assert_close(there, back)
    assert adjoint.contractions == pytest.approx(equations.contractions, rel=1e-12)
    again = adjoint.adjoint()
    torch.testing.assert_close(again.weights.tensor, equations.weights.tensor)
    torch.testing.assert_close(again.operator.to_dense(), operator.to_dense())


def test_an_index_selects_one_equation(device):
    equations = stack(device)
    part = equations[1]
    assert (len(part), part.scales) == (1, (2,))
    torch.testing.assert_close(part.weights.tensor[0], equations.weights.tensor[1])
    assert part.contractions == pytest.approx(equations.contractions[1:2], rel=1e-12)


def test_one_expanding_equation_refuses_the_stack(device):
    equations = stack(device)
    equations.require_contraction()
    weights = equations.weights.tensor.clone()
    weights[1] *= 1.2
    expanding = Equations(equations.operator, (1, 2, 4), 0.9, Weights(weights))
    with pytest.raises(NotContractiveError, match=r"got 1\.08 = 0\.9 \* 1\.2 \* 1\^2; "):
        expanding.require_contraction()


@pytest.mark.parametrize("solver", ["auto", "picard", "series", "dense"])
def test_a_constant_that_overflows_is_refused(solver, device):
    """||P||^scale exceeds the largest float64, so it is no proof of anything."""
    edge_index = torch.tensor([[0, 1], [1, 0]], device=device)
    given = torch.full((2,), 1e300, dtype=torch.float64, device=device)
    operator = Propagation.from_edge_index(edge_index, 2, given, "none", False)
    one = torch.ones(1, 1, dtype=torch.float64, device=device)
    bias = torch.ones(2, 1, dtype=torch.float64, device=device)
    with pytest.raises(NotContractiveError, match="got inf"):
        solve_equilibrium(operator, one, bias, 3, 0.5, solver=solver)


def test_an_expanded_bias_is_recognised_as_shared(device):
    bias = torch.randn(3, 12, 2, device=device)
    assert one_if_shared(bias) is bias
    shared = one_if_shared(bias[:1].expand(3, -1, -1))
    assert torch.equal(shared, bias[:1])


def test_float64_equations_hold_the_same_numbers(device):
    equations = stack(device)
    single = Equations(
        equations.operator.to(torch.float32),
        equations.scales,
        0.9,
        Weights(equations.weights.tensor.float()),
    )
    double = single.double()
    assert double.weights.tensor.dtype is double.operator.dtype is torch.float64
    exact = {"rtol": 0, "atol": 0}
    torch.testing.assert_close(double.weights.tensor, single.weights.tensor.double(), **exact)
    dense = single.operator.to_dense().double()
    torch.testing.assert_close(double.operator.to_dense(), dense, **exact)
    assert (double.scales, double.gamma) == (single.scales, single.gamma)
