"""EIGNN against its equation in all variants, including the published one."""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import nn

from mgnni import MGNNI, Propagation
from mgnni.errors import ArgumentError
from mgnni.models.eignn import EIGNN
from mgnni.solve.result import Options
from models.cases import (
    CLASSES,
    FEATURES,
    NODES,
    assert_runs_are_each_alone,
    assert_same_at_one_node,
    batch_of_graphs,
    dense_operator,
    drawn,
    graph,
    normal,
)
from problems import dense_propagation

TOLERANCE = {"rtol": 1e-8, "atol": 1e-10}


def make(device, **options) -> EIGNN:
    model = EIGNN(FEATURES, FEATURES, CLASSES, **{"tol": 1e-12, **options})
    return model.to(device, torch.float64).eval()


def gram(model: EIGNN) -> torch.Tensor:
    factor = model.equilibrium.factor[0]
    return factor.T @ factor / ((factor.T @ factor).square().sum().sqrt() + 1e-12)


def dense_states(model: EIGNN, x: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    n, h = x.shape
    system = torch.kron(p, gram(model).T.contiguous()) * model.equilibrium.gamma
    eye = torch.eye(n * h, dtype=x.dtype, device=x.device)
    return torch.linalg.solve(eye - system, x.flatten()).view(n, h)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("variant", ["iterative", "closed"])
def test_logits_and_gradients_match_the_equation(variant, directed, device):
    model = make(device, variant=variant, gamma=0.9)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    ours = model(x, *graph(directed, device))
    known = dense_states(model, x, dense_operator(directed, device)) @ model.head.linear.weight.T
    assert_same_at_one_node(ours, known, [x, *model.parameters()], **TOLERANCE)
    (record,) = model.solve_log.forward
    assert record.converged
    assert (record.solver == "spectral") == (variant == "closed" and not directed)
    assert model.solve_log.backward


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("variant", ["iterative", "closed", "published"])
def test_a_pass_does_not_change_the_options_of_the_layer(variant, directed, device):
    model = make(device, variant=variant)
    model.equilibrium.options = options = Options("picard", 1e-8)
    shown = repr(model)
    model(normal(NODES, FEATURES, device=device), *graph(directed, device))
    assert model.equilibrium.options is options
    assert repr(model) == shown
    if variant == "iterative":
        (record,) = model.solve_log.forward
        assert record.solver == "picard"


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("head", [{}, {"head": "residual", "head_channels": 6, "head_layers": 2}])
def test_eignn_is_mgnni_at_scale_one(head, directed, device):
    model = make(device, tol=1e-9, **head)
    other = MGNNI(FEATURES, FEATURES, CLASSES, (1,), 0.8, input_map="identity", dropout=0, **head)
    other = other.to(device, torch.float64).eval()
    state = model.state_dict()
    missing = other.load_state_dict(state, strict=False)
    assert all(name.startswith("fusion") for name in missing.missing_keys)
    assert not missing.unexpected_keys
    x = normal(NODES, FEATURES, device=device)
    edges = graph(directed, device)
    torch.testing.assert_close(model(x, *edges), other(x, *edges), rtol=1e-6, atol=1e-6)


def test_truncated_is_the_equation_of_the_nearest_operator_of_its_rank(device):
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    edge_index, edge_weight = graph(False, device)  # without self-loops, eigenvalues differ
    full = dense_propagation(edge_index, NODES, edge_weight, "sym", self_loops=False).to(device)
    u, s, v = torch.linalg.svd(full)
    for count in (1, 4, NODES + 5):
        model = make(device, variant="truncated", num_eigenpairs=count, self_loops=False)
        ours = model(x, *graph(False, device))
        few = (u[:, :count] * s[:count]) @ v[:count]
        known = dense_states(model, x, few) @ model.head.linear.weight.T
        assert_same_at_one_node(ours, known, [x, *model.parameters()], **TOLERANCE)
        exact = dense_states(model, x, full) @ model.head.linear.weight.T
        assert ((ours - exact).abs().max() < 1e-8) == (count >= NODES)


def test_published_reproduces_the_released_numbers_on_a_directed_graph(device):
    """The released formulas in NumPy, with nodes as columns and both errors."""
    model = make(device, variant="published")
    x = normal(NODES, FEATURES, device=device)
    edges = graph(True, device)
    z = model.states(x, Propagation.from_edge_index(edges[0], NODES, edges[1], "dir"))
    cotangent = normal(NODES, FEATURES, device=device, seed=4)
    z.backward(cotangent)

    s = dense_operator(True, device).T.cpu().numpy()
    factor = model.equilibrium.factor[0].detach().cpu().numpy()
    k = factor.T @ factor
    size, gamma = np.linalg.norm(k), model.equilibrium.gamma
    lambda_f, q_f = np.linalg.eigh(k / (size + 1e-12))
    lambda_s, q_s = (part.real for part in scipy.linalg.eig(s))
    inner = 1 / (1 - gamma * np.outer(lambda_f, lambda_s))
    want = q_f @ (inner * (q_f.T @ x.cpu().numpy().T @ q_s)) @ q_s.T
    torch.testing.assert_close(z.detach().cpu(), torch.from_numpy(want.T), **TOLERANCE)

    u = q_f @ (inner * (q_f.T @ cotangent.cpu().numpy().T @ q_s)) @ q_s.T
    r = u @ s @ want.T
    scale = 2 * (k * r).sum() / (size**2 + 1e-12 * size)
    grad = gamma / (size + 1e-12) * factor @ (r + r.T - scale * k)
    torch.testing.assert_close(
        model.equilibrium.factor.grad[0].cpu(), torch.from_numpy(grad), **TOLERANCE
    )

    right = dense_states(model, x, dense_operator(True, device))
    assert (z - right).norm() > 0.1 * right.norm()
    with torch.no_grad():
        propagation = Propagation.from_edge_index(edges[0], NODES, edges[1], "dir")
        torch.testing.assert_close(model.states(x, propagation), z)


@pytest.mark.parametrize("directed", [False, True], ids=["undirected", "directed"])
@pytest.mark.parametrize("variant", ["iterative", "closed", "truncated", "published"])
def test_without_propagation_the_states_are_the_features(variant, directed, device):
    """Except for the released closed form, whose transposed eigenvectors are not their inverse."""
    model = make(device, variant=variant, gamma=0.0)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    ours = model(x, *graph(directed, device))
    q = torch.eye(NODES, dtype=x.dtype, device=device)
    if variant == "published" and directed:
        p = dense_operator(True, device).T.cpu().numpy()
        q = torch.from_numpy(scipy.linalg.eig(p)[1].real).to(x)
        assert (q @ (q.T @ x) - x).norm() > 0.1 * x.norm()
    known = q @ (q.T @ x) @ model.head.linear.weight.T
    assert_same_at_one_node(ours, known, [x, model.head.linear.weight], **TOLERANCE)
    assert model.equilibrium.factor.grad is None
    assert not model.solve_log.forward


@pytest.mark.parametrize("variant", ["iterative", "published"])
def test_batch_norm_acts_before_the_decoder(variant, device):
    """The head of the authors on D_out^-1/2 (A + I) D_out^-1/2, right and as released."""
    model = make(device, variant=variant, normalization="out", batch_norm=True)
    norm, x = model.head.norm, normal(NODES, FEATURES, device=device)
    with torch.no_grad():
        norm.weight.copy_(normal(FEATURES, device=device, seed=5))
        norm.bias.copy_(normal(FEATURES, device=device, seed=6))
    edge_index, edge_weight = graph(True, device)
    p = dense_propagation(edge_index, NODES, edge_weight, "out").to(device)
    z = dense_states(model, x, p)
    if variant == "published":
        lambda_f, q_f = np.linalg.eigh(gram(model).detach().cpu().numpy())
        lambda_s, q_s = (part.real for part in scipy.linalg.eig(p.T.cpu().numpy()))
        inner = 1 / (1 - 0.8 * np.outer(lambda_f, lambda_s))
        known = q_f @ (inner * (q_f.T @ x.cpu().numpy().T @ q_s)) @ q_s.T
        z = torch.from_numpy(known.T).to(device)

    def logits(mean, variance):
        scaled = (z - mean) / (variance + 1e-5).sqrt() * norm.weight + norm.bias
        return scaled @ model.head.linear.weight.T

    mean, variance = z.mean(0), z.var(0, correction=0)
    training = model.train()(x, edge_index, edge_weight)
    torch.testing.assert_close(training, logits(mean, variance), **TOLERANCE)
    evaluated = model.eval()(x, edge_index, edge_weight)  # running statistics, momentum .1
    running = logits(0.1 * mean, 0.9 + 0.1 * z.var(0))
    torch.testing.assert_close(evaluated, running, **TOLERANCE)


def test_the_mlp_head_is_an_mlp_of_the_states(device):
    model = make(device, head="mlp", head_channels=6, head_layers=2)
    x = normal(NODES, FEATURES, device=device)
    z = dense_states(model, x, dense_operator(True, device))
    first, second = model.head.hidden.linear
    z = (z @ first.weight.T + first.bias).clamp(min=0)
    z = (z @ second.weight.T + second.bias).clamp(min=0)
    want = z @ model.head.last.weight.T + model.head.last.bias
    torch.testing.assert_close(model(x, *graph(True, device)), want, **TOLERANCE)


def test_published_is_right_on_an_undirected_graph(device):
    model = make(device, variant="published")
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    ours = model(x, *graph(False, device))
    known = dense_states(model, x, dense_operator(False, device)) @ model.head.linear.weight.T
    assert_same_at_one_node(ours, known, [x, *model.parameters()], **TOLERANCE)


def test_unit_rows_normalises_states_to_unit_length(device):
    model = make(device, unit_rows=True)
    x = normal(NODES, FEATURES, device=device)
    z = dense_states(model, x, dense_operator(True, device))
    want = (z / z.square().sum(1, keepdim=True).sqrt()) @ model.head.linear.weight.T
    torch.testing.assert_close(model(x, *graph(True, device)), want, **TOLERANCE)


def test_the_graph_head_is_an_mlp_a_sum_and_an_mlp(device):
    model = make(device, head="graph", head_channels=6)
    x, edge_index, batch, _ = batch_of_graphs(device)
    ones = torch.ones(edge_index.size(1))
    z = dense_states(model, x, dense_propagation(edge_index, len(x), ones, "dir").to(device))
    for linear in model.head.linear:
        z = (z @ linear.weight.T + linear.bias).clamp(min=0)
    assert z.shape == (len(x), 6)
    assert len(model.head.linear) == 3
    sums = torch.stack([z[batch == index].sum(0) for index in range(4)])
    first, last = model.readout.first, model.readout.last
    inner = (sums @ first.weight.T + first.bias).clamp(min=0)
    want = inner @ last.weight.T + last.bias
    torch.testing.assert_close(model(x, edge_index, batch=batch), want, **TOLERANCE)
    assert model.level == "graph"


@pytest.mark.parametrize("variant", ["iterative", "closed", "truncated", "published"])
def test_graphs_of_a_batch_are_independent(variant, device):
    x, edge_index, batch, alone = batch_of_graphs(device)
    if variant == "truncated":
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
        alone = [torch.cat([one, one.flip(0)], 1) for one in alone]
    model = make(device, variant=variant, num_eigenpairs=2, level="node")
    together = model(x, edge_index, batch=batch)
    for index, edges in enumerate(alone):
        mine = batch == index
        torch.testing.assert_close(model(x[mine], edges), together[mine], **TOLERANCE)


@pytest.mark.parametrize("variant", ["iterative", "closed", "truncated", "published"])
def test_vmapped_models_match_single_models(variant, device):
    edges = graph(variant != "truncated", device)
    x = normal(NODES, FEATURES, device=device)
    models = drawn(lambda: make(device, variant=variant, num_eigenpairs=3))
    assert_runs_are_each_alone(models, x, *edges, inside=True, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("variant", ["iterative", "closed", "truncated", "published"])
@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_without_edges_the_states_are_known(variant, nodes, device):
    model = make(device, variant=variant, self_loops=False)
    x = normal(nodes, FEATURES, device=device)
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    torch.testing.assert_close(model(x, none), x @ model.head.linear.weight.T)
    loops = make(device, variant=variant)  # z = gamma z g(F) + x at every node
    eye = torch.eye(FEATURES, dtype=torch.float64, device=device)
    want = torch.linalg.solve(eye - 0.8 * gram(loops), x, left=False) @ loops.head.linear.weight.T
    torch.testing.assert_close(loops(x, none), want)


def test_the_parameters_are_a_factor_and_a_decoder(device):
    model = make(device)
    assert sum(p.numel() for p in model.parameters()) == FEATURES**2 + FEATURES * CLASSES
    wide = EIGNN(400, 400, 50)
    assert wide.head.linear.weight.std().item() == pytest.approx(400**-0.5, rel=0.05)
    assert wide.equilibrium.factor.abs().max().item() <= (6 / 800) ** 0.5


def test_dropout_acts_in_training_only(device):
    model = make(device, dropout=0.5)
    x, edges = normal(NODES, FEATURES, device=device), graph(True, device)
    torch.testing.assert_close(model(x, *edges), model(x, *edges), rtol=0, atol=0)
    model.train()
    assert (model(x, *edges) != model(x, *edges)).any()
    assert not any(isinstance(part, nn.Dropout) for part in model.modules())


def test_invalid_arguments_are_refused(device):
    with pytest.raises(ArgumentError, match="'hidden_channels' must equal in_channels"):
        EIGNN(FEATURES, FEATURES + 1, CLASSES)
    with pytest.raises(ArgumentError, match="'variant' must be one of"):
        EIGNN(FEATURES, FEATURES, CLASSES, variant="exact")
    with pytest.raises(ArgumentError, match="'level' must be 'graph'"):
        EIGNN(FEATURES, FEATURES, CLASSES, head="graph", level="node")
    with pytest.raises(ArgumentError, match="'batch_norm' must be False without head='linear'"):
        EIGNN(FEATURES, FEATURES, CLASSES, head="mlp", batch_norm=True)
    with pytest.raises(ArgumentError, match="must be symmetric"):
        make(device, variant="truncated")(
            normal(NODES, FEATURES, device=device), *graph(True, device)
        )
    x = normal(NODES, FEATURES, device=device)
    x[1, 2] = float("nan")
    with pytest.raises(ArgumentError, match=r"'x' must be finite .* row 1, column 2"):
        make(device)(x, *graph(True, device))
