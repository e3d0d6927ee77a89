"""CGS against dense matrices and loops over edges, with its contraction and certificate."""

import copy
import pickle
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgnni import ArgumentError, Propagation
from mgnni.layers.attention import ACTIVATIONS
from mgnni.models.cgs import CGS
from models.cases import (
    CLASSES,
    FEATURES,
    NODES,
    PARTS,
    assert_runs_are_each_alone,
    assert_same_at_one_node,
    batch_of_graphs,
    graph,
    normal,
)
from models.cgs_by_hand import cgs_by_hand, dense_weights, matrices_by_hand
from problems import generator

TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}


def make_model(device, **options):
    """A small float64 model with a tight tolerance and generic matrices."""
    options = {"heads": 3, "gamma": 0.8, "decoder_widths": (5, 4), "tol": 1e-12, **options}
    model = CGS(FEATURES, 4, CLASSES, **options).to(device, torch.float64)
    with torch.no_grad():
        for parameter in model.encoder.parameters():
            parameter.mul_(1.5)
    return model


@pytest.mark.parametrize("gather", ["targets", "sources"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("num_hidden_gn", [0, 2])
def test_logits_and_gradients_match_dense_matrices(num_hidden_gn, directed, gather, device):
    model = make_model(device, num_hidden_gn=num_hidden_gn, gather=gather)
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    edge_weight.requires_grad_()
    inputs = [x, edge_weight, *model.parameters()]

    ours = model(x, edge_index, edge_weight)
    want = cgs_by_hand(model, "silu", x, dense_weights(edge_index, edge_weight, NODES))
    assert_same_at_one_node(ours, want, inputs, **TOLERANCE)


@pytest.mark.parametrize(
    "options",
    [
        *({"activation": name} for name in ACTIVATIONS),
        {"aggregation": "sum"},
        {"nonlinearity": "relu", "gamma": 0.6},
        {"nonlinearity": "tanh", "gamma": 0.6},
        {"self_loops": True},
        {"solver": "picard"},
        {"gamma": 0.0},
        {"decoder_widths": ()},
    ],
    ids=str,
)
def test_all_options_match_dense_matrices(options, device):
    model = make_model(device, **options)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    weight = dense_weights(edge_index, None, NODES)
    if options.get("self_loops"):
        weight = weight + torch.eye(NODES, dtype=torch.float64, device=device)
    activation = options.get("activation", "silu")
    ours, want = model(x, edge_index), cgs_by_hand(model, activation, x, weight)
    assert_same_at_one_node(ours, want, list(model.parameters()), **TOLERANCE)


def test_coefficients_are_clipped_on_both_sides(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    x = 3 * normal(NODES, FEATURES, device=device)
    a, _ = matrices_by_hand(model, "silu", x, dense_weights(edge_index, None, NODES))
    out = (dense_weights(edge_index, None, NODES) != 0).sum(1).clamp(min=1)
    share = (a * out.view(-1, 1))[:, dense_weights(edge_index, None, NODES) != 0]
    assert ((share == 0).any(), (share == 1).any(), ((share > 0) & (share < 1)).any()) == (
        True,
    ) * 3
    assert (a.sum(2) <= 1 + 1e-12).all()


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    size=st.floats(0.01, 100),
    gamma=st.floats(0, 0.99),
    gather=st.sampled_from(["targets", "sources"]),
    nonlinearity=st.sampled_from(["identity", "relu", "tanh"]),
)
def test_the_map_contracts_for_any_parameters(seed, size, gamma, gather, nonlinearity):
    g = generator(seed)
    model = make_model(
        torch.device("cpu"),
        gamma=gamma,
        gather=gather,
        nonlinearity=nonlinearity,
        aggregation="sum",
    )
    edge_index = torch.randint(0, NODES, (2, 3 * NODES), generator=g)
    propagation = Propagation.from_edge_index(
        edge_index, NODES, None, "none", False, dtype=torch.float64
    )
    x, first, second = torch.randn(3, NODES, FEATURES, generator=g, dtype=torch.float64)
    a, b = model.equation(size * x, propagation)
    one, two = size * first[:, :3], second[:, :3]
    ends = model.ends(propagation)
    moved = model.step(one, a, b, ends) - model.step(two, a, b, ends)
    slack = 1e-12 * (b.abs().max() + size)
    # By entry, head for head, and by row, which is what the certificate speaks of.
    assert (moved.abs().amax(0) <= gamma * (one - two).abs().amax(0) + slack).all()
    assert moved.norm(dim=1).max() <= gamma * (one - two).norm(dim=1).max() + slack


def test_the_certificate_holds(device):
    model = make_model(device, tol=1e-3, solver="picard")
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    propagation = Propagation.from_edge_index(
        edge_index, NODES, None, "none", False, dtype=torch.float64
    )
    z = model.encode(x, propagation)
    a, b = matrices_by_hand(model, "silu", x, dense_weights(edge_index, None, NODES))
    system = torch.eye(NODES, dtype=torch.float64, device=device) - 0.8 * a
    exact = torch.linalg.solve(system, b.T.unsqueeze(2)).squeeze(2).T
    (stats,) = model.solve_log.forward
    assert stats.converged
    assert stats.contraction == 0.8
    assert 1e-9 < (z - exact).norm().item() <= stats.error_bound < 1


def test_the_solve_log_has_the_forward_and_the_backward_pass(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    assert model.solve_log.forward == ()
    model(normal(NODES, FEATURES, device=device), edge_index).sum().backward()
    log = model.solve_log
    assert [stats.converged for stats in (*log.forward, *log.backward)] == [True, True]
    assert log.worst_error_bound < 1e-9


def test_heads_are_independent(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    propagation = Propagation.from_edge_index(
        edge_index, NODES, None, "none", False, dtype=torch.float64
    )
    x = normal(NODES, FEATURES, device=device)
    before = model.encode(x, propagation)
    with torch.no_grad():  # the last maps of nodes and edges have a row a head
        model.encoder[-1].node.lins[-1].weight[1] += 1.0
    after = model.encode(x, propagation)
    assert ((before - after).abs() > 1e-6).any(0).tolist() == [False, True, False]


@pytest.mark.parametrize("level", ["auto", "graph"])
def test_graphs_of_a_batch_are_independent(level, device):
    model = make_model(device, level=level, num_hidden_gn=1)
    x, edge_index, batch, alone = batch_of_graphs(device)
    logits = model(x, edge_index, batch=batch)
    assert logits.shape == (len(PARTS), CLASSES)
    want = cgs_by_hand(model, "silu", x, dense_weights(edge_index, None, len(x)), batch)
    torch.testing.assert_close(logits, want, **TOLERANCE)
    for number, edges in enumerate(alone):
        own = x[batch == number]
        one = torch.zeros(len(own), dtype=torch.long, device=device)
        torch.testing.assert_close(
            model(own, edges, batch=one), logits[number : number + 1], **TOLERANCE
        )


def test_nodes_are_not_pooled_with_level_node(device):
    model = make_model(device, level="node")
    x, edge_index, batch, _ = batch_of_graphs(device)
    want = cgs_by_hand(model, "silu", x, dense_weights(edge_index, None, len(x)))
    torch.testing.assert_close(model(x, edge_index, batch=batch), want, **TOLERANCE)


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_without_edges_the_bias_is_the_solution(num_nodes, device):
    model = make_model(device)
    x = normal(num_nodes, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    logits = model(x, none)
    want = cgs_by_hand(model, "silu", x, x.new_zeros(num_nodes, num_nodes))
    torch.testing.assert_close(logits, want, **TOLERANCE)
    logits.sum().backward()
    assert model(x, none, batch=none[0].new_zeros(num_nodes)).shape == (min(num_nodes, 1), CLASSES)


@pytest.mark.parametrize("level", ["auto", "graph"])
def test_the_number_of_parameters_is_as_expected(level):
    def perceptron(*widths):
        return sum(a * b + b for a, b in pairwise(widths))

    def layer(node_in, node_out, edge_in, edge_out, width):
        ends = edge_in + 2 * node_in
        return (
            perceptron(ends, width, edge_out)
            + perceptron(ends, width, 1)
            + perceptron(edge_out + node_in, width, node_out)
        )

    model = CGS(7, 64, 2, heads=32, num_hidden_gn=2, level=level)  # as the authors have it on MUTAG
    encoder = layer(7, 64, 1, 64, 128) + layer(64, 64, 64, 64, 128) + layer(64, 32, 64, 32, 128)
    count = sum(p.numel() for p in model.parameters())
    assert count == encoder + perceptron(32, 64, 32, 2)


def test_dropout_acts_in_training_only(device):
    model = make_model(device, dropout=0.5)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    assert (model(x, edge_index) != model(x, edge_index)).any()
    model.eval()
    want = cgs_by_hand(model, "silu", x, dense_weights(edge_index, None, NODES))
    torch.testing.assert_close(model(x, edge_index), want, **TOLERANCE)


def test_copies_and_float32_models_agree(device):
    model = make_model(device, tol=1e-6).float()
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device).float()
    want = model(x, edge_index)
    want.sum().backward()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x, edge_index), want, rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(model(x, edge_index), want, rtol=0, atol=0)
    exact = model.double()(x.double(), edge_index)
    torch.testing.assert_close(want.double(), exact, rtol=1e-4, atol=1e-4)


def test_vmapped_models_match_single_models(device):
    models = [make_model(device) for _ in range(3)]
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    assert_runs_are_each_alone(models, x, edge_index, **TOLERANCE)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"heads": 0}, "heads"),
        ({"gamma": 1.0}, "gamma"),
        ({"num_hidden_gn": -1}, "num_hidden_gn"),
        ({"nonlinearity": "silu"}, "nonlinearity"),  # steeper than one
        ({"gather": "source"}, "gather"),
        ({"decoder_widths": 64}, "decoder_widths"),
        ({"solver": "newton"}, "solver"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_invalid_arguments_are_refused(options, name, device):
    with pytest.raises(ArgumentError, match=f"'{name}'"):
        make_model(device, **options)
