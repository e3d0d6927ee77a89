"""GAT, Geom-GCN and H2GCN, which do not use edge weights, against their dense equations."""

import pytest
import torch

from models.cases import FEATURES, NODES, assert_same_at_one_node, graph, normal
from models.weightless_cases import CASES, densely, make

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_logits_and_gradients_match_the_equation(name, directed, device):
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(name, device)
    ours, want = model(x, edge_index), densely(model, x, edge_index)
    torch.testing.assert_close(model(x, edge_index, -edge_weight), want, **TOLERANCE)
    assert_same_at_one_node(ours, want, list(model.parameters()), **TOLERANCE)


@pytest.mark.parametrize("name", ["gat", "geom-gcn", "h2gcn"])
def test_messages_follow_the_flow(name, device):
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model, other = make(name, device, flow="target_to_source"), make(name, device)
    other.load_state_dict(model.state_dict())
    want = densely(other, x, edge_index.flip(0))
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)


@pytest.mark.parametrize("name", ["gat", "geom-gcn", "h2gcn"])
def test_nodes_are_summed_per_graph_and_read_out(name, device):
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(name, device, level="graph")
    want = model.readout(densely(model, x, edge_index).sum(0, keepdim=True))
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)
