"""Residuals and error bounds, measured again by dense products, per graph and in every norm."""

import pytest
import torch

from mgnni import Propagation
from mgnni.solve.certify import measure
from mgnni.solve.equation import Equations
from mgnni.solve.weights import Weights
from problems import generator, propagation, state_norm, weight


def point(operator: Propagation, scales=(1, 3), gamma: float = 0.9, channels: int = 3):
    """A stack of equations and an arbitrary point, far from the solution."""
    g = generator(2)
    n, count, device = operator.num_nodes, len(scales), operator.device
    stack = torch.stack([weight("general", channels, seed) for seed in range(count)])
    bias, z = torch.randn(2, count, n, channels, dtype=torch.float64, generator=g)
    stack, bias, z = (t.to(device, operator.dtype) for t in (stack, bias, z))
    return Equations(operator, scales, gamma, Weights(stack)), bias, z


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row", "none"])
def test_residual_and_bound_are_those_of_the_point(normalization, flow, device):
    loops = normalization != "none"
    operator = propagation(normalization, self_loops=loops, flow=flow).to(device)
    equations, bias, z = point(operator)
    found = measure(equations, bias, z)
    for i, scale in enumerate(equations.scales):
        w, b = equations.weights.tensor[i], bias[i]
        hop = torch.linalg.matrix_power(operator.to_dense(), scale) @ z[i]
        residual = 0.9 * hop @ w + b - z[i]
        torch.testing.assert_close(found.hop[i], hop)
        torch.testing.assert_close(found.residual[i], residual)
        assert found.residual_norm[i].item() == pytest.approx(residual.norm().item())
        larger = max(z[i].norm().item(), b.norm().item())
        assert found.reference[i].item() == pytest.approx(larger)
        assert found.relative[i].item() == pytest.approx(residual.norm().item() / larger)
        # The bound from its definition; rounding is negligible at this point.
        lipschitz = 0.9 * torch.linalg.matrix_norm(w, 2).item() * operator.norm_bound**scale
        own = state_norm(operator, residual) / (1 - lipschitz)
        kind, weights = operator.norm.kind, operator.norm.weight
        if kind == "max":
            own *= weights.norm().item()
        elif kind == "sum":
            own *= (1 / weights).max().item()
        assert found.error_bound[i].item() == pytest.approx(own, rel=1e-10)
        assert found.error_bound[i].item() >= own * (1 - 1e-14)


@pytest.mark.parametrize("normalization", ["dir", "out", "row"])
def test_every_graph_has_its_own_measurement(normalization, device):
    edge_index = torch.tensor([[0, 1, 1, 3, 4, 6], [1, 2, 0, 4, 5, 7]], device=device)
    batch = torch.tensor([0, 0, 0, 1, 1, 1, 3, 3], device=device)  # graph 2 has no nodes
    operator = Propagation.from_edge_index(
        edge_index, 8, normalization=normalization, batch=batch, dtype=torch.float64
    )
    equations, bias, z = point(operator, (2,))
    found = measure(equations, bias, z)
    assert found.residual_norm.shape == found.error_bound.shape == (1, 4)
    for graph in (0, 1, 3):
        mine = batch == graph
        keep = torch.zeros(4, dtype=torch.bool, device=device)
        keep[graph] = True
        part, _ = operator.restrict(keep)
        single = Equations(part, (2,), 0.9, equations.weights)
        alone = measure(single, bias[:, mine], z[:, mine])
        for name in ("residual_norm", "reference", "error_bound", "relative"):
            whole, own = getattr(found, name)[0, graph], getattr(alone, name)[0, 0]
            torch.testing.assert_close(whole, own, rtol=1e-12, atol=0)
    assert found.error_bound[0, 2].item() == found.relative[0, 2].item() == 0.0


def test_the_bound_holds_at_rounded_solutions(device):
    for seed in range(50):
        operator = propagation("dir", 10, seed).to(device).to(torch.float32)
        w = weight("random", 3, seed).to(device).float()
        bias = torch.randn(10, 3, generator=generator(seed)).to(device)
        p = operator.to_dense().double()
        eye = torch.eye(30, dtype=torch.float64, device=device)
        system = eye - 0.99 * torch.kron(p, w.double().T.contiguous())
        exact = torch.linalg.solve(system, bias.double().flatten()).view(10, 3)
        z = exact.float()
        equations = Equations(operator, (1,), 0.99, Weights(w.unsqueeze(0)))
        found = measure(equations, bias.unsqueeze(0), z.unsqueeze(0))
        assert (z.double() - exact).norm().item() <= found.error_bound.item()


def assert_covered(operator, w, gamma, exact, scale=1):
    """Compares bound and error where the rounded map has fixed points, and so no residual.

    All states of a column are equal, so the roundings of a sum do not cancel.

    Args:
        operator (Propagation): The operator.
        w (Tensor): The weight.
        gamma (float): The factor.
        exact (Tensor): The exact solution for a bias of ones.
        scale (int, optional): The scale.
    """
    equations, largest = Equations(operator, (scale,), gamma, Weights(w[None])), 0.0
    for size in (1.0, 0.7, 1 / 3):
        bias = torch.full((1, *exact.shape), size, device=w.device)
        solution = bias[0, 0, 0].double().item() * exact
        for start in (0.0, 2.0):  # from below and from above
            z = start * solution.float().to(w.device)[None]
            for _ in range(400):
                before, z = z, torch.baddbmm(bias, equations.hop(z), w[None], alpha=gamma)
                if torch.equal(before, z):
                    break
            error = (z[0].double().cpu() - solution).norm().item()
            assert error <= measure(equations, bias, z).error_bound.item()
            largest = max(largest, error / solution.norm().item())
    # Otherwise the rounding of the states themselves would account for the error.
    unit = torch.finfo(torch.float32).eps / 2
    # CUDA kernels add in several partial sums, which round less. How a CPU adds depends on it.
    if w.device.type == "cpu":
        assert largest > unit / (1 - gamma), "there was nothing to cover"


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("leaves", [100, 1000, 4000, 20_000])
def test_the_bound_covers_the_rounding_of_a_hub(leaves, channels, device):
    hub = torch.zeros(leaves, dtype=torch.long)
    ends = torch.stack([hub, torch.arange(1, leaves + 1)])
    edge_index = torch.cat([ends, ends.flip(0)], 1).to(device)
    operator, gamma = Propagation.from_edge_index(edge_index, leaves + 1, dtype=torch.float32), 0.9
    (hh, hl), (lh, ll) = (
        [
            operator.values[(operator.pattern.row == i) & (operator.pattern.col == j)].item()
            for j in (0, 1)
        ]
        for i in (0, 1)
    )
    system = torch.tensor([[1 - gamma * hh, -gamma * leaves * hl], [-gamma * lh, 1 - gamma * ll]])
    of_hub, of_leaf = torch.linalg.solve(system.double(), torch.ones(2).double()).tolist()
    exact = torch.full((leaves + 1, channels), of_leaf, dtype=torch.float64)
    exact[0] = of_hub
    assert_covered(operator, torch.eye(channels, device=device), gamma, exact)


@pytest.mark.parametrize("scale", [1, 3, 8])
@pytest.mark.parametrize("nodes", [20, 32, 33, 100, 300])
def test_the_bound_covers_the_rounding_of_long_rows(nodes, scale, device):
    """On the complete graph every node takes the mean of all nodes."""
    index = torch.arange(nodes)
    edge_index = torch.cartesian_prod(index, index).T
    edge_index = edge_index[:, edge_index[0] != edge_index[1]].to(device)
    operator = Propagation.from_edge_index(edge_index, nodes, dtype=torch.float32)
    rate = 0.9 * (nodes * operator.values[0].double().item()) ** scale
    exact = torch.full((nodes, 4), 1 / (1 - rate), dtype=torch.float64)
    w = torch.full((4, 4), 0.25, device=device)  # of norm one, and the mean as well
    assert_covered(operator, w, 0.9, exact, scale)


@pytest.mark.parametrize("nodes", [1, 4, 40])
@pytest.mark.parametrize("channels", [24, 64, 128, 300, 1000])
def test_the_bound_covers_the_rounding_of_wide_weights(channels, nodes, device):
    """Every channel takes the mean of all channels."""
    empty = torch.zeros(2, 0, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(empty, nodes, dtype=torch.float32)
    w = torch.full((channels, channels), 1 / channels, device=device)
    rate = 0.9 * channels * w[0, 0].double().item()
    exact = torch.full((nodes, channels), 1 / (1 - rate), dtype=torch.float64)
    assert_covered(operator, w, 0.9, exact)


def test_norms_over_many_nodes_keep_their_digits(device):
    nodes = 300_000
    loops = torch.arange(nodes, device=device).expand(2, -1)
    batch = torch.zeros(nodes, dtype=torch.long, device=device)
    operator = Propagation.from_edge_index(
        loops, nodes, self_loops=False, batch=batch, dtype=torch.float32
    )
    bias = torch.full((1, nodes, 1), 0.1, device=device)
    equations = Equations(operator, (1,), 0.5, Weights(torch.ones(1, 1, 1, device=device)))
    found = measure(equations, bias, bias.clone())
    assert found.reference.item() == pytest.approx(bias.double().norm().item(), rel=1e-7)
    residual = 0.5 * bias.double()
    assert found.residual_norm.item() == pytest.approx(residual.norm().item(), rel=1e-7)


def test_a_known_hop_and_image_give_the_same_measurement(device):
    equations, bias, z = point(propagation("out").to(device))
    hop = equations.hop(z)
    image = 0.9 * hop @ equations.weights.tensor + bias
    plain, given = measure(equations, bias, z), measure(equations, bias, z, hop, image)
    torch.testing.assert_close(given.residual, plain.residual)
    torch.testing.assert_close(given.error_bound, plain.error_bound)


def test_states_that_are_not_finite_meet_no_tolerance(device):
    operator = propagation("sym").to(device)
    equations, bias, z = point(operator, (1,))
    for bad in (float("nan"), float("inf")):
        z[0, 3, 1] = bad
        found = measure(equations, bias, z)
        assert not bool((found.relative <= 0.999).any())
        assert not bool(found.residual_norm.isfinite().any())
