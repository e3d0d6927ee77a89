"""GIN against PyG's convolution and against its equation."""

import pytest
import torch
from torch.func import functional_call
from torch_geometric import nn as pyg

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.models.gcn import GCN
from mgnni.models.gin import GIN
from models.cases import (
    CLASSES,
    FEATURES,
    NODES,
    PARTS,
    assert_runs_are_each_alone,
    batch_of_graphs,
    drawn,
    graph,
    normal,
)

HIDDEN = 6
CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def make(device, **options):
    """A float64 model in evaluation mode with non-trivial running statistics."""
    model = GIN(FEATURES, HIDDEN, CLASSES, **options).to(device, torch.float64).eval()
    with torch.no_grad():
        for seed, (name, tensor) in enumerate(model.state_dict().items()):
            if name.endswith(("running_mean", "weight", "bias")) and tensor.dim() == 1:
                tensor.copy_(0.3 + 0.2 * normal(*tensor.shape, device=device, seed=seed))
            if name.endswith("running_var"):
                tensor.copy_(0.5 + normal(*tensor.shape, device=device, seed=seed).abs())
            if name.endswith("eps"):
                tensor.fill_(0.25 + 0.1 * seed)
    return model


def by_pyg(model, x, edge_index, batch=None, pooling="sum"):
    """Logits by PyG's convolution and torch's batch norm with the weights of the model."""
    states = [x]
    for conv in model.convs:
        width = states[-1].size(1)
        first, last = torch.nn.Linear(width, HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)
        norms = [torch.nn.BatchNorm1d(HIDDEN) for _ in range(2)]
        relu = torch.nn.ReLU()
        theirs = pyg.GINConv(torch.nn.Sequential(first, norms[0], relu, last, norms[1], relu))
        theirs.to(x).train(model.training)
        buffers = {name: buffer.clone() for name, buffer in conv.named_buffers()}
        weights = {**dict(conv.named_parameters()), **buffers}
        states.append(functional_call(theirs, weights, (states[-1], edge_index)))
    gather = {"sum": pyg.global_add_pool, "mean": pyg.global_mean_pool}[pooling]
    total = 0
    for linear, state in zip(model.readout.linear, states, strict=True):
        rows = state if batch is None else gather(state, batch)
        total = total + rows @ linear.weight.T + linear.bias
    return total


@pytest.mark.parametrize("train_eps", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_logits_match_pygs_convolution(directed, train_eps, device):
    model = make(device, train_eps=train_eps)
    edge_index, _ = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    want = by_pyg(model, x, edge_index)
    torch.testing.assert_close(model(x, edge_index), want, **CLOSE)
    names = [*dict(model.named_parameters())]
    assert any(name.endswith("eps") for name in names) == train_eps


def test_gradients_match_pygs_convolution(device):
    model = make(device).train()
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    wanted = [x, *model.parameters()]
    want = torch.autograd.grad(by_pyg(model, x, edge_index)[3].square().sum(), wanted)
    for dropout in model.readout.dropout:
        dropout.p = 0.0
    got = torch.autograd.grad(model(x, edge_index)[3].square().sum(), wanted)
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs, **CLOSE)


def test_edge_weights_weight_the_sum(device):
    model = make(device, num_layers=2)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    dense = torch.zeros(NODES, NODES, dtype=torch.float64, device=device)
    dense.index_put_((edge_index[1], edge_index[0]), edge_weight, accumulate=True)
    conv, (first, last) = model.convs[0], model.readout.linear
    hidden = conv.nn(dense @ x + (1 + conv.eps) * x)
    want = first(x) + last(hidden)
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, **CLOSE)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_graphs_of_a_batch_are_pooled_layer_by_layer(pooling, device):
    model = make(device, pooling=pooling)
    x, edge_index, batch, alone = batch_of_graphs(device)
    together = model(x, edge_index, batch=batch)
    torch.testing.assert_close(together, by_pyg(model, x, edge_index, batch, pooling), **CLOSE)
    by_graph = GIN(FEATURES, HIDDEN, CLASSES, pooling=pooling, level="graph")
    by_graph.to(device, torch.float64).eval().load_state_dict(model.state_dict())
    for row, part, edges in zip(together, x.split(PARTS), alone, strict=True):
        torch.testing.assert_close(by_graph(part, edges)[0], row, **CLOSE)


def test_a_node_is_pooled_like_a_graph_of_one_node(device):
    model = make(device)
    x = normal(1, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    one = torch.zeros(1, dtype=torch.long, device=device)
    torch.testing.assert_close(model(x, none), model(x, none, batch=one), **CLOSE)
    torch.testing.assert_close(model(x, none), by_pyg(model, x, none), **CLOSE)


@pytest.mark.parametrize("level", ["node", "graph"])
def test_graphs_without_nodes_are_supported(level, device):
    model = make(device, level=level)
    x = torch.zeros(0, FEATURES, dtype=torch.float64, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    batch = torch.empty(0, dtype=torch.long, device=device)
    assert model(x, none, batch=batch).shape == (0, CLASSES)


@pytest.mark.parametrize("train_eps", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 5])
@pytest.mark.parametrize("level", ["auto", "graph"])
def test_the_number_of_parameters_is_as_expected(layers, level, train_eps):
    model = GIN(FEATURES, HIDDEN, CLASSES, num_layers=layers, level=level, train_eps=train_eps)
    count = FEATURES * CLASSES + CLASSES  # readout of the features
    if layers > 1:
        norms = 2 * 2 * HIDDEN
        inner = HIDDEN * HIDDEN + HIDDEN
        first = FEATURES * HIDDEN + HIDDEN + inner + norms
        later = 2 * inner + norms
        count += first + (layers - 2) * later + (layers - 1) * (HIDDEN * CLASSES + CLASSES)
        count += (layers - 1) * train_eps
    assert sum(p.numel() for p in model.parameters()) == count


def test_dropout_acts_on_logits_in_training_only(device):
    torch.manual_seed(1)
    model = GIN(FEATURES, HIDDEN, CLASSES, num_layers=1, dropout=0.75, level="graph").to(device)
    x, edge_index, batch, _ = batch_of_graphs(device)
    x = x.float()
    scores = model.eval()(x, edge_index, batch=batch)
    dropped = torch.cat([model.train()(x, edge_index, batch=batch) for _ in range(20)])
    zero = dropped == 0
    assert 0.6 < zero.double().mean() < 0.9
    torch.testing.assert_close(dropped[~zero], (4 * scores).repeat(20, 1)[~zero])


@pytest.mark.parametrize("training", [False, True])
def test_vmapped_models_match_single_models(training, device):
    edge_index, _ = graph(True, device)
    operator = Propagation.from_edge_index(
        edge_index, NODES, normalization="none", self_loops=False, dtype=torch.float64
    )
    x = normal(NODES, FEATURES, device=device)
    options = {"dropout": 0.0, "train_eps": True}
    models = drawn(
        lambda: GIN(FEATURES, HIDDEN, CLASSES, **options).to(device, torch.float64).train(training)
    )
    assert_runs_are_each_alone(models, x, operator, **CLOSE)


def test_reset_parameters_changes_all_parameters_and_restores_eps():
    model = GIN(FEATURES, HIDDEN, CLASSES, train_eps=True)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with torch.no_grad():
        for conv in model.convs:
            conv.eps.fill_(3.0)
    model.reset_parameters()
    for name, parameter in model.named_parameters():
        fixed = name.endswith("eps") or ".nn.1." in name or ".nn.4." in name
        assert torch.equal(parameter, before[name]) == fixed, name


def test_invalid_arguments_are_refused():
    with pytest.raises(ArgumentError, match="'pooling' must be one of"):
        GIN(FEATURES, HIDDEN, CLASSES, pooling="max")
    with pytest.raises(ArgumentError, match="'num_layers' must be a positive int"):
        GIN(FEATURES, HIDDEN, CLASSES, num_layers=0)


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_the_gcn_of_the_gin_paper_is_a_mean_one_linear_map_and_a_readout_of_all_layers(
    pooling, device
):
    options = {"normalization": "row", "flow": "target_to_source", "batch_norm": True}
    torch.manual_seed(0)
    model = GCN(FEATURES, HIDDEN, CLASSES, num_layers=2, jumping=pooling, **options)
    model = model.to(device, torch.float64).eval()
    x, edge_index, batch, alone = batch_of_graphs(device)
    with torch.no_grad():
        for seed, norm in enumerate(model.stack.norms):
            norm.running_mean.copy_(0.3 * normal(HIDDEN, device=device, seed=seed))
    got = model(x, edge_index, batch=batch)
    for row, part, edges in zip(got, x.split(PARTS), alone, strict=True):
        near = torch.eye(len(part), dtype=torch.float64, device=device)
        near.index_put_((edges[0], edges[1]), near.new_ones(()), accumulate=True)
        near = near / near.sum(1, keepdim=True)
        layers = [part]
        for conv, norm in zip(model.stack.convs, model.stack.norms, strict=True):
            h = near @ layers[-1] @ conv.lin.weight.T + conv.bias
            h = (h - norm.running_mean) / (norm.running_var + norm.eps).sqrt()
            layers.append((h * norm.weight + norm.bias).relu())
        want = torch.zeros(CLASSES, dtype=torch.float64, device=device)
        for layer, linear in zip(layers, model.readout.linear, strict=True):
            pooled = layer.sum(0) if pooling == "sum" else layer.mean(0)
            want = want + linear.weight @ pooled + linear.bias
        torch.testing.assert_close(row, want, **CLOSE)
    assert model(x, edge_index).shape == (len(x), CLASSES)
    with pytest.raises(ArgumentError, match="'jumping' must be one of"):
        GCN(FEATURES, HIDDEN, CLASSES, jumping="max")
