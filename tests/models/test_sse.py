"""SSE against dense matrices: the equilibrium and the published variant."""

import copy
import pickle
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgnni import ArgumentError, Propagation
from mgnni.models.sse import SSE
from models.cases import (
    CLASSES,
    FEATURES,
    LISTENER,
    NODES,
    PARTS,
    assert_runs_are_each_alone,
    assert_same_at_one_node,
    batch_of_graphs,
    graph,
    normal,
)
from models.cgs_by_hand import decoded_by_hand, dense_weights
from problems import generator

TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}
HIDDEN = 4
VARIANTS = ("equilibrium", "published")


def make_model(device, **options):
    options = {"kappa": 0.7, "decoder_widths": (5, 4), "tol": 1e-12, **options}
    return SSE(FEATURES, HIDDEN, CLASSES, **options).to(device, torch.float64)


def update_by_hand(model, x, weight, bound):
    """The map ``T`` from the parameters; ``weight[u, v]`` is that of the edge from u to v."""
    w_1, w_2 = model.first.weight, model.last.weight
    if model.variant == "equilibrium":
        inner = w_1[:, 2 * FEATURES :]
        size = torch.linalg.svdvals(inner)[0] * torch.linalg.svdvals(w_2)[0] * bound
        if size > model.kappa:
            w_1 = torch.cat([w_1[:, : 2 * FEATURES], inner * (model.kappa / size)], dim=1)

    def update(h):
        rows = []
        for v in range(len(x)):
            total = x.new_zeros(FEATURES + HIDDEN)
            for u in range(len(x)):
                features = x[v] if model.message == "receiver" else x[u]
                total = total + weight[u, v] * torch.cat([features, h[u]])
            rows.append(w_2 @ (w_1 @ torch.cat([x[v], total])).clamp(min=0))
        return torch.stack(rows) if rows else h

    return update


def bound_by_hand(weight):
    """``||P||_2^2 <= ||P||_1 ||P||_inf``, differentiable in the edge weights."""
    if not weight.any():
        return 1.0
    return (weight.abs().sum(1).max() * weight.abs().sum(0).max()).sqrt()


def states_by_hand(model, x, weight, bound=None):
    update = update_by_hand(model, x, weight, bound_by_hand(weight) if bound is None else bound)
    h = x.new_zeros(len(x), HIDDEN)
    if model.variant == "equilibrium":
        for _ in range(80):  # unrolled for longer than it takes
            h = update(h)
        return h
    with torch.no_grad():
        for _ in range(model.steps):
            h = (1 - model.alpha) * h + model.alpha * update(h)
    return update(h)


def sse_by_hand(model, x, weight):
    h = states_by_hand(model, x, weight)
    return decoded_by_hand(model.readout[1], h, torch.relu)


@pytest.mark.parametrize("message", ["receiver", "sender"])
@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_logits_and_gradients_match_dense_matrices(variant, directed, message, device):
    model = make_model(device, variant=variant, message=message)
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    inputs = [x, *model.parameters()]
    ours = model(x, edge_index, edge_weight)
    want = sse_by_hand(model, x, dense_weights(edge_index, edge_weight, NODES))
    assert_same_at_one_node(ours, want, inputs, **TOLERANCE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_edge_weights_have_gradients(variant, device):
    model = make_model(device, variant=variant)
    edge_index, edge_weight = graph(True, device)
    edge_weight.requires_grad_()
    x = normal(NODES, FEATURES, device=device)
    ours = model(x, edge_index, edge_weight)
    want = sse_by_hand(model, x, dense_weights(edge_index, edge_weight, NODES))
    found = [torch.autograd.grad(logits[LISTENER].sum(), edge_weight)[0] for logits in (ours, want)]
    torch.testing.assert_close(*found, **TOLERANCE)
    assert found[0].abs().max() > 1e-4


def test_a_map_that_already_contracts_is_not_scaled(device):
    model = make_model(device, variant="equilibrium", kappa=0.9)
    with torch.no_grad():
        model.last.weight.mul_(0.01)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    weight = dense_weights(edge_index, None, NODES)
    want = states_by_hand(model, x, weight, bound=0.0)  # with no scaling at all
    propagation = Propagation.from_edge_index(
        edge_index, NODES, None, "none", False, dtype=torch.float64
    )
    torch.testing.assert_close(model.encode(x, propagation), want, **TOLERANCE)


def test_the_published_gradient_is_that_of_the_last_step_alone(device):
    model = make_model(device, variant="published", steps=5, alpha=0.3)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    weight = dense_weights(edge_index, None, NODES)
    propagation = Propagation.from_edge_index(
        edge_index, NODES, None, "none", False, dtype=torch.float64
    )
    update = update_by_hand(model, x, weight, 0.0)
    h = x.new_zeros(NODES, HIDDEN)
    for _ in range(5):
        h = 0.7 * h + 0.3 * update(h)
    ours = model.encode(x, propagation)
    parameters = [model.first.weight, model.last.weight]
    torch.testing.assert_close(ours, update(h), **TOLERANCE)
    got = torch.autograd.grad(ours[LISTENER].sum(), parameters)
    one_step = torch.autograd.grad(update(h.detach())[LISTENER].sum(), parameters)
    all_steps = torch.autograd.grad(update(h)[LISTENER].sum(), parameters)
    for mine, last, every in zip(got, one_step, all_steps, strict=True):
        torch.testing.assert_close(mine, last, **TOLERANCE)
        assert (mine - every).norm() > 0.05 * every.norm()


def test_the_published_steps_end_far_from_the_steady_state(device):
    options = {"normalization": "sym", "kappa": 0.7}
    solved = make_model(device, variant="equilibrium", **options)
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    with torch.no_grad():  # so that both have the same map
        solved.last.weight.mul_(0.3)
    stepped = make_model(device, variant="published", **options)
    stepped.load_state_dict(solved.state_dict())
    propagation = solved.propagation(x, edge_index, None, None)
    exact, far = solved.encode(x, propagation), stepped.encode(x, propagation)
    assert (far - exact).norm() > 1e-3 * exact.norm()
    stepped.steps, stepped.alpha = 200, 1.0
    torch.testing.assert_close(stepped.encode(x, propagation), exact, **TOLERANCE)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    size=st.floats(0.01, 30),
    kappa=st.floats(0.01, 0.99),
    kind=st.sampled_from(["none", "sym", "dir", "row", "out"]),
)
def test_the_map_contracts_for_any_weights(seed, size, kappa, kind):
    g = generator(seed)
    model = make_model(torch.device("cpu"), kappa=kappa)
    with torch.no_grad():
        for parameter in (model.first.weight, model.last.weight):
            parameter.copy_(size * torch.randn(parameter.shape, generator=g))
    edge_index = torch.randint(0, NODES, (2, 3 * NODES), generator=g)
    if kind == "sym":
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    propagation = Propagation.from_edge_index(
        edge_index, NODES, None, kind, False, dtype=torch.float64
    )
    x, first, second = torch.randn(3, NODES, FEATURES, generator=g, dtype=torch.float64)
    params = model._params(x, propagation)
    one, two = first[:, :HIDDEN], second[:, :HIDDEN]
    moved = model._update(one, params, propagation) - model._update(two, params, propagation)
    scale = 1 + model._update(one, params, propagation).norm()
    assert moved.norm() <= kappa * (one - two).norm() + 1e-11 * scale


@pytest.mark.parametrize("normalization", ["none", "sym"])
def test_the_certificate_holds(normalization, device):
    model = make_model(device, tol=1e-3, solver="picard", normalization=normalization)
    edge_index, _ = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    propagation = model.propagation(x, edge_index, None, None)
    dense = propagation.to_dense().T
    bound = 1.0 if normalization == "sym" else None
    exact = states_by_hand(model, x, dense, bound)
    error = (model.encode(x, propagation) - exact).norm().item()
    (stats,) = model.solve_log.forward
    assert stats.converged
    assert stats.contraction == 0.7
    assert 1e-9 < error <= stats.error_bound < 1


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("level", ["auto", "graph"])
def test_graphs_of_a_batch_are_independent(variant, level, device):
    model = make_model(device, variant=variant, level=level)
    x, edge_index, batch, alone = batch_of_graphs(device)
    logits = model(x, edge_index, batch=batch)
    assert logits.shape == (len(PARTS), CLASSES)
    for number, edges in enumerate(alone):  # graphs of other degrees have bounds of their own
        own = x[batch == number]
        h = states_by_hand(model, own, dense_weights(edges, None, len(own))).sum(0)
        want = decoded_by_hand(model.readout[1], h, torch.relu)
        torch.testing.assert_close(logits[number], want, **TOLERANCE)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("num_nodes", [0, 1, 3])
def test_states_without_edges_depend_on_the_features_only(num_nodes, variant, device):
    model = make_model(device, variant=variant)
    x = normal(num_nodes, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    logits = model(x, none)
    alone = (x @ model.first.weight[:, :FEATURES].T).clamp(min=0) @ model.last.weight.T
    torch.testing.assert_close(
        logits, decoded_by_hand(model.readout[1], alone, torch.relu), **TOLERANCE
    )
    logits.sum().backward()
    assert model(x, none, batch=none[0].new_zeros(num_nodes)).shape == (min(num_nodes, 1), CLASSES)


@pytest.mark.parametrize("level", ["auto", "graph"])
def test_the_number_of_parameters_is_as_expected(level):
    model = SSE(50, 256, 121, level=level)
    update = (50 + 50 + 256) * 256 + 256 * 256
    decoder = sum(a * b + b for a, b in pairwise((256, 64, 32, 121)))
    assert sum(p.numel() for p in model.parameters()) == update + decoder


def test_the_solve_log_has_the_forward_and_the_backward_pass(device):
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model = make_model(device)
    model(x, edge_index).sum().backward()
    log = model.solve_log
    assert [stats.converged for stats in (*log.forward, *log.backward)] == [True, True]
    published = make_model(device, variant="published")
    published(x, edge_index).sum().backward()
    assert published.solve_log.forward == ()


@pytest.mark.parametrize("variant", VARIANTS)
def test_copies_float32_models_and_dropout(variant, device):
    model = make_model(device, variant=variant, tol=1e-6, dropout=0.5).float()
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device).float()
    assert (model(x, edge_index) != model(x, edge_index)).any()
    model.eval()
    want = model(x, edge_index)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(x, edge_index), want, rtol=0, atol=0)
    with torch.no_grad():  # without gradients, singular values are found by another routine
        torch.testing.assert_close(model(x, edge_index), want, rtol=1e-5, atol=1e-6)
    exact = model.double()(x.double(), edge_index)
    torch.testing.assert_close(want.double(), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_vmapped_models_match_single_models(variant, device):
    models = [make_model(device, variant=variant) for _ in range(3)]
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    assert_runs_are_each_alone(models, x, edge_index, **TOLERANCE)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"variant": "damped"}, "variant"),
        ({"message": "source"}, "message"),
        ({"kappa": 1.0}, "kappa"),
        ({"kappa": 0.0}, "kappa"),
        ({"alpha": 0.0}, "alpha"),
        ({"steps": -1}, "steps"),
        ({"solver": "newton"}, "solver"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_invalid_arguments_are_refused(options, name, device):
    with pytest.raises(ArgumentError, match=f"'{name}'"):
        make_model(device, **options)
