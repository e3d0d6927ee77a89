"""torch.compile: one graph without a break at the equilibria, and the numbers of eager mode."""

from __future__ import annotations

import copy
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from mgnni import MGNNI, ConvergenceError, Propagation

NODES, FEATURES, CLASSES = 24, 6, 3
SOLVE = "mgnni.equilibrium"


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.compiler.reset()


def problem(directed: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    edges = torch.randint(NODES, (2, 3 * NODES))
    edges = edges if directed else torch.cat([edges, edges.flip(0)], 1)
    return torch.randn(NODES, FEATURES), edges, torch.randint(CLASSES, (NODES,))


def trained(model: Any, x: Tensor, graph: Any, y: Tensor, steps: int = 3) -> list[float]:
    """Train with a fixed seed, and return the losses."""
    torch.manual_seed(1)  # of dropout
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x, graph), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def check_like_eager(options: dict[str, Any], backend: Any, directed: bool = True) -> None:
    x, edges, y = problem(directed)
    graph = Propagation.from_edge_index(edges, NODES)
    torch.manual_seed(2)
    eager = MGNNI(FEATURES, 8, CLASSES, **options)
    model = copy.deepcopy(eager)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    assert trained(compiled, x, graph, y) == pytest.approx(trained(eager, x, graph, y), abs=1e-5)
    for one, other in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        assert one.grad is not None
        assert other.grad is not None
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
    found, expected = model.solve_log, eager.solve_log
    for side in ("forward", "backward"):
        ours, theirs = getattr(found, side), getattr(expected, side)
        assert [one.scale for one in ours] == [one.scale for one in theirs]
        assert all(one.converged for one in ours)
        bounds = [one.error_bound for one in theirs]
        assert [one.error_bound for one in ours] == pytest.approx(bounds, rel=0.1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"directions": "both", "skip": True},
        {"contraction": "spectral", "learn_gamma": True, "memory": "low"},
        {"blocks": 2, "warm_start": True},
        {"head": "residual", "fusion": "concat", "contraction": "identity"},
    ],
    ids=str,
)
def test_a_compiled_model_trains_in_one_graph_like_eager_mode(options: dict[str, Any]) -> None:
    check_like_eager(options, "aot_eager")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_inductor_trains_like_eager_mode() -> None:
    check_like_eager({}, "inductor", directed=False)


def test_an_edge_index_breaks_the_graph_before_the_equilibrium_only() -> None:
    x, edges, _ = problem()
    found = torch._dynamo.explain(MGNNI(FEATURES, 8, CLASSES))(x, edges)
    assert found.graph_count == 1
    nodes = [str(node.target) for node in found.graphs[0].graph.nodes]
    assert sum(SOLVE in name for name in nodes) == 1


# torch itself hides this warning, but not where warnings are errors.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_learnable_edge_weights_get_the_gradients_of_eager_mode() -> None:
    x, edges, _ = problem()
    model = MGNNI(FEATURES, 8, CLASSES, dropout=0.0)
    weight = torch.rand(edges.size(1)) + 0.5
    grads = []
    for network in (model, torch.compile(model, backend="aot_eager")):
        own = weight.clone().requires_grad_()
        network(x, edges, own).square().sum().backward()
        assert own.grad is not None
        grads.append(own.grad)
    torch.testing.assert_close(grads[0], grads[1], rtol=1e-4, atol=1e-5)


def test_models_and_graphs_of_the_same_shape_share_one_compiled_graph() -> None:
    x, edges, y = problem()
    counter = CompileCounterWithBackend("aot_eager")
    first = MGNNI(FEATURES, 8, CLASSES)
    for model in (first, copy.deepcopy(first)):
        compiled = torch.compile(model, backend=counter)
        for graph in (edges, edges.flip(0)):
            trained(compiled, x, Propagation.from_edge_index(graph, NODES), y, steps=1)
    assert counter.frame_count == 1


def test_a_failed_solve_raises_in_a_compiled_model() -> None:
    x, edges, _ = problem()
    model = MGNNI(FEATURES, 8, CLASSES, solver="picard", max_iter=1)
    compiled = torch.compile(model, backend="aot_eager")
    with pytest.raises(ConvergenceError, match="iteration budget"):
        compiled(x, edges)
