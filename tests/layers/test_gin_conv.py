"""PyG's layer over an operator against the same layer over edges."""

import torch
from torch_geometric import nn as pyg

from mgnni import Propagation
from mgnni.layers.gin_conv import GINConv, perceptron
from models.cases import FEATURES, NODES, graph, normal


def test_it_is_pygs_layer_over_the_same_edges(device):
    edge_index, _ = graph(True, device)
    operator = Propagation.from_edge_index(
        edge_index, NODES, normalization="none", self_loops=False, dtype=torch.float64
    )
    x = normal(NODES, FEATURES, device=device)
    ours = GINConv(perceptron(FEATURES, 4), eps=0.3, train_eps=True).to(device, torch.float64)
    theirs = pyg.GINConv(perceptron(FEATURES, 4), train_eps=True).to(device, torch.float64)
    theirs.load_state_dict(ours.state_dict())
    got, want = ours(x, operator), theirs(x, edge_index)
    torch.testing.assert_close(got, want)
    got[3].sum().backward()
    want[3].sum().backward()
    for mine, known in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, known.grad)


def test_a_layer_in_half_precision_keeps_the_type_of_its_input(device):
    edge_index, _ = graph(True, device)
    operator = Propagation.from_edge_index(edge_index, NODES, normalization="none")
    layer = GINConv(torch.nn.Identity())
    x = normal(NODES, FEATURES, device=device).bfloat16()
    assert layer.to(device, torch.bfloat16)(x, operator).dtype is torch.bfloat16
