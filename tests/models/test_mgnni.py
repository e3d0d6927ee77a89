"""MGNNI against dense linear algebra: logits, attention and all gradients."""

import pytest
import torch

from mgnni import MGNNI, Propagation, Status
from mgnni.layers.heads import GraphHead, LinearHead
from mgnni.models import catalog
from models.cases import (
    CLASSES,
    FEATURES,
    NODES,
    PARTS,
    batch_of_graphs,
    by_hand,
    graph,
    make_model,
    normal,
)

CONFIGURATIONS = {
    "default": {},
    "one scale": {"scales": (2,)},
    "mlp-relu": {"input_map": "mlp-relu"},
    "wide input": {"input_widths": (7, 6)},
    "linear input": {"input_widths": ()},
    "identity": {"input_map": "identity"},
    "mean": {"fusion": "mean"},
    "narrow attention": {"attention_channels": 1},
    "batch norm": {"batch_norm": True},
    "residual head": {"head": "residual", "head_channels": 6, "head_layers": 2},
    "no self-loops": {"self_loops": False},
    "against the edges": {"flow": "target_to_source"},
    "gamma": {"gamma": 0.95},
    "low memory": {"memory": "low"},
    "gmres": {"solver": "gmres"},
}
TOLERANCE = {"rtol": 1e-8, "atol": 1e-10}


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_logits_attention_and_gradients_match_the_equations(name, directed, device):
    model = make_model(device, **CONFIGURATIONS[name])
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    logits, attention = model(x, edge_index, edge_weight, return_attention=True)
    normalization = "dir" if directed else "sym"
    want = by_hand(model, x, edge_index, edge_weight, normalization=normalization)
    torch.testing.assert_close(logits, want[0], **TOLERANCE)
    torch.testing.assert_close(attention, want[1], **TOLERANCE)
    inputs = [x, *model.parameters()]
    ours, known = (
        torch.autograd.grad(y[3].pow(2).sum(), inputs, allow_unused=True) for y in (logits, want[0])
    )
    for got, expected in zip(ours, known, strict=True):
        if expected is None:
            assert got is None
        else:
            torch.testing.assert_close(got, expected, **TOLERANCE)


@pytest.mark.parametrize("normalization", ["dir", "out", "row"])
def test_the_requested_normalization_is_used(normalization, device):
    model = make_model(device, normalization=normalization)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    want, _ = by_hand(model, x, edge_index, edge_weight, normalization=normalization)
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, **TOLERANCE)


def test_missing_edge_weights_are_ones(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    want, _ = by_hand(model, x, edge_index, normalization="dir")
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)


def test_training_mode_without_dropout_is_the_same_function(device):
    model = make_model(device, dropout=0.0).train()
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    want, _ = by_hand(model, x, edge_index, edge_weight, normalization="dir")
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, **TOLERANCE)


def test_dropout_acts_in_training_mode_only(device):
    model = make_model(device, dropout=0.5)
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    torch.testing.assert_close(model(x, edge_index), model(x, edge_index), rtol=0, atol=0)
    model.train()
    assert (model(x, edge_index) != model(x, edge_index)).any()


def test_edge_weights_have_gradients(device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    edge_weight.requires_grad_()

    def value(edge_weight):
        return model(x, edge_index, edge_weight)[3]

    assert torch.autograd.gradcheck(value, (edge_weight,), nondet_tol=1e-9)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("head", ["linear", "mlp", "residual", "graph"])
def test_gradients_reach_every_parameter(head, training, device):
    model = make_model(device, head=head, dropout=0.0).train(training)
    edge_index, _ = graph(True, device)
    model(normal(NODES, FEATURES, device=device), edge_index).pow(2).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        # What a batch norm in training mode subtracts again has no effect: the biases before it.
        before_norm = name.endswith("bias") and name.split(".")[1] in (
            "first",
            "residual",
            "hidden",
        )
        if not (training and head == "residual" and before_norm):
            assert parameter.grad.abs().max() > 1e-8, name


def test_two_forward_passes_may_precede_one_backward_pass(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    parameters = list(model.parameters())
    together = model(x, edge_index).sum() + model(2 * x, edge_index).pow(2).sum()
    ours = torch.autograd.grad(together, parameters)
    one = torch.autograd.grad(model(x, edge_index).sum(), parameters)
    two = torch.autograd.grad(model(2 * x, edge_index).pow(2).sum(), parameters)
    for got, a, b in zip(ours, one, two, strict=True):
        torch.testing.assert_close(got, a + b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("head", ["linear", "mlp", "residual", "graph"])
def test_a_batch_has_one_row_per_graph_equal_to_that_of_the_graph_alone(head, device):
    model = make_model(device, head=head)
    x, edge_index, batch, alone = batch_of_graphs(device)
    logits = model(x, edge_index, batch=batch)
    assert logits.shape == (len(PARTS), CLASSES)
    for graph_number, edges in enumerate(alone):
        own = x[batch == graph_number]
        one = torch.zeros(len(own), dtype=torch.long, device=device)
        torch.testing.assert_close(
            model(own, edges, batch=one), logits[graph_number : graph_number + 1], **TOLERANCE
        )


def test_a_batch_is_the_dense_solution_summed_over_each_graph(device):
    model = make_model(device, normalization="dir")
    x, edge_index, batch, _ = batch_of_graphs(device)
    want, _ = by_hand(model, x, edge_index, batch=batch, normalization="dir")
    torch.testing.assert_close(model(x, edge_index, batch=batch), want, **TOLERANCE)


def test_level_decides_between_nodes_and_graphs(device):
    x, edge_index, batch, _ = batch_of_graphs(device)
    by_node = make_model(device, level="node", normalization="dir")
    want, _ = by_hand(by_node, x, edge_index, normalization="dir")
    for given in (None, batch):
        torch.testing.assert_close(by_node(x, edge_index, batch=given), want, **TOLERANCE)
    by_graph = make_model(device, level="graph", head="linear", normalization="dir")
    by_graph.load_state_dict(by_node.state_dict())
    torch.testing.assert_close(by_graph(x, edge_index), want.sum(0, keepdim=True), **TOLERANCE)
    sums = torch.stack([want[batch == number].sum(0) for number in range(len(PARTS))])
    torch.testing.assert_close(by_graph(x, edge_index, batch=batch), sums, **TOLERANCE)
    propagation = Propagation.from_edge_index(
        edge_index, len(x), normalization="dir", batch=batch, dtype=torch.float64
    )
    torch.testing.assert_close(by_graph(x, propagation), sums, **TOLERANCE)


@pytest.mark.parametrize(
    ("options", "head"),
    [
        ({}, LinearHead),
        ({"level": "node"}, LinearHead),
        ({"level": "graph"}, GraphHead),
        ({"level": "graph", "batch_norm": True}, LinearHead),
        ({"level": "graph", "head": "linear"}, LinearHead),
    ],
    ids=str,
)
def test_the_default_head_is_that_of_the_level(options, head):
    model = MGNNI(7, 32, 2, **options)
    assert type(model.head) is head
    assert type(catalog.make_model("mgnni", 7, 32, 2, **options).head) is head
    assert catalog.find_model("mgnni").options()().head == "linear"  # trainings name it


def test_the_solve_log_is_that_of_the_last_pass(device):
    model = make_model(device, tol=1e-7)
    edge_index, _ = graph(True, device)
    assert model.solve_log.forward == ()
    model(normal(NODES, FEATURES, device=device), edge_index).sum().backward()
    log = model.solve_log
    assert [stats.scale for stats in log.forward] == [1, 2, 3]
    assert {stats.status for stats in (*log.forward, *log.backward)} == {Status.CONVERGED}
    assert all(0 < stats.relative_residual <= 1e-7 for stats in (*log.forward, *log.backward))
    assert len(log.backward) == 3


@pytest.mark.parametrize("num_nodes", [0, 1, 2])
def test_small_graphs_and_graphs_without_edges_are_supported(num_nodes, device):
    model = make_model(device)
    x = normal(num_nodes, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    logits, attention = model(x, none, return_attention=True)
    assert logits.shape == (num_nodes, CLASSES)
    assert attention.shape == (num_nodes, 3)
    logits.sum().backward()
    if num_nodes:
        want, _ = by_hand(model, x, none)
        torch.testing.assert_close(logits, want, **TOLERANCE)
    batch = torch.zeros(num_nodes, dtype=torch.long, device=device)
    by_graph = model(x, none, batch=batch)
    assert by_graph.shape == (min(num_nodes, 1), CLASSES)
    propagation = Propagation.from_edge_index(none, num_nodes, batch=batch, dtype=torch.float64)
    torch.testing.assert_close(model(x, propagation, batch=batch), by_graph, **TOLERANCE)


def test_the_model_is_permutation_equivariant(device):
    model = make_model(device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    order = torch.tensor([4, 0, 7, 2, 8, 1, 3, 6, 5], device=device)
    place = torch.argsort(order)
    moved = model(x[order], place[edge_index], edge_weight)
    torch.testing.assert_close(moved, model(x, edge_index, edge_weight)[order], **TOLERANCE)


def test_the_defaults_are_those_of_the_paper(device):
    model = MGNNI(FEATURES, 8, CLASSES)
    assert model.equilibrium.scales == (1, 2)
    assert model.equilibrium.gamma == 0.8
    assert model.graph_options == {
        "normalization": "auto",
        "self_loops": True,
        "flow": "source_to_target",
    }
