"""Explicit models against dense implementations: logits, gradients, batches and unusual graphs."""

import copy
import pickle

import pytest
import torch
from torch_geometric.nn import models as pyg
from torch_geometric.utils import remove_self_loops

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.layers.sparse_features import sparse_features
from mgnni.models.gcn import GCN
from mgnni.models.graphsage import GraphSAGE
from mgnni.models.jknet import JKNet
from mgnni.models.linear import Linear
from mgnni.models.mixhop import MixHop
from mgnni.models.mlp import MLP
from mgnni.models.ngcn import NGCN
from mgnni.models.sgc import SGC
from models.cases import (
    CLASSES,
    FEATURES,
    HIDDEN,
    NODES,
    PARTS,
    assert_runs_are_each_alone,
    assert_same_at_one_node,
    batch_of_graphs,
    graph,
    normal,
)
from models.explicit_cases import CASES, by_hand, make

TOLERANCE = {"rtol": 1e-8, "atol": 1e-10}
FLOORS = ("mlp", "mlp, three layers", "linear")
ONE_OF_EACH = sorted({cls: name for name, (cls, _, _) in reversed(CASES.items())}.values())


def ones(edge_index):
    return torch.ones(edge_index.size(1), dtype=torch.float64, device=edge_index.device)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("name", CASES)
def test_logits_and_gradients_match_the_equations(name, directed, device):
    model = make(name, device)
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    logits = model(x, edge_index, edge_weight)
    normalization = "dir" if directed else "sym"
    want = by_hand(model, x, edge_index, edge_weight, normalization=normalization)
    # The bias of the scores of a softmax has no effect; its gradient is a rounding error, or zero.
    parameters = [param for name, param in model.named_parameters() if name != "jump.att.bias"]
    assert_same_at_one_node(logits, want, [x, *parameters], **TOLERANCE)


@pytest.mark.parametrize("normalization", ["out", "row", "none"])
@pytest.mark.parametrize("name", [n for n in ONE_OF_EACH if n not in (*FLOORS, "graphsage")])
def test_graph_options_reach_the_operator(name, normalization, device):
    options = {"self_loops": False, "flow": "target_to_source"}
    model = make(name, device, normalization=normalization, **options)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    want = by_hand(model, x, edge_index, edge_weight, normalization=normalization)
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, **TOLERANCE)


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_parameters_is_as_expected(name, device):
    assert sum(p.numel() for p in make(name, device).parameters()) == CASES[name][2]


@pytest.mark.parametrize("name", CASES)
def test_nodes_are_summed_per_graph_and_read_out(name, device):
    model = make(name, device, level="graph")
    x, edge_index, batch, alone = batch_of_graphs(device)
    logits = model(x, edge_index, batch=batch)
    assert logits.shape == (len(PARTS), CLASSES)
    # The small graphs are directed; one node, of which there is a graph, is not.
    want = by_hand(model, x, edge_index, ones(edge_index), batch, normalization="dir")
    torch.testing.assert_close(logits, want, **TOLERANCE)
    for number, edges in enumerate(alone):  # a graph is the same alone
        torch.testing.assert_close(model(x[batch == number], edges)[0], logits[number], **TOLERANCE)


@pytest.mark.parametrize("name", CASES)
def test_nodes_have_the_same_logits_in_a_batch(name, device):
    model = make(name, device, level="node")
    x, edge_index, batch, alone = batch_of_graphs(device)
    rows = model(x, edge_index, batch=batch)
    assert rows.shape == (len(x), CLASSES)
    for number, edges in enumerate(alone):
        own = batch == number
        torch.testing.assert_close(model(x[own], edges), rows[own], **TOLERANCE)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", [name for name in CASES if name != "jknet, lstm"])
def test_vmapped_models_match_single_models(name, training, device):
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    models = [make(name, device, seed, dropout=0.5).train(training) for seed in range(3)]
    assert_runs_are_each_alone(models, x, edge_index, edge_weight, inside=True, **TOLERANCE)


def test_models_without_vmap_support_say_so(device):
    assert not make("jknet, lstm", device).supports_vmap
    assert JKNet.supports_vmap


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_dropout_acts_in_training_only(name, device):
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model = make(name, device, dropout=0.5)
    want = by_hand(model, x, edge_index, ones(edge_index), normalization="dir")
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)
    assert (model.train()(x, edge_index) - want).abs().max() > 1e-3


def test_jknet_drops_outputs_of_layers_but_no_features(device):
    model = make("jknet", device, dropout=0.9)
    edge_index, _ = graph(True, device)
    x, seen = normal(NODES, FEATURES, device=device), []
    model.stack.register_forward_hook(lambda module, inputs, output: seen.append(output))
    model(x, edge_index)
    model.train()(x, edge_index)
    torch.testing.assert_close(seen[1][0], seen[0][0])
    assert (seen[1][1] - seen[0][1]).abs().max() > 1e-3


@pytest.mark.parametrize("nodes", [0, 1, 3])
@pytest.mark.parametrize("name", CASES)
def test_graphs_without_edges_are_supported(name, nodes, device):
    model = make(name, device)
    x = normal(nodes, FEATURES, device=device).requires_grad_()
    edge_index = torch.empty(2, 0, dtype=torch.long, device=device)
    logits = model(x, edge_index)
    assert logits.shape == (nodes, CLASSES)
    logits.pow(2).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in (x, *model.parameters()))
    if nodes:
        want = by_hand(model, x, edge_index, ones(edge_index))
        torch.testing.assert_close(logits, want, **TOLERANCE)
    read = make(name, device, level="graph")(x, edge_index)
    assert read.shape == (1, CLASSES)
    assert torch.isfinite(read).all()


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_a_propagation_gives_the_output_of_its_edges(name, device):
    model = make(name, device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    operator = Propagation.from_edge_index(edge_index, NODES, edge_weight, **model.graph_options)
    torch.testing.assert_close(model(x, operator), model(x, edge_index, edge_weight), **TOLERANCE)


@pytest.mark.parametrize("name", [n for n in ONE_OF_EACH if n not in FLOORS])
def test_only_nodes_within_the_receptive_field_matter(name, device):
    """On a directed path the features of the last node do not affect the others."""
    model = make(name, device)
    edge_index = torch.tensor([[0, 1, 2], [1, 2, 3]], device=device)
    x = normal(4, FEATURES, device=device)
    changed = x.clone()
    changed[3] += 1
    before, after = model(x, edge_index), model(changed, edge_index)
    torch.testing.assert_close(before[:3], after[:3], rtol=0, atol=0)
    assert (before[3] - after[3]).abs().max() > 1e-6
    changed = x.clone()
    changed[0] += 1
    assert (before[1] - model(changed, edge_index)[1]).abs().max() > 1e-6


@pytest.mark.parametrize("name", FLOORS)
def test_baselines_ignore_the_graph(name, device):
    model = make(name, device)
    x = normal(NODES, FEATURES, device=device)
    edge_index, edge_weight = graph(True, device)
    torch.testing.assert_close(
        model(x, edge_index, -edge_weight), model(x, edge_index[:, :0]), rtol=0, atol=0
    )


@pytest.mark.parametrize("name", CASES)
def test_sparse_features_give_the_output_and_gradients_of_dense_ones(name, device):
    model = make(name, device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device).clamp(min=0)
    if not model.takes_sparse_features:
        with pytest.raises(ArgumentError, match="dense"):
            model(sparse_features(x), edge_index, edge_weight)
        return
    sparse = model(sparse_features(x), edge_index, edge_weight)
    dense = model(x, edge_index, edge_weight)
    torch.testing.assert_close(sparse, dense, **TOLERANCE)
    weights = list(model.parameters())
    for got, want in zip(
        torch.autograd.grad(sparse.square().sum(), weights, allow_unused=True),
        torch.autograd.grad(dense.square().sum(), weights, allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(got, want, **TOLERANCE)


@pytest.mark.parametrize("name", CASES)
def test_reset_parameters_changes_all_parameters(name, device):
    model = make(name, device, level="graph")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7.0)
    model.reset_parameters()
    for key, parameter in model.named_parameters():
        assert (parameter != 7.0).all(), key


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_copies_give_the_same_output(name, device):
    model = make(name, device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    want = model(x, edge_index, edge_weight)
    for same in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(same(x, edge_index, edge_weight), want, rtol=0, atol=0)


PYG = {
    "gcn": (
        lambda: GCN(FEATURES, HIDDEN, CLASSES, num_layers=3, batch_norm=True),
        lambda: pyg.GCN(FEATURES, HIDDEN, 3, CLASSES, norm="batch_norm"),
    ),
    "graphsage": (
        lambda: GraphSAGE(FEATURES, HIDDEN, CLASSES),
        lambda: pyg.GraphSAGE(FEATURES, HIDDEN, 2, CLASSES),
    ),
    "jknet, cat": (
        lambda: JKNet(FEATURES, HIDDEN, CLASSES, num_layers=3),
        lambda: pyg.GCN(FEATURES, HIDDEN, 3, CLASSES, jk="cat"),
    ),
    "jknet, max": (
        lambda: JKNet(FEATURES, HIDDEN, CLASSES, num_layers=3, mode="max"),
        lambda: pyg.GCN(FEATURES, HIDDEN, 3, CLASSES, jk="max"),
    ),
    "jknet, lstm": (
        lambda: JKNet(FEATURES, HIDDEN, CLASSES, num_layers=3, mode="lstm"),
        lambda: pyg.GCN(FEATURES, HIDDEN, 3, CLASSES, jk="lstm"),
    ),
    "mlp": (
        lambda: MLP(FEATURES, HIDDEN, CLASSES),
        lambda: pyg.MLP([FEATURES, HIDDEN, CLASSES], norm=None),
    ),
}


@pytest.mark.parametrize("name", PYG)
def test_models_match_pyg_with_the_same_parameters(name, device):
    ours, theirs = (model().to(device, torch.float64).eval() for model in PYG[name])
    state = ours.state_dict()
    for seed, (key, tensor) in enumerate(state.items()):
        if tensor.is_floating_point():
            drawn = normal(*tensor.shape, device=device, seed=seed)
            tensor.copy_(0.5 + drawn.abs() if key.endswith("running_var") else drawn)
    parts = ("convs", "norms", "jk", "lin", "lins")  # of PyG's models, in the order of ours
    names = sorted(theirs.state_dict(), key=lambda name: parts.index(name.split(".")[0]))
    theirs.load_state_dict(dict(zip(names, state.values(), strict=True)))
    edge_index, edge_weight = remove_self_loops(*graph(False, device))
    x = normal(NODES, FEATURES, device=device)
    plain = (edge_index,) if name == "graphsage" else (edge_index, edge_weight)
    want = theirs(x) if name == "mlp" else theirs(x, *plain)
    torch.testing.assert_close(ours(x, *plain), want, **TOLERANCE)


@pytest.mark.parametrize(
    "build",
    [
        lambda: GCN(FEATURES, HIDDEN, CLASSES, num_layers=0),
        lambda: GCN(FEATURES, HIDDEN, CLASSES, dropout=1.0),
        lambda: SGC(FEATURES, HIDDEN, CLASSES, K=-1),
        lambda: JKNet(FEATURES, HIDDEN, CLASSES, mode="sum"),
        lambda: GraphSAGE(FEATURES, HIDDEN, CLASSES, aggr="median"),
        lambda: MixHop(FEATURES, HIDDEN, CLASSES, powers=()),
        lambda: NGCN(FEATURES, HIDDEN, CLASSES, powers=(1, 1)),
        lambda: NGCN(FEATURES, HIDDEN, CLASSES, replicas=0),
        lambda: NGCN(FEATURES, HIDDEN, CLASSES, fusion="mean"),
        lambda: MLP(FEATURES, HIDDEN, CLASSES, num_layers=0),
        lambda: Linear(FEATURES, HIDDEN, 0),
    ],
)
def test_invalid_arguments_are_refused(build):
    with pytest.raises(ArgumentError, match=r"must .*\(got .*\)") as refusal:
        build()
    assert "\n" not in str(refusal.value)
