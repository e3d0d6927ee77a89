"""FDGNN against a dense iteration, and the cache of its states."""

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch.func import functional_call

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.models.fdgnn import FDGNN
from models.cases import CLASSES, FEATURES, NODES, PARTS, batch_of_graphs, graph, normal

HIDDEN, RANDOM = 6, 11
CLOSE = {"rtol": 1e-8, "atol": 1e-9}


def make(device, seed=0, **options):
    torch.manual_seed(seed)
    options = {"readout_channels": RANDOM, "tol": 1e-12, **options}
    return FDGNN(FEATURES, HIDDEN, CLASSES, **options).to(device, torch.float64).eval()


def states_by_hand(model, x, edge_index, edge_weight=None):
    """The states of one graph by a dense iteration of each layer."""
    n = len(x)
    weight = torch.ones(edge_index.size(1)) if edge_weight is None else edge_weight
    a = torch.zeros(n, n, dtype=torch.float64, device=x.device)
    a.index_put_((edge_index[1], edge_index[0]), weight.to(a), accumulate=True)
    k = (a.sum(0).max() * a.sum(1).max()).sqrt()
    k = k if k > 0 else torch.ones_like(k)
    for layer in model.layers:
        z = torch.zeros(n, HIDDEN, dtype=torch.float64, device=x.device)
        for _ in range(400):
            z = torch.tanh(x @ layer.input_weight.T + a @ z @ layer.weight.T / k)
        x = z
    return x


def read_out(model, rows):
    if model.readout.project is not None:
        rows = torch.tanh(rows @ model.readout.project.T)
    return rows @ model.readout.linear.weight.T + model.readout.linear.bias


@pytest.mark.parametrize(
    "options",
    [{}, {"num_layers": 1, "connections": None}, {"readout_channels": None, "solver": "picard"}],
)
@pytest.mark.parametrize("directed", [False, True])
def test_logits_match_the_equation(directed, options, device):
    model = make(device, **options)
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device)
    rows = states_by_hand(model, x, edge_index, edge_weight)
    by_node = model(x, edge_index, edge_weight)
    torch.testing.assert_close(by_node, read_out(model, rows), **CLOSE)
    one = torch.zeros(NODES, dtype=torch.long, device=device)
    want = read_out(model, rows.sum(0, keepdim=True))
    torch.testing.assert_close(model(x, edge_index, edge_weight, one), want, **CLOSE)
    assert len(model.solve_log.forward) == len(model.layers)
    assert all(stats.converged for stats in model.solve_log.forward)
    assert model.solve_log.worst_error_bound < 1e-8


def test_graphs_of_a_batch_are_independent(device):
    model = make(device, level="graph")
    x, edge_index, batch, alone = batch_of_graphs(device)
    together = model(x, edge_index, batch=batch)
    for row, part, edges in zip(together, x.split(PARTS), alone, strict=True):
        want = read_out(model, states_by_hand(model, part, edges).sum(0))
        torch.testing.assert_close(row, want, **CLOSE)


def test_graphs_without_edges_or_nodes_are_supported(device):
    model = make(device, level="graph")
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    for nodes in (3, 1):
        x = normal(nodes, FEATURES, device=device)
        want = read_out(model, states_by_hand(model, x, none).sum(0, keepdim=True))
        torch.testing.assert_close(model(x, none), want, **CLOSE)
    x = torch.zeros(0, FEATURES, dtype=torch.float64, device=device)
    assert model(x, none, batch=none[0]).shape == (0, CLASSES)
    want = read_out(model, torch.zeros(1, HIDDEN, dtype=torch.float64, device=device))
    torch.testing.assert_close(model(x, none), want, **CLOSE)


def test_only_the_readout_is_trained(device):
    model = make(device).train()
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    logits = model(x, edge_index)
    logits[2].square().sum().backward()
    assert x.grad is None
    names = [name for name, _ in model.named_parameters()]
    assert names == ["readout.linear.weight", "readout.linear.bias"]
    features = torch.tanh(states_by_hand(model, x.detach(), edge_index) @ model.readout.project.T)
    want = 2 * logits[2].detach().outer(features[2])
    torch.testing.assert_close(model.readout.linear.weight.grad, want, **CLOSE)


@pytest.mark.parametrize("readout_channels", [None, 7])
def test_the_number_of_parameters_is_as_expected(readout_channels):
    model = FDGNN(FEATURES, HIDDEN, CLASSES, readout_channels=readout_channels, level="graph")
    width = readout_channels or HIDDEN
    assert sum(p.numel() for p in model.parameters()) == width * CLASSES + CLASSES


def test_states_are_solved_for_once_in_training(device):
    model = make(device, num_layers=2, dropout=0.5).train()
    x, edge_index, batch, _ = batch_of_graphs(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    logs = []
    for _ in range(3):
        model(x, edge_index, batch=batch).square().sum().backward()
        optimizer.step()
        logs.append(model.solve_log)
    model.eval()(x, edge_index, batch=batch)
    assert all(log is model.solve_log for log in logs)
    assert len(model.solve_log.forward) == 2
    stack = {name: torch.stack([buffer, buffer]) for name, buffer in model.named_buffers()}
    logs = []
    for _ in range(3):  # views of stacked buffers, as in the training of several runs
        buffers = {name: buffer[1] for name, buffer in stack.items()}
        functional_call(model, buffers, (x, edge_index, None, batch))
        logs.append(model.solve_log)
    assert all(log is logs[0] for log in logs)


def test_states_are_solved_for_again_if_features_graph_or_weights_change(device):
    model, other = make(device, num_layers=1), make(device, seed=1, num_layers=1)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)

    def check(model, x, edge_weight):
        want = read_out(model, states_by_hand(model, x, edge_index, edge_weight))
        torch.testing.assert_close(model(x, edge_index, edge_weight), want, **CLOSE)

    check(model, x, edge_weight)
    log = model.solve_log
    check(other, x, edge_weight)
    check(model, x, edge_weight)
    assert model.solve_log is log
    check(model, 2 * x, edge_weight)
    x[0, 0] += 1
    check(model, x, edge_weight)
    check(model, x, 3 * edge_weight.flip(0))
    model.load_state_dict(other.state_dict())
    check(model, x, edge_weight)
    torch.manual_seed(4)
    model.reset_parameters()
    check(model, x, edge_weight)


@pytest.mark.parametrize("how", ["in place", ".data", "numpy", "new tensor"])
@pytest.mark.parametrize("name", ["weight", "input_weight"])
def test_changed_reservoirs_are_never_served_from_the_cache(name, how, device):
    if how == "numpy" and device.type != "cpu":
        pytest.skip("NumPy shares memory with the CPU only")
    model = make(device)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    before = model(x, edge_index, edge_weight)
    weight = getattr(model.layers[0], name)
    if how == "in place":
        weight.mul_(0.5)
    elif how == ".data":
        weight.data.mul_(0.5)
    elif how == "numpy":
        weight.numpy()[:] *= 0.5
    else:
        weight.data = weight * 0.5
    want = read_out(model, states_by_hand(model, x, edge_index, edge_weight))
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, **CLOSE)
    assert (want - before).abs().max() > 1e-4


def test_states_are_freed_with_their_operator(device):
    model = make(device)
    x, edge_index, batch, _ = batch_of_graphs(device)
    operator = Propagation.from_edge_index(
        edge_index, len(x), batch=batch, dtype=torch.float64, **model.graph_options
    )
    states = weakref.ref(model.encode(x, operator))  # float64 all the way, so the kept ones
    gc.collect()
    assert states() is not None
    del operator
    gc.collect()
    assert states() is None


def test_copies_and_state_dicts_give_the_same_output(device):
    model = make(device)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    want = model(x, edge_index)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(twin(x, edge_index), want, rtol=0, atol=0)
    fresh = make(device, seed=9)
    assert (fresh(x, edge_index) - want).abs().max() > 1e-3
    fresh.load_state_dict(model.state_dict())
    torch.testing.assert_close(fresh(x, edge_index), want, rtol=0, atol=0)
    torch.testing.assert_close(make(device)(x, edge_index), want, rtol=0, atol=0)


def test_the_certificate_is_that_of_loaded_weights(device):
    """The contraction factor is loaded with the weights."""
    slow, fast = make(device, rho=0.99), make(device, rho=0.3)
    fast.load_state_dict(slow.state_dict())
    edge_index, _ = graph(True, device)
    fast(normal(NODES, FEATURES, device=device), edge_index)
    for stats in fast.solve_log.forward:
        assert stats.contraction == pytest.approx(0.99, rel=1e-4)


def test_training_may_follow_inference_mode(device):
    model = make(device).train()
    x, edge_index, batch, _ = batch_of_graphs(device)
    with torch.inference_mode():
        want = model(x, edge_index, batch=batch).clone()
    logits = model(x, edge_index, batch=batch)
    torch.testing.assert_close(logits, want)
    logits.sum().backward()
    assert model.readout.linear.weight.grad.abs().max() > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 1.0}, "'rho' must lie in"),
        ({"omega": 0.0}, "'omega' must lie in"),
        ({"connections": 0}, "'connections' must be a positive int"),
        ({"max_degree": 0}, "'max_degree' must be a positive int"),
        ({"readout_channels": 0}, "'readout_channels' must be a positive int"),
        ({"num_layers": 0}, "'num_layers' must be a positive int"),
        ({"solver": "newton"}, "'solver' must be one of"),
        ({"tol": 0}, "'tol' must lie in"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        FDGNN(FEATURES, HIDDEN, CLASSES, **options)
