"""H2GCN against its equation in dense float64."""

import pytest
import torch

from mgnni import ArgumentError
from mgnni.models.h2gcn import H2GCN
from models.cases import CLASSES, FEATURES, HIDDEN, NODES, assert_same_at_one_node, graph, normal

TOLERANCE = {"rtol": 1e-10, "atol": 1e-12}


def make(device, **options):
    model = H2GCN(FEATURES, HIDDEN, CLASSES, **options)
    return model.to(device, torch.float64).eval()


def hop(reached):
    """Normalise a matrix of ones by the square roots of the degrees."""
    a = reached.double()
    d, e = a.sum(1), a.sum(0)
    return a / torch.outer(d.clamp(min=1), e.clamp(min=1)).sqrt()


def densely(model, x, edge_index):
    size = len(x)
    one = torch.zeros(size, size, dtype=torch.bool, device=x.device)
    one[edge_index[1], edge_index[0]] = True
    own = torch.eye(size, dtype=torch.bool, device=x.device)
    one = one & ~own
    through = (one[:, :, None] & one[None, :, :]).any(1)
    hops = hop(one), hop(through & ~one & ~own)
    h = x @ model.embed.weight.T
    parts = [h.clamp(min=0) if model.relu else h]
    for _ in range(model.num_layers):
        parts.append(torch.cat([p @ parts[-1] for p in hops], 1))
    return torch.cat(parts, 1) @ model.last.weight.T


@pytest.mark.parametrize("num_layers", [0, 1, 2, 3])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_logits_and_gradients_match_the_equation(num_layers, relu, directed, device):
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(device, num_layers=num_layers, relu=relu)
    ours, want = model(x, edge_index), densely(model, x, edge_index)
    torch.testing.assert_close(model(x, edge_index, -edge_weight), want, **TOLERANCE)
    assert_same_at_one_node(ours, want, list(model.parameters()), **TOLERANCE)


def test_messages_follow_the_flow(device):
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(device, flow="target_to_source")
    torch.testing.assert_close(
        model(x, edge_index), densely(model, x, edge_index.flip(0)), **TOLERANCE
    )


def test_nodes_are_summed_per_graph_and_read_out(device):
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(device, level="graph")
    want = model.readout(densely(model, x, edge_index).sum(0, keepdim=True))
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)


@pytest.mark.parametrize(("num_layers", "parts"), [(1, 3), (2, 7)])
def test_the_numbers_of_parameters_of_h2gcn_1_and_h2gcn_2_are_as_expected(num_layers, parts):
    model = H2GCN(1703, 64, 5, num_layers=num_layers)
    assert sum(p.numel() for p in model.parameters()) == 1703 * 64 + parts * 64 * 5


def test_a_negative_number_of_rounds_is_refused():
    with pytest.raises(ArgumentError, match=r"'num_layers' must be an int of at least 0 \(got -1"):
        H2GCN(FEATURES, HIDDEN, CLASSES, num_layers=-1)
