"""IGNN against dense unrolled iterations in float64, on undirected and directed graphs."""

import copy
import math
import pickle

import pytest
import torch
from torch.func import functional_call, stack_module_state, vmap

from mgnni import ArgumentError, Propagation
from mgnni.graph.bounds import perron_bound
from mgnni.models.ignn import IGNN
from models.cases import CLASSES, FEATURES, HIDDEN, NODES, batch_of_graphs, graph, normal
from problems import dense_propagation

CLOSE = {"rtol": 1e-8, "atol": 1e-10}
CONFIGURATIONS = {
    "default": {},
    "three layers": {"num_layers": 3},
    "wide first": {"widths": (7, 2)},
    "residual": {"residual": True, "num_layers": 3},
    "residual widths": {"residual": True, "widths": (6, 5)},
    "residual alone": {"residual": True},
    "unit rows": {"unit_rows": True},
    "raw": {"normalization": "none", "self_loops": False, "kappa": 0.95},
    "out": {"normalization": "out"},
    "row of the table": {"normalization": "out", "unit_rows": True},
    "row": {"normalization": "row"},
    "against the edges": {"flow": "target_to_source"},
    "picard": {"solver": "picard"},
    "kappa 0": {"kappa": 0.0},
}


def make_model(device, **options):
    """A small float64 model with a tight tolerance and weights outside of the ball."""
    model = IGNN(FEATURES, HIDDEN, CLASSES, **{"tol": 1e-13, **options})
    model = model.to(device, torch.float64).eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.weight.mul_(4)
    return model


def operator(model, directed, edge_index, edge_weight, nodes=NODES):
    """The operator and the bound on its norm."""
    options = dict(model.graph_options)
    if options["normalization"] == "auto":
        options["normalization"] = "dir" if directed else "sym"
    p = dense_propagation(edge_index, nodes, edge_weight, **options).to(edge_index.device)
    if options["normalization"] != "none":
        return p, 1.0
    return p, torch.linalg.eigvals(p).abs().max().item()


def shrunk(row, radius):
    """Project a row of the weight by bisection of the threshold."""
    low, high = 0.0, row.abs().max().item()
    if row.abs().sum() <= radius:
        return row
    for _ in range(200):
        middle = (low + high) / 2
        too_large = (row.abs() - middle).clamp(min=0).sum() > radius
        low, high = (middle, high) if too_large else (low, middle)
    return row.sign() * (row.abs() - low).clamp(min=0)


def by_hand(model, x, p, radius, unroll=450):
    """Logits by unrolled iterations, differentiable by autograd."""
    count = len(model.layers)
    for index, layer in enumerate(model.layers):
        inside = torch.stack([shrunk(row, radius) for row in layer.weight.detach()])
        w = inside + layer.weight - layer.weight.detach()
        b = p @ x @ layer.omega.T
        z = torch.zeros_like(b)
        for _ in range(unroll):
            z = torch.relu(p @ z @ w.T + b)
        if not model.residuals:
            x = z
            continue
        linear = model.residuals[index]
        x = z + x @ linear.weight.T + linear.bias
        x = torch.nn.functional.elu(x) if index + 1 < count else x
    if model.unit_rows:
        length = x.square().sum(-1, keepdim=True)
        x = torch.where(length > 0, x / torch.where(length > 0, length, 1.0).sqrt(), x)
    return x if model.decoder is None else x @ model.decoder.weight.T


def radius_of(model, edge_index, edge_weight, eigenvalue):
    """The radius of the model is slightly below that of the eigenvalue."""
    p = Propagation.from_edge_index(edge_index, NODES, edge_weight, **model.graph_options)
    kappa = model.layers[0].kappa
    radius = kappa / perron_bound(p).value / (1 + 1e-6)
    assert 0.999 * kappa / eigenvalue <= radius <= kappa / eigenvalue
    return radius


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_logits_and_gradients_match_the_equations(name, directed, device):
    model = make_model(device, **CONFIGURATIONS[name])
    edge_index, edge_weight = graph(directed, device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    logits = model(x, edge_index, edge_weight)
    p, eigenvalue = operator(model, directed, edge_index, edge_weight)
    want = by_hand(model, x, p, radius_of(model, edge_index, edge_weight, eigenvalue))
    torch.testing.assert_close(logits, want, **CLOSE)
    leaves = [x, *model.parameters()]
    ours, known = (torch.autograd.grad(y[3].pow(2).sum(), leaves) for y in (logits, want))
    for got, expected in zip(ours, known, strict=True):
        torch.testing.assert_close(got, expected, **CLOSE)
    records = (*model.solve_log.forward, *model.solve_log.backward)
    assert len(records) == 2 * len(model.layers)
    assert all(stats.converged for stats in records)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
def test_second_derivatives_match_the_equations(directed, device):
    model = make_model(device, kappa=0.8)
    edge_index, edge_weight = graph(directed, device)
    with torch.no_grad():  # within the ball, so that what is differentiated is the map itself
        layer = model.layers[0]
        layer.weight.mul_(0.5 / layer.weight.abs().sum(1).max())
    x = normal(NODES, FEATURES, device=device)
    names = ["layers.0.weight", "layers.0.omega"]
    leaves = tuple(model.get_parameter(name).detach().requires_grad_() for name in names)

    def value(*leaves):
        own = dict(zip(names, leaves, strict=True))
        return functional_call(model, own, (x, edge_index, edge_weight))[3, :1]

    assert torch.autograd.gradcheck(value, leaves, nondet_tol=1e-9, fast_mode=True)
    assert torch.autograd.gradgradcheck(value, leaves, nondet_tol=1e-9, fast_mode=True)


@pytest.mark.parametrize("normalization", ["auto", "none"])
def test_edge_weights_have_gradients(normalization, device):
    model = make_model(device, normalization=normalization)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    with torch.no_grad():  # within the ball of any of the graphs
        model.layers[0].weight.mul_(0.02)

    def value(edge_weight):
        return model(x, edge_index, edge_weight)[3]

    assert torch.autograd.gradcheck(value, (edge_weight.requires_grad_(),), nondet_tol=1e-9)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("options", [{}, {"normalization": "none"}], ids=["normalised", "raw"])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_the_true_error_is_within_the_certificate(tol, options, directed, device):
    loose, exact = make_model(device, tol=tol, **options), make_model(device, **options)
    exact.load_state_dict(loose.state_dict())
    edge_index, edge_weight = graph(directed, device)
    p = Propagation.from_edge_index(edge_index, NODES, edge_weight, **loose.graph_options)
    x = normal(NODES, FEATURES, device=device)
    states = [m.layers[0](x, p) for m in (loose, exact)]
    (stats,) = loose.solve_log.forward
    error = torch.linalg.matrix_norm(states[0] - states[1]).item()
    assert 0 < error <= stats.error_bound < math.inf
    assert stats.contraction == 0.9


def test_the_proven_norm_contracts(device):
    # The largest factor by which the map brings two states apart, in the norm that is claimed.
    model = make_model(device, normalization="none")
    edge_index, edge_weight = graph(True, device)
    p = Propagation.from_edge_index(edge_index, NODES, edge_weight, "none")
    bound = perron_bound(p)
    assert bound.norm.kind == "max"
    w = model.layers[0].projected(0.9 / bound.value)
    worst = 0.0
    for seed in range(50):
        e = normal(NODES, HIDDEN, device=device, seed=seed)
        image = p.apply(e) @ w.T
        column = bound.norm.weight.unsqueeze(1)
        worst = max(worst, ((image / column).abs().max() / (e / column).abs().max()).item())
    e = bound.norm.weight.unsqueeze(1) * w[w.abs().sum(1).argmax()].sign()  # the worst of all
    image = p.apply(e) @ w.T
    tight = ((image / column).abs().max() / (e / column).abs().max()).item()
    assert worst <= tight <= 0.9 * (1 + 1e-12)
    assert tight > 0.89


@pytest.mark.parametrize("level", ["graph", "auto"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 3}, {"residual": True, "num_layers": 2}])
def test_graphs_of_a_batch_are_independent(options, level, device):
    model = make_model(device, level=level, **options)
    x, edge_index, batch, alone = batch_of_graphs(device)
    together = model(x, edge_index, batch=batch)
    assert together.shape == (len(alone), CLASSES)
    for number, own in enumerate(alone):
        rows = x[batch == number]
        want = model(rows, own, batch=torch.zeros_like(batch[: len(rows)]))
        torch.testing.assert_close(together[number : number + 1], want, **CLOSE)


def test_nodes_are_summed_per_graph_and_read_out(device):
    model = make_model(device, level="graph", num_layers=2)
    edge_index, edge_weight = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    p, _ = operator(model, False, edge_index, edge_weight)
    want = model.readout(by_hand(model, x, p, 0.9 / (1 + 1e-6)).sum(0, keepdim=True))
    torch.testing.assert_close(model(x, edge_index, edge_weight), want, **CLOSE)


def test_training_projects_weights_and_evaluation_changes_nothing(device):
    model = make_model(device, dropout=0.0)
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    before = copy.deepcopy(model.state_dict())
    evaluated = model(x, edge_index, edge_weight)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    model.train()
    trained = model(x, edge_index, edge_weight)
    sums = model.layers[0].weight.detach().abs().sum(1)
    torch.testing.assert_close(sums, torch.full_like(sums, 0.9), rtol=1e-5, atol=0)
    torch.testing.assert_close(trained, evaluated, **CLOSE)


def test_training_is_projected_gradient_descent(device):
    model = make_model(device, dropout=0.0).train()
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    p, _ = operator(model, True, edge_index, edge_weight)
    radius, rate = 0.9 / (1 + 1e-6), 0.5
    hand = copy.deepcopy(model)
    for _ in range(3):
        for one in (model, hand):
            one.zero_grad()
        model(x, edge_index, edge_weight)[3].pow(2).sum().backward()
        with torch.no_grad():
            inside = torch.stack([shrunk(row, radius) for row in hand.layers[0].weight])
            hand.layers[0].weight.copy_(inside)
        by_hand(hand, x, p, radius, unroll=300)[3].pow(2).sum().backward()
        with torch.no_grad():
            for one in (model, hand):
                for parameter in one.parameters():
                    parameter.sub_(rate * parameter.grad)
    for ours, want in zip(model.parameters(), hand.parameters(), strict=True):
        torch.testing.assert_close(ours, want, **CLOSE)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("options", [{}, {"residual": True, "num_layers": 2}])
def test_vmapped_models_match_single_models(options, training, device):
    models = [make_model(device, dropout=0.0, **options).train(training) for _ in range(3)]
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    parameters, buffers = stack_module_state(models)
    base = copy.deepcopy(models[0])

    def one(parameters, buffers):
        return functional_call(base, (parameters, buffers), (x, edge_index, edge_weight))

    together = vmap(one)(parameters, buffers)
    alone = torch.stack([model(x, edge_index, edge_weight) for model in models])
    torch.testing.assert_close(together, alone, **CLOSE)
    together[:, 3].pow(2).sum().backward()
    alone[:, 3].pow(2).sum().backward()
    for name, stack in parameters.items():
        want = torch.stack([model.get_parameter(name) for model in models])
        torch.testing.assert_close(stack, want, **CLOSE)  # moved alike, if they were
        grads = torch.stack([model.get_parameter(name).grad for model in models])
        torch.testing.assert_close(stack.grad, grads, **CLOSE)
    assert len(base.solve_log.forward) == 3 * len(base.layers)


@pytest.mark.parametrize("num_nodes", [0, 1, 3])
@pytest.mark.parametrize("options", [{}, {"normalization": "none", "self_loops": False}])
def test_graphs_without_edges_have_known_states(options, num_nodes, device):
    model = make_model(device, **options)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    x = normal(num_nodes, FEATURES, device=device)
    logits = model(x, none)
    logits.sum().backward()
    p = torch.eye(num_nodes, dtype=torch.float64, device=device)
    want = by_hand(model, x, p if not options else 0 * p, 0.9 / (1 + 1e-6))
    torch.testing.assert_close(logits, want, **CLOSE)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({}, HIDDEN * HIDDEN + HIDDEN * FEATURES + HIDDEN * CLASSES),
        ({"num_layers": 3}, 5 * HIDDEN**2 + HIDDEN * FEATURES + HIDDEN * CLASSES),
        (
            {"residual": True, "widths": (7, 6)},
            sum(b * b + a * b + a * b + b for a, b in ((FEATURES, 7), (7, 6), (6, CLASSES))),
        ),
        (
            {"level": "graph", "num_layers": 2},
            3 * HIDDEN**2 + HIDDEN * FEATURES + HIDDEN**2 + HIDDEN + HIDDEN * CLASSES + CLASSES,
        ),
    ],
)
def test_the_number_of_parameters_is_as_expected(options, count):
    model = IGNN(FEATURES, HIDDEN, CLASSES, **options)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


def test_copies_and_state_dicts_give_the_same_output(device):
    model = make_model(device, num_layers=2).train()
    edge_index, edge_weight = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    model(x, edge_index, edge_weight).sum().backward()
    model.eval()
    want = model(x, edge_index, edge_weight)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x, edge_index, edge_weight), want)
    fresh = make_model(device, num_layers=2)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(x, edge_index, edge_weight), want)
    with torch.inference_mode():
        assert torch.equal(model(x, edge_index, edge_weight), want)
    fresh.reset_parameters()
    assert all(
        not torch.equal(a, b) for a, b in zip(fresh.parameters(), model.parameters(), strict=True)
    )


def test_a_float32_model_agrees_at_the_default_tolerance(device):
    model = make_model(device, tol=1e-6, kappa=0.98, num_layers=2)
    edge_index, edge_weight = graph(False, device)
    x = normal(NODES, FEATURES, device=device)
    want = model(x, edge_index, edge_weight)
    single = copy.deepcopy(model).float()
    got = single(x.float(), edge_index, edge_weight.float())
    got.sum().backward()
    assert all(s.converged for s in (*single.solve_log.forward, *single.solve_log.backward))
    torch.testing.assert_close(got.double(), want, rtol=1e-3, atol=1e-3)


def test_dropout_acts_in_training_only(device):
    for options in ({}, {"residual": True, "num_layers": 2}):
        model = make_model(device, **options)
        edge_index, edge_weight = graph(False, device)
        x = normal(NODES, FEATURES, device=device)
        assert torch.equal(*(model(x, edge_index, edge_weight) for _ in range(2)))
        model.train()
        assert not torch.equal(*(model(x, edge_index, edge_weight) for _ in range(2)))


def test_features_that_are_not_finite_are_named(device):
    model = make_model(device)
    edge_index, _ = graph(True, device)
    x = normal(NODES, FEATURES, device=device)
    x[4, 2] = math.nan
    with pytest.raises(ArgumentError, match="row 4, column 2"):
        model(x, edge_index)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kappa": 1.0}, "kappa"),
        ({"kappa": -0.1}, "kappa"),
        ({"num_layers": 0}, "num_layers"),
        ({"widths": ()}, "widths"),
        ({"widths": (0,)}, "widths"),
        ({"widths": (7,), "level": "graph"}, "hidden_channels"),
        ({"residual": True, "unit_rows": True}, "unit_rows"),
        ({"solver": "gmres"}, "solver"),
        ({"tol": 2.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        IGNN(FEATURES, HIDDEN, CLASSES, **options)
