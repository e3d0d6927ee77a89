"""Geom-GCN against its equation for given positions of the nodes."""

import pytest
import torch

from mgnni import ArgumentError
from mgnni.graph.geometry import RELATIONS, structure
from mgnni.models.geom_gcn import GeometricConv, GeomGCN
from models.cases import CLASSES, FEATURES, HIDDEN, NODES, assert_same_at_one_node, graph, normal

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


def make(device, **options):
    model = GeomGCN(FEATURES, HIDDEN, CLASSES, **options)
    return model.to(device, torch.float64).eval()


def densely(model, x, edge_index):
    operator = model.propagation(x, edge_index, None, None)
    a = torch.zeros(RELATIONS, len(x), len(x), dtype=torch.float64, device=x.device)
    for v, u, r in zip(*(part.tolist() for part in structure(operator)), strict=True):
        a[r, v, u] = 1
    degree = a.sum((0, 2))
    p = a / torch.outer(degree, degree).sqrt()
    last = len(model.stack.convs) - 1
    for index, conv in enumerate(model.stack.convs):
        weights = conv.linear.weight.chunk(RELATIONS)
        relations = [p[r] @ x @ w.T for r, w in enumerate(weights)]
        x = sum(relations) / RELATIONS if index == last else torch.cat(relations, 1).clamp(min=0)
    return x


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("directed", [False, True])
def test_logits_and_gradients_match_the_equation(num_layers, directed, device):
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(device, num_layers=num_layers)
    ours, want = model(x, edge_index), densely(model, x, edge_index)
    torch.testing.assert_close(model(x, edge_index, -edge_weight), want, **TOLERANCE)
    assert_same_at_one_node(ours, want, list(model.parameters()), **TOLERANCE)


def test_nodes_are_summed_per_graph_and_read_out(device):
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(device, level="graph")
    want = model.readout(densely(model, x, edge_index).sum(0, keepdim=True))
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)


def test_relations_are_initialised_independently():
    # Glorot's bound is that of a map from 7 to 3 channels, not to all 27.
    torch.manual_seed(0)
    weight = GeometricConv(7, RELATIONS * 3).linear.weight
    assert 0.95 * (6 / 10) ** 0.5 < weight.abs().max() <= (6 / 10) ** 0.5


def test_the_number_of_parameters_for_chameleon_is_as_expected():
    model = GeomGCN(2325, 48, 5)
    assert sum(p.numel() for p in model.parameters()) == 9 * 2325 * 48 + 9 * (9 * 48) * 5


def test_a_model_without_layers_is_refused():
    with pytest.raises(ArgumentError, match=r"'num_layers' must be a positive int \(got 0\)"):
        GeomGCN(FEATURES, HIDDEN, CLASSES, num_layers=0)
