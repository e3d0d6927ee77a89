"""MIGNN against dense references in float64: unrolled iterations, and active sets."""

import pytest
import torch

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.models.mignn import MIGNN
from models.cases import (
    CLASSES,
    FEATURES,
    HIDDEN,
    LISTENER,
    NODES,
    assert_runs_are_each_alone,
    assert_same_at_one_node,
    batch_of_graphs,
    dense_operator,
    drawn,
    graph,
    normal,
)

TOLERANCE = {"rtol": 1e-7, "atol": 1e-9}


def make(device, **options) -> MIGNN:
    options = {"tol": 1e-12, "dropout": 0.0, **options}
    return MIGNN(FEATURES, HIDDEN, CLASSES, **options).to(device, torch.float64).eval()


def weight_by_hand(model):
    get = {name: p.cpu() for name, p in model.weight.named_parameters()}.__getitem__
    eye = torch.eye(HIDDEN, dtype=torch.float64)
    skew = get("skew") - get("skew").T
    if model.supports_vmap:
        size = 0.9 / (1 + torch.exp(-get("mu")))
        turned = (eye - skew) @ torch.linalg.inv(eye + skew)
        return size * turned @ torch.diag(model.weight.signs.cpu())
    return (1 - torch.exp(get("mu"))) / 2 * eye - get("root") @ get("root").T + skew


def by_active_set(model, x, p):
    """Find the active set by damped steps and solve the linear equations on it."""
    w, p = weight_by_hand(model), p.cpu()
    g = p if model.supports_vmap else torch.eye(len(p), dtype=torch.float64) - p
    bias = g @ x.cpu() @ model.input_weight.weight.cpu().T
    system = torch.kron(g, w)  # acts on states, flattened by rows
    z = torch.zeros(bias.numel(), dtype=torch.float64)
    with torch.no_grad():
        for _ in range(20_000):
            before, z = z, (z - 0.1 * (z - system @ z - bias.flatten())).relu()
            if (z - before).norm() < 1e-13:
                break
    on = z > 0
    assert 0 < on.sum() < on.numel()
    eye = torch.eye(int(on.sum()), dtype=torch.float64)
    found = torch.linalg.solve(eye - system[on][:, on], bias.flatten()[on])
    assert (found > 0).all()
    return torch.zeros_like(z).index_put((on.nonzero().squeeze(1),), found).view(bias.shape)


CASES = [("orthogonal", False), ("orthogonal", True), ("monotone", False)]


def enlarged(model):
    """A monotone weight for which the plain map does not contract."""
    if not model.supports_vmap:
        with torch.no_grad():
            model.weight.root.mul_(2)
            model.weight.mu.fill_(-0.5)
        assert torch.linalg.matrix_norm(model.weight(), 2) > 1
    return model


@pytest.mark.parametrize(("parametrization", "directed"), CASES)
@pytest.mark.parametrize("solver", ["anderson", "picard"])
def test_logits_and_gradients_match_the_equation(parametrization, directed, solver, device):
    model = enlarged(make(device, parametrization=parametrization, solver=solver))
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    ours = model(x, *graph(directed, device))
    known = by_active_set(model, x, dense_operator(directed, device)) @ model.decoder.weight.T.cpu()
    assert_same_at_one_node(ours, known, [x, *model.parameters()], **TOLERANCE)
    assert model.solve_log.backward


@pytest.mark.parametrize(("parametrization", "directed"), CASES)
def test_the_certificate_holds(parametrization, directed, device):
    model = enlarged(make(device, parametrization=parametrization, tol=1e-2))
    x = normal(NODES, FEATURES, device=device)
    edges = graph(directed, device)
    with torch.no_grad():
        z = model.states(x, model.propagation(x, *edges, None))
        exact = by_active_set(model, x, dense_operator(directed, device)).to(device)
    (record,) = model.solve_log.forward
    assert record.converged
    assert 0 < (z - exact).norm().item() <= record.error_bound
    if parametrization == "orthogonal":
        assert record.contraction == pytest.approx(0.9, rel=1e-5)


@pytest.mark.parametrize("parametrization", ["orthogonal", "monotone"])
def test_the_map_contracts_by_the_reported_factor(parametrization, device):
    """The ReLU is non-expansive, so the norm of the linear map is the contraction factor."""
    model = enlarged(make(device, parametrization=parametrization))
    x, edges = normal(NODES, FEATURES, device=device), graph(False, device)
    model(x, *edges)
    (record,) = model.solve_log.forward
    w, p = weight_by_hand(model).to(device), dense_operator(False, device)
    g = p if parametrization == "orthogonal" else torch.eye(NODES, dtype=p.dtype, device=device) - p
    system = torch.kron(g, w)
    eye = torch.eye(len(system), dtype=p.dtype, device=device)
    if parametrization == "monotone":
        m, norm = model.weight.mu.exp().clamp(max=1), 1 + 2 * torch.linalg.matrix_norm(w, 2)
        system = eye - m / norm**2 * (eye - system)
    assert torch.linalg.matrix_norm(system, 2).item() <= record.contraction < 1


def test_edge_weights_have_gradients(device):
    model = make(device)
    edge_index, edge_weight = graph(True, device)
    edge_weight.requires_grad_()
    x = normal(NODES, FEATURES, device=device)
    (got,) = torch.autograd.grad(model(x, edge_index, edge_weight)[LISTENER].sum(), edge_weight)
    number, width = 5, 1e-6
    around = []
    for shift in (width, -width):
        moved = edge_weight.detach().clone()
        moved[number] += shift
        around.append(model(x, edge_index, moved)[LISTENER].sum().item())
    assert got[number].abs() > 1e-4
    assert got[number].item() == pytest.approx((around[0] - around[1]) / (2 * width), rel=1e-4)


def test_unit_rows_keeps_gradients_beside_nodes_without_features(device):
    """Where the states are zero, which have no direction."""
    edges = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]], device=device)
    x = torch.cat([normal(2, FEATURES, device=device), torch.zeros(2, FEATURES, device=device)])
    model, grads = make(device, unit_rows=True), []
    for count in (2, 4):
        logits = model(x[:count], edges[:, :count])
        grads.append(torch.autograd.grad(logits.sum(), list(model.parameters())))
    for alone, both in zip(*grads, strict=True):
        torch.testing.assert_close(both, alone)


def test_unit_rows_normalises_states_to_unit_length(device):
    model = make(device, unit_rows=True)
    x = normal(NODES, FEATURES, device=device)
    z = by_active_set(model, x, dense_operator(True, device))
    size = z.square().sum(1, keepdim=True).sqrt().clamp(min=1e-12)
    want = z / size @ model.decoder.weight.T.cpu()
    torch.testing.assert_close(model(x, *graph(True, device)).cpu(), want, **TOLERANCE)


@pytest.mark.parametrize("parametrization", ["orthogonal", "monotone"])
def test_graphs_of_a_batch_are_independent_and_pooled(parametrization, device):
    x, edge_index, batch, alone = batch_of_graphs(device)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    model = make(device, parametrization=parametrization, level="graph")
    together = model(x, edge_index, batch=batch)
    assert together.shape == (4, CLASSES)
    assert not list(model.decoder.parameters())
    for index, edges in enumerate(alone):
        both = torch.cat([edges, edges.flip(0)], 1)
        torch.testing.assert_close(model(x[batch == index], both)[0], together[index], **TOLERANCE)


def test_vmapped_models_match_single_models(device):
    x = normal(NODES, FEATURES, device=device)
    models = drawn(lambda: make(device))
    assert_runs_are_each_alone(models, x, *graph(True, device), **TOLERANCE)


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_without_edges_the_states_are_known(nodes, device):
    x = normal(nodes, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    model = make(device, self_loops=False)  # nothing arrives
    torch.testing.assert_close(model(x, none), torch.zeros(nodes, CLASSES).to(x))
    model = make(device, parametrization="monotone")  # a self-loop alone has no Laplacian
    torch.testing.assert_close(model(x, none), torch.zeros(nodes, CLASSES).to(x))


def test_the_number_of_parameters_is_as_expected(device):
    count = sum(p.numel() for p in make(device).parameters())
    assert count == HIDDEN**2 + 1 + FEATURES * HIDDEN + HIDDEN * CLASSES
    other = sum(p.numel() for p in make(device, parametrization="monotone").parameters())
    assert other == count + HIDDEN**2


def test_an_operator_bounded_in_another_norm_has_no_certificate(device):
    edge_index, edge_weight = graph(True, device)
    propagation = Propagation.from_edge_index(edge_index, NODES, edge_weight, "row")
    model = make(device, tol=1e-8)
    model(normal(NODES, FEATURES, device=device), propagation)
    (record,) = model.solve_log.forward
    assert record.converged
    assert record.error_bound == float("inf")


def test_invalid_arguments_are_refused(device):
    with pytest.raises(ArgumentError, match="'parametrization' must be one of"):
        MIGNN(FEATURES, HIDDEN, CLASSES, parametrization="cayley")
    model = make(device, parametrization="monotone")
    x = normal(NODES, FEATURES, device=device)
    with pytest.raises(ArgumentError, match="must be undirected"):
        model(x, *graph(True, device))


def test_an_encoder_is_a_linear_map_before_the_equation_and_graphs_are_sums_of_logits(device):
    plain = MIGNN(HIDDEN, HIDDEN, CLASSES, tol=1e-12, dropout=0.0).to(device, torch.float64)
    model = make(device, encoder=True, level="graph")
    shared = {name: value for name, value in model.state_dict().items() if "encoder" not in name}
    plain.load_state_dict(shared)
    x, edge_index, batch, _ = batch_of_graphs(device)
    linear = model.encoder[0]
    rows = plain.eval()(x @ linear.weight.T + linear.bias, edge_index)
    wanted = torch.zeros(int(batch.max()) + 1, CLASSES, dtype=torch.float64, device=device)
    wanted = wanted.index_add(0, batch, rows)
    torch.testing.assert_close(model(x, edge_index, batch=batch), wanted, **TOLERANCE)


def test_dropout_of_an_encoder_acts_before_the_equation(device):
    model = make(device, encoder=True, dropout=0.5)
    x, edge_index, _, _ = batch_of_graphs(device)
    seen = []
    model.decoder.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    model.train()(x, edge_index)
    model(x, edge_index)
    assert not torch.equal(*seen)
    model.eval()(x, edge_index)
    assert torch.equal(seen[-1], model.states(x, model.propagation(x, edge_index)))
