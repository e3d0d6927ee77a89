"""Jacobians and perturbations of any model, against autograd, PyG and closed forms."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.nn import GCN
from torch_geometric.utils import total_influence

from mgnni import EIGNN, MGNNI, Propagation, make_model, normalized_gram
from mgnni.data.chains import class_chains
from mgnni.errors import ArgumentError
from mgnni.layers.blocks import DirectedEquilibrium
from mgnni.range import (
    Resolvent,
    States,
    hop_profile,
    hops_from,
    hops_to,
    jacobian_influence,
    linear_influence,
    perturbation_response,
    resolvent_rows,
)
from mgnni.range.measure import accurate
from range.graphs import chain_edges

EDGES = torch.tensor([[0, 1, 2, 3, 4, 1, 5], [1, 2, 3, 4, 0, 4, 5]])
NODES = torch.arange(7)


def features(nodes: int = 7, channels: int = 3) -> torch.Tensor:
    return torch.randn(nodes, channels, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", ["mgnni", "gcn", "ignn"])
def test_jacobians_are_those_of_autograd(kind: str) -> None:
    x = features()
    model = make_model(kind, 3, 4, 2).double().eval()
    if kind != "gcn":
        model = make_model(kind, 3, 4, 2, tol=1e-12).double().eval()
    jacobian = torch.autograd.functional.jacobian(lambda x: model(x, EDGES), x.double())
    found = jacobian_influence(model.float().train(), x, EDGES)
    torch.testing.assert_close(
        found, torch.linalg.vector_norm(jacobian, dim=(1, 3)), rtol=1e-4, atol=1e-6
    )
    found = jacobian_influence(model, x, EDGES, torch.tensor([4]), norm="l1")
    torch.testing.assert_close(found, jacobian.abs().sum((1, 3))[4:5], rtol=1e-4, atol=1e-6)
    assert model.training, "the model itself stays as it was"
    assert next(model.parameters()).dtype is torch.float32


def generalised() -> torch.nn.Module:
    torch.manual_seed(0)
    options = {"directions": "both", "blocks": 2, "own_bias": False}
    return make_model("gmgnni", 3, 4, 2, scales=(1, 2), **options)


def test_the_generalised_model_is_measured_by_finite_differences_too() -> None:
    x, model, step = features(), generalised(), 1e-5
    found = jacobian_influence(model, x, EDGES)
    moved = [
        perturbation_response(model, x, EDGES, torch.arange(7), change=step * one) / step
        for one in torch.eye(3, dtype=torch.float64)
    ]
    expected = torch.stack(moved).square().sum(0).sqrt().mT
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert float(found[3, 0]) > 1e-3, "along the edges"
    assert float(found[0, 3]) > 1e-3, "and against them"


@pytest.mark.parametrize("against", [False, True])
def test_each_equilibrium_of_the_generalised_model_has_the_influence_of_a_resolvent(
    against: bool,
) -> None:
    model = accurate(generalised(), 1e-13)
    pair = next(one for one in model.modules() if isinstance(one, DirectedEquilibrium))
    layer = pair.against if against else pair.along
    graph = Propagation.from_edge_index(EDGES, 7, dtype=torch.float64)
    bias = torch.zeros(7, 4, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda b: layer(b, graph, adjoint=against), bias)
    weight = layer.weight(torch.float64, torch.device("cpu")).detach()
    operator = graph.adjoint() if against else graph
    for place, scale in enumerate(layer.scales):
        exact = linear_influence(operator, weight[place], layer.gamma, scale, norm="frobenius")
        found = torch.linalg.vector_norm(jacobian[place], dim=(1, 3))
        torch.testing.assert_close(found, exact, rtol=1e-8, atol=1e-9)


def test_one_random_cotangent_estimates_the_norm() -> None:
    x = features()
    model = make_model("gcn", 3, 4, 5)
    exact = jacobian_influence(model, x, EDGES, torch.tensor([2]))
    many = jacobian_influence(model, x, EDGES, torch.full((4000,), 2), outputs="random")
    estimate = many.square().mean(0).sqrt()
    torch.testing.assert_close(estimate, exact[0], rtol=0.05, atol=1e-6)


@pytest.mark.parametrize("kind", ["mgnni", "gcn", "pyg"])
def test_profiles_are_those_of_pyg(kind: str) -> None:
    torch.manual_seed(1)
    edges = chain_edges(9, directed=False)
    data = Data(x=features(9), edge_index=edges)  # PyG's measure needs float32
    model = GCN(3, 8, 3, 2) if kind == "pyg" else make_model(kind, 3, 8, 2)
    total, breadth = total_influence(model.eval(), data, max_hops=8, normalize=False)
    graph = Propagation.from_edge_index(edges, 9, normalization="none", self_loops=False)
    found = hop_profile(
        jacobian_influence(model, data.x, edges, norm="l1"), hops_to(graph, torch.arange(9))
    )
    torch.testing.assert_close(found.total.float(), total, rtol=1e-4, atol=1e-6)
    assert found.breadth == pytest.approx(breadth, rel=1e-4)


def test_the_states_of_a_model_have_the_influence_of_the_resolvent() -> None:
    model = EIGNN(3, 3, 2, gamma=0.9)
    graph = Propagation.from_edge_index(EDGES, 7)
    found = jacobian_influence(States(model), features(), EDGES)
    weight = normalized_gram(model.equilibrium.factor.detach().double())[0]
    exact = linear_influence(graph.double(), weight, 0.9, norm="frobenius")
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=1e-6)


def test_the_resolvent_gives_the_gradient_of_the_states_of_mgnni_by_the_features() -> None:
    """With B = f(X): dz_q / dx_p = Q diag(R_j[q, p]) Q' f'(x_p); autograd is used for f alone."""
    torch.manual_seed(0)
    x, model = features().double(), MGNNI(3, 4, 2, scales=(1, 3), gamma=0.9).double().eval()
    graph = Propagation.from_edge_index(EDGES, 7, dtype=torch.float64)
    slope = torch.autograd.functional.jacobian(lambda x: model.input_map(x), x)
    slope = slope[torch.arange(7), :, torch.arange(7)]  # f acts on each node separately
    weight = model.equilibrium.weight(torch.float64, torch.device("cpu")).detach()
    blocks = []
    for place, scale in enumerate((1, 3)):
        value, vector = torch.linalg.eigh(weight[place])
        rows = resolvent_rows(graph, [Resolvent(0.9 * v, scale) for v in value.tolist()], NODES)
        linear = torch.einsum("cj,jqp,dj->qpcd", vector, rows, vector)
        blocks.append(linear @ slope)
    exact = torch.stack(blocks).square().sum((0, 3, 4)).sqrt()
    found = jacobian_influence(States(model), x, EDGES)
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=1e-10)


def test_the_resolvent_agrees_with_pyg() -> None:
    edges = chain_edges(9, directed=False)
    model = EIGNN(1, 1, 2, gamma=0.9)  # one channel, so that all norms are the same
    data = Data(x=features(9, 1), edge_index=edges)
    total, breadth = total_influence(States(model).eval(), data, max_hops=8, normalize=False)
    graph = Propagation.from_edge_index(edges, 9)
    exact = hop_profile(linear_influence(graph, 1.0, 0.9), hops_to(graph, torch.arange(9)))
    torch.testing.assert_close(exact.total.float(), total, rtol=1e-4, atol=1e-6)
    assert exact.breadth == pytest.approx(breadth, rel=1e-4)


def test_a_linear_model_responds_by_its_jacobian() -> None:
    model = EIGNN(3, 3, 2)
    x, nodes = features(), torch.tensor([1, 5])
    found = perturbation_response(model, x, EDGES, nodes)
    exact = model.double().eval()
    jacobian = torch.autograd.functional.jacobian(lambda x: exact(x, EDGES), x.double())
    for row, node in zip(found, nodes.tolist(), strict=True):
        moved = jacobian[:, :, node] @ x[node].double()  # masking subtracts the features
        torch.testing.assert_close(
            row, torch.linalg.vector_norm(moved, dim=1), rtol=1e-4, atol=1e-6
        )
    change = torch.tensor([1.0, 0.0, -2.0])
    found = perturbation_response(model, x, EDGES, nodes[:1], change=change)
    moved = jacobian[:, :, 1] @ change.double()
    torch.testing.assert_close(
        found[0], torch.linalg.vector_norm(moved, dim=1), rtol=1e-4, atol=1e-6
    )
    graph = Propagation.from_edge_index(EDGES, 7)
    assert (found[0][hops_from(graph, nodes[:1])[0] < 0] == 0).all()


def test_a_layer_that_cannot_be_batched_is_measured_one_by_one() -> None:
    class Stubborn(torch.nn.Module):
        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return _Square.apply(x)

    class _Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: torch.autograd.function.FunctionCtx, grad: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            return torch.from_numpy(2 * x.detach().numpy() * grad.numpy())

    x = features()
    found = jacobian_influence(Stubborn(), x, EDGES, norm="l1")
    torch.testing.assert_close(found, torch.diag(2 * x.double().abs().sum(1)))


def test_a_sample_covers_the_truth() -> None:
    generator = torch.Generator().manual_seed(0)
    influence = torch.rand(2000, 50, dtype=torch.float64, generator=generator)
    distance = torch.arange(50).expand(2000, 50) // 10
    truth = hop_profile(influence, distance, sampled_from=2000)
    assert (truth.half_width == 0).all()
    assert truth.pairs.tolist() == [20000] * 5
    torch.testing.assert_close(truth.total, 10 * truth.mean)
    covered = 0
    for _ in range(200):
        chosen = torch.randperm(2000, generator=generator)[:40]
        sample = hop_profile(influence[chosen], distance[chosen], sampled_from=2000)
        covered += int(((sample.total - truth.total).abs() <= sample.half_width).sum())
    assert 0.92 <= covered / 1000 <= 0.98


def test_pairs_without_a_path_do_not_count() -> None:
    influence = torch.tensor([[1.0, 0.5, 7.0, 0.1]])
    profile = hop_profile(influence, torch.tensor([[0, 1, -1, 3]]), sampled_from=1)
    assert profile.pairs.tolist() == [1, 1, 0, 1]
    assert profile.largest.tolist() == pytest.approx([1.0, 0.5, 0.0, 0.1])
    assert profile.effective_range(0.3) == 1
    assert profile.effective_range(0.05) == 3
    assert profile.effective_range(5.0) == 0
    assert profile.decay(1e-9) == pytest.approx(0.1 ** (1 / 3), rel=0.1)
    assert profile.decay(0.3) is None


def test_wrong_input_is_refused() -> None:
    x = features()
    with pytest.raises(ArgumentError, match="'model' must have a MultiscaleEquilibrium"):
        States(GCN(3, 4, 2))
    with pytest.raises(ArgumentError, match="'model' must be differentiable in x"):
        jacobian_influence(make_model("fdgnn", 3, 4, 2), x, EDGES)
    with pytest.raises(ArgumentError, match="one row for each of the 7 nodes"):
        jacobian_influence(MGNNI(3, 4, 2, level="graph"), x, EDGES)
    with pytest.raises(ArgumentError, match="'norm' must be 'frobenius' with outputs='random'"):
        jacobian_influence(MGNNI(3, 4, 2), x, EDGES, norm="l1", outputs="random")
    with pytest.raises(ArgumentError, match="'distance' must have the shape"):
        hop_profile(torch.ones(2, 3), torch.ones(2, 4, dtype=torch.long))
    with pytest.raises(ArgumentError, match="at least one row"):
        hop_profile(torch.ones(0, 3), torch.ones(0, 3, dtype=torch.long))


def test_masking_the_first_node_in_float32_shows_nothing_after_25_hops() -> None:
    """The figure of the paper for gamma = 0.5: EIGNN, with a weight whose eigenvalue is one."""
    data = class_chains(5, 60, 2, train_fraction=0.2)
    model = EIGNN(2, 2, 2, gamma=0.5)
    with torch.no_grad():
        model.equilibrium.factor.copy_(torch.ones(1, 2, 2))
    states = States(model)
    found = perturbation_response(states, data.x, data.edge_index, torch.tensor([0]), tol=None)[
        0, :60
    ]
    exact = perturbation_response(states, data.x, data.edge_index, torch.tensor([0]))[0, :60]
    assert (found[:8] > 1e-5).all()
    assert (found[25:] <= 1e-9).all()
    assert (exact[9:20] > 0).all()
    torch.testing.assert_close(exact[5] / exact[4], torch.tensor(1 / 3).double(), rtol=1e-6, atol=0)


def test_sparse_features_are_measured_as_dense_ones() -> None:
    torch.manual_seed(0)
    model = MGNNI(4, 3, 2).eval()
    x = torch.randn(7, 4).relu()
    for measure in (jacobian_influence, perturbation_response):
        dense = measure(model, x, EDGES, NODES)
        torch.testing.assert_close(measure(model, x.to_sparse_csr(), EDGES, NODES), dense)
