"""The attention graph network against loops over nodes and edges."""

import pytest
import torch

from mgnni import ArgumentError
from mgnni.layers.attention import ACTIVATIONS, AGGREGATIONS, AttentionGN
from models.cases import NODES, graph, normal
from models.cgs_by_hand import layer_by_hand

TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}


def make_layer(device, **options):
    return AttentionGN((5, 3), (2, 4), 6, **options).to(device, torch.float64)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_attention_gn_matches_its_equations_with_gradients(aggregation, activation, device):
    layer = make_layer(device, aggregation=aggregation, activation=activation)
    (source, target), _ = graph(True, device)  # two nodes have no edges, one edge is there twice
    x = normal(NODES, 5, device=device).requires_grad_()
    edge = normal(len(source), 2, device=device, seed=2).requires_grad_()
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    inputs = [x, edge, *layer.parameters()]

    ours = layer(x, edge, source, target)
    want = layer_by_hand(layer, activation, x, edge, pairs)
    for got, known in zip(ours, want, strict=True):
        torch.testing.assert_close(got, known, **TOLERANCE)
    # A loss on one node and one edge, which do not stand for the others.
    losses = [(nodes[1] ** 2).sum() + edges[3].sin().sum() for nodes, edges in (ours, want)]
    found = [torch.autograd.grad(loss, inputs) for loss in losses]
    for got, known in zip(*found, strict=True):
        torch.testing.assert_close(got, known, **TOLERANCE)


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_attention_gn_without_edges_uses_the_node_only(num_nodes, device):
    layer = make_layer(device)
    x = normal(num_nodes, 5, device=device)
    none = torch.empty(0, dtype=torch.long, device=device)
    nodes, edges = layer(x, normal(0, 2, device=device), none, none)
    assert edges.shape == (0, 4)
    alone = torch.cat([x.new_zeros(num_nodes, 4), x], dim=1)
    torch.testing.assert_close(nodes, layer.node(alone), **TOLERANCE)


def test_large_attention_scores_do_not_overflow(device):
    layer = make_layer(device, aggregation="sum", activation="relu")
    with torch.no_grad():
        layer.attention.last.bias.fill_(1e4)
    (source, target), _ = graph(True, device)
    nodes, _ = layer(
        normal(NODES, 5, device=device), normal(len(source), 2, device=device), source, target
    )
    assert nodes.isfinite().all()


def test_attention_gn_has_the_expected_number_of_parameters(device):
    def perceptron(inputs, outputs):
        return inputs * 6 + 6 + 6 * outputs + outputs

    count = sum(p.numel() for p in make_layer(device).parameters())
    assert count == perceptron(2 + 5 + 5, 4) + perceptron(2 + 5 + 5, 1) + perceptron(4 + 5, 3)


def test_reset_parameters_changes_all_parameters(device):
    layer = make_layer(device)
    before = [p.clone() for p in layer.parameters()]
    layer.reset_parameters()
    assert all((a != b).any() for a, b in zip(before, layer.parameters(), strict=True))


@pytest.mark.parametrize("option", ["aggregation", "activation"])
def test_unknown_aggregations_and_activations_are_refused(option):
    with pytest.raises(ArgumentError, match=f"'{option}' must be one of"):
        AttentionGN((5, 3), (2, 4), 6, **{option: "max"})
