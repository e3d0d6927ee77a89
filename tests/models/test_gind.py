"""GIND against Newton's method on its convex objective, with a dense incidence matrix."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgnni.errors import ArgumentError
from mgnni.models.gind import GIND
from models.cases import (
    CLASSES,
    FEATURES,
    HIDDEN,
    NODES,
    assert_same_at_one_node,
    batch_of_graphs,
    graph,
    normal,
)

TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}


def make(device, **options) -> GIND:
    options = {"tol": 1e-12, "dropout": 0.0, **options}
    return GIND(FEATURES, HIDDEN, CLASSES, **options).to(device, torch.float64).eval()


def dense_graph(edge_index, edge_weight, num_nodes, self_loops):
    """The incidence matrix and the scaling, with one row per edge."""
    rows, degree = [], torch.full((num_nodes,), 2.0 * self_loops, dtype=torch.float64)
    for number, (j, i) in enumerate(edge_index.T.tolist()):
        row = torch.zeros(num_nodes, dtype=torch.float64)
        row[i] += 1
        row[j] -= 1
        rows.append(row * edge_weight[number] ** 0.5)
        degree = degree.index_add(0, torch.tensor([i, j]), edge_weight[number].repeat(2))
    incidence = torch.stack(rows) if rows else torch.zeros(0, num_nodes, dtype=torch.float64)
    return incidence, torch.where(degree > 0, degree.clamp(min=1e-30) ** -0.5, 0.0).unsqueeze(1)


def coalesced(edge_index, edge_weight, num_nodes):
    """Merge repeated edges and add up their weights."""
    dense = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    dense = dense.index_put((edge_index[0], edge_index[1]), edge_weight, accumulate=True)
    found = dense.detach().nonzero().T
    return found, dense[found[0], found[1]]


def by_newton(model, x, edge_index, edge_weight=None, mask=None):
    """The logits of the model; differentiating the last Newton step suffices."""
    x, edge_index = x.cpu(), edge_index.cpu()
    get = {name: p.cpu() for name, p in model.named_parameters()}.__getitem__
    weight = torch.ones(edge_index.size(1)) if edge_weight is None else edge_weight.cpu()
    edges = coalesced(edge_index, weight.double(), len(x))
    g, scale = dense_graph(*edges, len(x), model.graph_options["self_loops"])
    h = x @ get("encoder.weight").T + get("encoder.bias")
    k = get("weight.weight")
    own = k if model.input_weight is None else get("input_weight.weight")
    drive = g @ (h @ own.T if model.rescale else scale * (h @ own.T))
    a = torch.kron(g @ torch.diag(scale.squeeze(1)), k)  # acts on states, flattened by rows
    mask = torch.ones(a.size(1), dtype=torch.float64) if mask is None else mask.flatten().cpu()

    def gradient(z):
        return z + mask * (a.T @ torch.tanh(a @ z + drive.flatten()))

    def step(z):
        slope = 1 - torch.tanh(a @ z + drive.flatten()) ** 2
        jacobian = torch.eye(z.numel(), dtype=z.dtype) + mask.unsqueeze(1) * (a.T * slope) @ a
        return z - torch.linalg.solve(jacobian.detach(), gradient(z))

    z = torch.zeros(a.size(1), dtype=torch.float64)
    with torch.no_grad():
        for _ in range(200):  # damped, as far from the end Newton's steps are too long
            full = step(z) - z
            length = 1.0
            while length > 1e-8 and gradient(z + length * full).norm() > gradient(z).norm():
                length /= 2
            z = z + length * full
        assert gradient(z).norm() < 1e-12
    z = step(z).view(h.shape)
    return (scale * z if model.rescale else z) + h


CONFIGURATIONS = {
    "default": {},
    "row": {"rescale": False},
    "one matrix": {"double_linear": False},
    "self-loops": {"self_loops": True},
    "picard": {"solver": "picard"},
}


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_logits_and_gradients_match_the_equation(name, directed, device):
    model = make(device, **CONFIGURATIONS[name])
    edge_index, edge_weight = graph(directed, device)
    edge_weight.requires_grad_(directed)  # there must be weights in both directions alike
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    ours = model(x, edge_index, edge_weight)
    known = by_newton(model, x, edge_index, edge_weight)
    known = known @ model.decoder.weight.T.cpu() + model.decoder.bias.cpu()
    inputs = [x, *model.parameters(), *([edge_weight] if directed else [])]
    assert_same_at_one_node(ours, known, inputs, **TOLERANCE)


def test_the_certificate_holds(device):
    model = make(device, tol=1e-3, rescale=False)
    x, edges = normal(NODES, FEATURES, device=device), graph(True, device)
    h = model.encoder(x)
    with torch.no_grad():
        z = model.states(h, model.propagation(x, *edges, None))
        exact = by_newton(model, x, *edges).to(device) - h
    (record,) = model.solve_log.forward
    assert record.converged
    assert record.iterations > 0
    norm = torch.linalg.matrix_norm(model.weight.weight, 2).item() ** 2
    assert record.contraction == pytest.approx(norm / (1 + norm), rel=1e-5)
    error = (z - exact).norm().item()
    assert 0 < error <= record.error_bound


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.floats(0.01, 10.0))
def test_the_equilibrium_is_found_for_any_weight(seed, size):
    torch.manual_seed(seed)
    device = torch.device("cpu")
    model = make(device, tol=1e-8)
    with torch.no_grad():
        model.weight.weight.mul_(size / torch.linalg.matrix_norm(model.weight.weight, 2))
        x, edges = normal(NODES, FEATURES, device=device, seed=seed), graph(True, device)
        model(x, *edges)
    (record,) = model.solve_log.forward
    assert record.converged
    assert record.contraction < 1


def test_dropped_states_are_zero_and_the_others_solve_their_equation(device):
    model = make(device, state_dropout=0.4).train()
    model.state_dropout.keyed = True
    x, edges = normal(NODES, FEATURES, device=device).requires_grad_(), graph(True, device)
    mask = model.state_dropout(torch.ones(NODES, HIDDEN, dtype=torch.float64, device=device))
    assert 0 < (mask == 0).sum() < mask.numel()
    ours = model(x, *edges)
    known = by_newton(model, x, *edges, mask=mask)
    known = known @ model.decoder.weight.T.cpu() + model.decoder.bias.cpu()
    assert_same_at_one_node(ours, known, [x, *model.parameters()], **TOLERANCE)


def test_graphs_of_a_batch_are_independent_and_pooled(device):
    x, edge_index, batch, alone = batch_of_graphs(device)
    model = make(device, level="graph")
    rows = []
    for index, edges in enumerate(alone):
        rows.append(by_newton(model, x[batch == index], edges).sum(0))
    first, last = model.readout.first, model.readout.last
    inner = (torch.stack(rows).to(device) @ first.weight.T + first.bias).clamp(min=0)
    want = inner @ last.weight.T + last.bias
    torch.testing.assert_close(model(x, edge_index, batch=batch), want, **TOLERANCE)
    assert not list(model.decoder.parameters())


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_without_edges_nothing_flows(nodes, device):
    model = make(device)
    x = normal(nodes, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    torch.testing.assert_close(model(x, none), model.decoder(model.encoder(x)))


def test_the_parameters_are_four_matrices_and_two_biases(device):
    count = sum(p.numel() for p in make(device).parameters())
    assert count == (FEATURES + 1) * HIDDEN + 2 * HIDDEN**2 + (HIDDEN + 1) * CLASSES
    single = sum(p.numel() for p in make(device, double_linear=False).parameters())
    assert count - single == HIDDEN**2
    wide = GIND(50, 400, 60)
    assert wide.weight.weight.std().item() == pytest.approx((2 / 400) ** 0.5, rel=0.05)
    assert wide.decoder.weight.std().item() == pytest.approx((2 / 460) ** 0.5, rel=0.05)


def test_a_float32_model_agrees(device):
    model = make(device, tol=1e-5)
    x, edges = normal(NODES, FEATURES, device=device), graph(True, device)
    want = model(x, *edges)
    single = model.float()(x.float(), edges[0], edges[1].float())
    assert single.dtype is torch.float32
    torch.testing.assert_close(single.double(), want, rtol=1e-3, atol=1e-3)


def test_invalid_arguments_are_refused():
    with pytest.raises(ArgumentError, match="'state_dropout' must lie in"):
        GIND(FEATURES, HIDDEN, CLASSES, state_dropout=1.0)
