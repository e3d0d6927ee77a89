"""DGCNN against a dense implementation of its equations."""

import pytest
import torch

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.models.dgcnn import DGCNN
from models.cases import CLASSES, FEATURES, NODES, PARTS, batch_of_graphs, graph, normal

HIDDEN = 6
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def make(device, **options):
    torch.manual_seed(0)
    model = DGCNN(FEATURES, HIDDEN, CLASSES, **options)
    for conv in model.convs:
        torch.nn.init.normal_(conv.bias)  # they start from zero
    return model.to(device, torch.float64).eval()


def by_hand(model, x, edge_index, edge_weight=None):
    """Logits of one graph, from the parameters alone."""
    n = len(x)
    weight = torch.ones(edge_index.size(1)) if edge_weight is None else edge_weight
    dense = torch.zeros(n, n, dtype=torch.float64, device=x.device)
    dense.index_put_((edge_index[0], edge_index[1]), weight.to(dense), accumulate=True)
    dense = dense + torch.eye(n, dtype=torch.float64, device=x.device)
    degree = dense.sum(1, keepdim=True)
    states = []
    for conv in model.convs:
        x = torch.tanh((dense @ x @ conv.lin.weight.T + conv.bias) / degree)
        states.append(x)
    rows = torch.cat(states, dim=1)
    head, k = model.readout, model.sort.sort.k
    order = sorted(range(n), key=lambda node: -rows[node, -1].item())[:k]
    sequence = torch.zeros(k, rows.size(1), dtype=torch.float64, device=x.device)
    sequence[: len(order)] = rows[order]
    h = torch.relu(sequence @ head.node.weight.T + head.node.bias)
    h = torch.stack([torch.maximum(h[2 * i], h[2 * i + 1]) for i in range(k // 2)])
    width = head.conv.kernel_size[0]
    slides = [h[i : i + width] for i in range(len(h) - width + 1)]
    h = torch.stack([torch.einsum("tc,oct->o", s, head.conv.weight) for s in slides], dim=1)
    h = torch.relu(h + head.conv.bias.unsqueeze(1))  # shape: (channels, positions)
    h = torch.relu(head.dense.first.weight @ h.flatten() + head.dense.first.bias)
    return head.dense.last.weight @ h + head.dense.last.bias


@pytest.mark.parametrize("options", [{}, {"k": 10}, {"k": 5, "kernel_size": 2, "num_layers": 2}])
@pytest.mark.parametrize("directed", [False, True])
def test_logits_match_the_equation(directed, options, device):
    model = make(device, **options)
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    got = model(x, edge_index, edge_weight)
    assert got.shape == (1, CLASSES)
    torch.testing.assert_close(got[0], by_hand(model, x, edge_index, edge_weight), **CLOSE)


def test_gradients_match_the_equation(device):
    model = make(device, k=5, kernel_size=2)  # fewer than nodes: those left out learn nothing
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    wanted = [x, *model.parameters()]
    want = torch.autograd.grad(by_hand(model, x, edge_index, edge_weight)[1], wanted)
    got = torch.autograd.grad(model(x, edge_index, edge_weight)[0, 1], wanted)
    for ours, known in zip(got, want, strict=True):
        torch.testing.assert_close(ours, known, **CLOSE)


def test_graphs_of_a_batch_are_independent_for_any_order_of_nodes(device):
    model = make(device)
    x, edge_index, batch, alone = batch_of_graphs(device)
    together = model(x, edge_index, batch=batch)
    for row, part, edges in zip(together, x.split(PARTS), alone, strict=True):
        torch.testing.assert_close(row, by_hand(model, part, edges), **CLOSE)
    order = torch.randperm(len(x), device=device)  # graphs are then no longer side by side
    place = torch.argsort(order)
    shuffled = model(x[order], place[edge_index], batch=batch[order])
    torch.testing.assert_close(shuffled, together, **CLOSE)


def test_a_propagation_gives_the_output_of_its_edges(device):
    model = make(device)
    x, edge_index, batch, _ = batch_of_graphs(device)
    operator = Propagation.from_edge_index(
        edge_index, len(x), batch=batch, dtype=torch.float64, **model.graph_options
    )
    want = model(x, edge_index, batch=batch)
    torch.testing.assert_close(model(x, operator), want, rtol=0, atol=0)


def test_graphs_without_edges_or_nodes_are_supported(device):
    model = make(device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    for nodes in (4, 1):
        x = normal(nodes, FEATURES, device=device)
        torch.testing.assert_close(model(x, none)[0], by_hand(model, x, none), **CLOSE)
    x = torch.zeros(0, FEATURES, dtype=torch.float64, device=device)
    assert model(x, none, batch=none[0]).shape == (0, CLASSES)
    torch.testing.assert_close(model(x, none)[0], by_hand(model, x, none), **CLOSE)


def test_indistinguishable_nodes_may_be_swapped(device):
    """Nodes with equal features and neighbours have equal rows, in any order."""
    model = make(device)
    star = torch.tensor([[0, 0, 0, 1, 2, 3], [1, 2, 3, 0, 0, 0]], device=device)
    x = normal(4, FEATURES, device=device)
    x[1:] = x[1]
    swapped = x[[0, 3, 1, 2]]
    torch.testing.assert_close(model(swapped, star), model(x, star), **CLOSE)
    torch.testing.assert_close(model(x, star)[0], by_hand(model, x, star), **CLOSE)


@pytest.mark.parametrize("k", [10, 30, 31])
@pytest.mark.parametrize("level", ["auto", "graph"])
def test_the_number_of_parameters_is_as_expected(k, level):
    model = DGCNN(FEATURES, HIDDEN, CLASSES, k=k, level=level)
    total = 3 * HIDDEN + 1
    convs = FEATURES * HIDDEN + 2 * HIDDEN * HIDDEN + HIDDEN + total  # the biases
    sequence = total * 16 + 16 + 16 * 32 * 5 + 32
    dense = 32 * (k // 2 - 4) * 128 + 128 + 128 * CLASSES + CLASSES
    assert sum(p.numel() for p in model.parameters()) == convs + sequence + dense


def test_dropout_acts_in_training_only(device):
    model = make(device, dropout=0.5)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    assert torch.equal(model(x, edge_index), model(x, edge_index))
    model.train()
    assert not torch.equal(model(x, edge_index), model(x, edge_index))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "node"}, "'level' must be 'graph' or 'auto'"),
        ({"k": 9}, "'k' must be at least twice kernel_size, 10"),
        ({"k": 0}, "'k' must be a positive int"),
        ({"conv_channels": (16,)}, "'conv_channels' must hold two widths"),
        ({"conv_channels": (16, 0)}, "'conv_channels' must hold positive ints"),
        ({"num_layers": 0}, "'num_layers' must be a positive int"),
        ({"dense_channels": 0}, "'dense_channels' must be a positive int"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        DGCNN(FEATURES, HIDDEN, CLASSES, **options)
