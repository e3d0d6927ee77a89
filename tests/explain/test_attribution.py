"""Contributions to an output: exact in the linear part, complete in all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCN

from mgnni import MGNNI, ArgumentError, explain_model, make_model
from mgnni.explain.gradients import mean_gradients
from mgnni.explain.input_gradients import input_gradients
from mgnni.layers import row_blocks
from mgnni.layers.input_map import apply_input_map, make_input_map
from problems import dense_solution, lopsided_edges

EXACT: list[dict[str, Any]] = [
    {},
    {"fusion": "mean", "scales": (3,), "contraction": "identity", "batch_norm": True},
    {"directions": "both", "skip": True, "learn_gamma": True, "contraction": "spectral"},
    {"input_map": "graph", "num_nodes": 12, "directions": "out"},
]
QUADRATURE: list[dict[str, Any]] = [
    {"head": "mlp", "input_widths": (5, 5)},
    {"head": "residual", "input_map": "mlp-relu"},
    {"blocks": 2, "directions": "both", "skip": True, "own_bias": False},
]


def features(channels: int = 4) -> Tensor:
    return torch.randn(12, channels, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("directions", "own"), [("in", True), ("out", True), ("in", False)])
def test_contributions_of_a_linear_model_are_blocks_of_the_dense_resolvent(
    directions: str, own: bool
) -> None:
    edge_index, weight = lopsided_edges()
    x = features()
    model = MGNNI(
        *(4, 4, 3, (1, 2)),
        input_map="identity",
        fusion="concat",
        directions=directions,
        contraction="spectral",
        own_bias=own,
    )
    found = explain_model(model, x, edge_index, 5, weight, class_index=2, against=0)
    model = model.double()
    layer = model.equilibrium if directions == "in" else model.equilibrium.against
    operator = model.propagation(x.double(), edge_index, weight)
    operator = operator if directions == "in" else operator.adjoint()
    head = model.head.linear.weight.view(3, 2, 4)
    w = layer.weight(torch.float64, x.device)
    for place, scale in enumerate((1, 2)):
        for node in range(12):
            bias = torch.zeros(12, 4, dtype=torch.float64)
            bias[node] = x[node].double()
            state = dense_solution(operator, w[place], bias, scale, 0.8)[5]
            state = state if own else state - bias[5]
            wanted = (head[2, place] - head[0, place]) @ state
            torch.testing.assert_close(found.contributions[place, node], wanted.detach())
    assert found.paths == ((1, 2) if directions == "in" else ("1-out", "2-out"))
    assert abs(found.gap) < 1e-9


@pytest.mark.parametrize("node", [3, None], ids=["node", "graph"])
@pytest.mark.parametrize("options", [*EXACT, *QUADRATURE], ids=str)
def test_contributions_add_up_to_the_change_of_the_logit(
    options: dict[str, Any], node: int | None
) -> None:
    edge_index, _ = lopsided_edges()
    x = features()
    level = "node" if node is not None else "graph"
    model = MGNNI(4, 6, 3, level=level, **{"head": "linear", **options})
    steps = 12 if "blocks" in options else 64
    found = explain_model(model, x, edge_index, node, baseline="mean", steps=steps)
    model.double().eval()
    with torch.no_grad():
        for layer in model.modules():
            if hasattr(layer, "options"):
                layer.options = replace(layer.options, tol=1e-12)
        logits, start = (
            model(one, edge_index)[node or 0]
            for one in (x.double(), x.double().mean(0).expand(12, -1))
        )
    chosen = int(logits.argmax())
    assert found.predicted == found.class_index == chosen
    assert found.probability == pytest.approx(float(logits.softmax(0)[chosen]))
    assert found.output == pytest.approx(float(logits[chosen]))
    assert found.baseline_output == pytest.approx(float(start[chosen]))
    change = float(logits[chosen] - start[chosen])
    largest = 1e-9 if options in EXACT else 0.1 * float(found.nodes.abs().sum())
    assert float(found.nodes.sum()) == pytest.approx(change, abs=largest)
    assert float(found.features.sum()) == pytest.approx(change, abs=largest)
    assert found.gap == pytest.approx(change - float(found.nodes.sum()), abs=1e-9)
    assert sum(found.by_path().values()) == pytest.approx(float(found.nodes.sum()))
    if node is not None:
        assert sum(found.by_hop().values()) == pytest.approx(float(found.nodes.sum()))


def test_little_memory_does_not_change_an_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_blocks, "ROWS", 5)
    model = MGNNI(4, 6, 3, blocks=2)
    other = MGNNI(4, 6, 3, blocks=2, memory="low")
    other.load_state_dict(model.state_dict())
    found, wanted = (
        explain_model(one, features(), lopsided_edges()[0], 3, steps=4) for one in (other, model)
    )
    torch.testing.assert_close(found.features, wanted.features, rtol=0.0, atol=1e-9)


def test_more_steps_close_the_gap() -> None:
    edge_index, _ = lopsided_edges()
    model = MGNNI(4, 6, 3, head="mlp", head_layers=1, input_map="mlp-relu")
    coarse, fine = (
        explain_model(model, features(), edge_index, None, steps=steps) for steps in (2, 512)
    )
    assert abs(fine.gap) < 0.05 * abs(coarse.gap)
    assert abs(fine.feature_gap) < 0.05 * abs(coarse.feature_gap)


@pytest.mark.parametrize("name", ["mlp", "mlp-relu", "graph"])
@pytest.mark.parametrize("widths", [None, (), (5, 5)])
def test_gradients_of_input_maps_are_those_of_a_fine_quadrature(
    name: str, widths: tuple[int, ...] | None
) -> None:
    input_map = make_input_map(name, 4, 3, widths, 0.0, 12).double().eval()
    operator = MGNNI(4, 3, 2).propagation(features().double(), lopsided_edges()[0])
    end, start = features().double(), torch.zeros(12, 4, dtype=torch.float64)
    cotangent = torch.randn(12, 3, dtype=torch.float64)
    found = input_gradients(input_map, end, start, operator, cotangent, 500).detach()
    (wanted,) = mean_gradients(
        lambda x: (cotangent * apply_input_map(input_map, x, operator)).sum(), [start], [end], 500
    )
    torch.testing.assert_close(found, wanted[0], rtol=0.0, atol=0.02)


@pytest.mark.parametrize("name", ["ignn", "eignn", "gat", "gcn", "pyg"])
def test_other_models_are_attributed_by_integrated_gradients(name: str) -> None:
    edge_index, _ = lopsided_edges()
    x = features()
    model = GCN(4, 4, 2, 3) if name == "pyg" else make_model(name, 4, 4, 3)
    found = explain_model(model, x, edge_index, 0)
    assert found.paths == ("model",)
    assert not found.exact
    assert abs(found.gap) < 0.02 * float(found.nodes.abs().sum())
    torch.testing.assert_close(found.nodes, found.features.sum(1))
    far = found.hops == -1
    assert far.any()
    assert not found.nodes[far].any()


def test_a_linear_model_is_attributed_by_its_gradient() -> None:
    class Sum(nn.Module):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])

    x = torch.tensor([[1.0, 0.0, 0.0], [2.0, 3.0, 0.0], [4.0, 5.0, 0.0]])
    edge_index = torch.tensor([[0, 1], [2, 2]])
    found = explain_model(Sum(), x, edge_index, 2, class_index=1)
    wanted = torch.tensor([[0, 0, 0], [0, 3, 0], [0, 0, 0]]).double()
    torch.testing.assert_close(found.features, wanted)
    assert (found.output, found.baseline_output, found.predicted) == (3, 0, 0)
    assert found.top_nodes().tolist() == [1]
    assert found.top_features().tolist() == [1]
    assert found.hops.tolist() == [1, 1, 0]
    others = explain_model(Sum(), x, edge_index, 2, class_index=1, against="others")
    wanted = torch.tensor([[-0.5, 0, 0], [-1, 3, 0], [0, 0, 0]]).double()
    torch.testing.assert_close(others.features, wanted)


def test_models_outside_of_autograd_are_refused() -> None:
    edge_index, _ = lopsided_edges()
    with pytest.raises(ArgumentError, match="perturbation_response"):
        explain_model(make_model("fdgnn", 4, 4, 3), features(), edge_index, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_index": 3}, "'class_index' must be a class between 0 and 2"),
        ({"class_index": 1, "against": 1}, "'against' must be another class"),
        ({"against": "all"}, "'against' must be a class"),
        ({"baseline": "median"}, "'baseline' must be one of"),
        ({"baseline": torch.zeros(3, 4)}, "'baseline' must have the shape of x"),
        ({"steps": 0}, "'steps' must be"),
        ({"node": 12}, "'node' must lie between 0 and 11"),
    ],
)
def test_wrong_arguments_are_named(options: dict[str, Any], message: str) -> None:
    options = {"node": 0, **options}
    with pytest.raises(ArgumentError, match=message):
        explain_model(MGNNI(4, 4, 3), features(), lopsided_edges()[0], **options)


def test_of_several_labels_only_those_with_a_positive_logit_are_predicted() -> None:
    class Logits(torch.nn.Module):
        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return x

    x, edge_index = torch.tensor([[-2.0, -1.0], [3.0, 1.0]]), torch.tensor([[0], [1]])
    for node, label, chosen, predicted in (
        (0, None, 1, None),
        (0, 0, 0, None),
        (1, None, 0, 0),
        (1, 1, 1, 1),
    ):
        found = explain_model(Logits(), x, edge_index, node, class_index=label, multilabel=True)
        assert (found.class_index, found.predicted) == (chosen, predicted)


def test_the_predicted_class_is_that_of_the_threshold() -> None:
    model = make_model("linear", 3, 4, 2)
    x, edge_index = torch.randn(4, 3), torch.tensor([[0, 1], [1, 2]])
    share = float(model.eval()(x, edge_index).detach()[1].softmax(0)[1])
    for threshold, predicted in ((share - 1e-3, 1), (share + 1e-3, 0)):
        found = explain_model(model, x, edge_index, 1, threshold=threshold)
        assert (found.predicted, found.class_index) == (predicted, predicted)


@pytest.mark.parametrize("way", ["subclass", "hook"])
def test_what_a_subclass_or_a_hook_returns_is_explained(way: str) -> None:
    class Cooler(MGNNI):
        def forward(self, *inputs: Any, **options: Any) -> Any:
            return super().forward(*inputs, **options) / 10

    torch.manual_seed(0)
    model = Cooler(4, 4, 3) if way == "subclass" else MGNNI(4, 4, 3)
    if way == "hook":
        model.register_forward_hook(lambda module, inputs, output: output / 10)
    x, edge_index = features(), lopsided_edges()[0]
    found = explain_model(model.eval(), x, edge_index, 3, class_index=0, steps=256)
    want = model.double()(x.double(), edge_index)[3, 0].item()
    assert found.output == pytest.approx(want, rel=1e-5)
    assert not found.exact
    total = float(found.contributions.sum())
    assert total == pytest.approx(found.output - found.baseline_output, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize(
    ("level", "node", "message"),
    [
        ("graph", 0, r"'node' must be None for this model \(got 0\)"),
        ("graph", 3, r"'node' must be None for this model \(got 3\)"),
        ("node", None, r"'node' must be a node for this model \(got None\)"),
    ],
)
@pytest.mark.parametrize("name", ["mgnni", "gcn"])
def test_the_node_must_fit_the_rows_of_the_model(
    name: str, level: str, node: int | None, message: str
) -> None:
    model = make_model(name, 4, 4, 3, level=level)
    with pytest.raises(ArgumentError, match=message):
        explain_model(model, features(), lopsided_edges()[0], node)
