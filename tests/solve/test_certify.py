"""The one residual, measured again by dense products, graph by graph and in every norm."""

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
    return Equations(operator, scales, gamma, Weights(stack), bias), z


@pytest.mark.parametrize("flow", ["source_to_target", "target_to_source"])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row", "none"])
def test_residual_and_bound_are_those_of_the_point(normalization, flow, device):
    loops = normalization != "none"
    operator = propagation(normalization, self_loops=loops, flow=flow).to(device)
    equations, z = point(operator)
    found = measure(equations, z)
    for i, scale in enumerate(equations.scales):
        w, b = equations.weights.tensor[i], equations.bias[i]
        hop = torch.linalg.matrix_power(operator.to_dense(), scale) @ z[i]
        residual = 0.9 * hop @ w + b - z[i]
        torch.testing.assert_close(found.hop[i], hop)
        torch.testing.assert_close(found.residual[i], residual)
        assert found.residual_norm[i].item() == pytest.approx(residual.norm().item())
        larger = max(z[i].norm().item(), b.norm().item())
        assert found.reference[i].item() == pytest.approx(larger)
        assert found.relative[i].item() == pytest.approx(residual.norm().item() / larger)
        # The bound from its definition; rounding is far below at this point.
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
def test_graphs_are_measured_one_by_one(normalization, device):
    edge_index = torch.tensor([[0, 1, 1, 3, 4, 6], [1, 2, 0, 4, 5, 7]], device=device)
    batch = torch.tensor([0, 0, 0, 1, 1, 1, 3, 3], device=device)  # graph 2 has no nodes
    operator = Propagation.from_edge_index(
        edge_index, 8, normalization=normalization, batch=batch, dtype=torch.float64
    )
    equations, z = point(operator, (2,))
    found = measure(equations, z)
    assert found.residual_norm.shape == found.error_bound.shape == (1, 4)
    for graph in (0, 1, 3):
        mine = batch == graph
        keep = torch.zeros(4, dtype=torch.bool, device=device)
        keep[graph] = True
        part, _ = operator.restrict(keep)
        single = Equations(part, (2,), 0.9, equations.weights, equations.bias[:, mine])
        alone = measure(single, z[:, mine])
        for name in ("residual_norm", "reference", "error_bound", "relative"):
            whole, own = getattr(found, name)[0, graph], getattr(alone, name)[0, 0]
            torch.testing.assert_close(whole, own, rtol=1e-12, atol=0)
    assert found.error_bound[0, 2].item() == found.relative[0, 2].item() == 0.0


def test_the_bound_covers_the_rounding_of_the_residual_itself(device):
    """At the rounded solution of a float32 problem the true error is never above the bound."""
    for seed in range(50):
        operator = propagation("dir", 10, seed).to(device).to(torch.float32)
        w = weight("random", 3, seed).to(device).float()
        bias = torch.randn(10, 3, generator=generator(seed)).to(device)
        p = operator.to_dense().double()
        eye = torch.eye(30, dtype=torch.float64, device=device)
        system = eye - 0.99 * torch.kron(p, w.double().T.contiguous())
        exact = torch.linalg.solve(system, bias.double().flatten()).view(10, 3)
        z = exact.float()
        equations = Equations(operator, (1,), 0.99, Weights(w.unsqueeze(0)), bias.unsqueeze(0))
        found = measure(equations, z.unsqueeze(0))
        assert (z.double() - exact).norm().item() <= found.error_bound.item()


def test_what_is_not_finite_is_not_below_any_tolerance(device):
    operator = propagation("sym").to(device)
    equations, z = point(operator, (1,))
    for bad in (float("nan"), float("inf")):
        z[0, 3, 1] = bad
        found = measure(equations, z)
        assert not bool((found.relative <= 0.999).any())
        assert not bool(found.residual_norm.isfinite().any())
