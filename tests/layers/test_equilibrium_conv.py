"""EquilibriumConv against the dense solution of its equations, and among PyG's own modules."""

import copy
import pickle

import pytest
import torch
from torch.autograd import gradcheck
from torch_geometric.nn import GCNConv, Sequential

import mgnni
from mgnni import ArgumentError, EquilibriumConv, Propagation
from problems import dense_propagation, generator, lopsided_edges

NODES, FEATURES, CHANNELS = 9, 5, 4
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def inputs(device):
    """Features and a directed, weighted graph with a self-loop and repeated edges."""
    x = torch.randn(NODES, FEATURES, dtype=torch.float64, generator=generator(1)).to(device)
    edge_index, edge_weight = lopsided_edges(NODES)
    return x, edge_index.to(device), edge_weight.double().to(device)


def make(device, **options):
    torch.manual_seed(0)
    conv = EquilibriumConv(FEATURES, CHANNELS, **{"tol": 1e-12, **options})
    return conv.to(device, torch.float64)


def dense_solution(conv, x, edge_index, edge_weight):
    """Solve the equations by dense algebra, differentiable by autograd."""
    options = conv.graph_options
    p = dense_propagation(
        edge_index, len(x), edge_weight, "dir", options["self_loops"], options["flow"]
    ).to(x.device)
    bias = x @ conv.lin.weight.T + conv.lin.bias
    states = []
    for scale, factor in zip(conv.equilibrium.scales, conv.equilibrium.factor, strict=True):
        gram = factor.T @ factor
        weight = gram / (gram.norm() + 1e-12)
        power = torch.linalg.matrix_power(p, scale)
        system = torch.eye(bias.numel(), dtype=torch.float64, device=x.device)
        system = system - conv.equilibrium.gamma * torch.kron(power, weight.T.contiguous())
        states.append(torch.linalg.solve(system, bias.flatten()).view_as(bias))
    z = torch.stack(states)
    if len(states) == 1:
        return z[0]
    attention = getattr(conv.fusion, "query", None)
    if attention is None:
        return z.mean(0)
    hidden = torch.tanh(z @ conv.fusion.project.weight.T + conv.fusion.project.bias)
    share = (hidden @ attention.weight[0]).softmax(0).unsqueeze(-1)
    return (share * z).sum(0)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scales": (1, 2)},
        {"scales": (3, 1, 2), "fusion": "mean", "gamma": 0.5},
        {"scales": (2,), "self_loops": False, "flow": "target_to_source"},
    ],
    ids=str,
)
def test_equilibrium_conv_is_the_dense_solution_with_its_gradients(options, device):
    conv = make(device, **options)
    x, edge_index, edge_weight = inputs(device)
    x.requires_grad_()
    ours = conv(x, edge_index, edge_weight)
    want = dense_solution(conv, x, edge_index, edge_weight)
    assert ours.shape == (NODES, CHANNELS)
    torch.testing.assert_close(ours, want, **CLOSE)
    wanted = [x, *conv.parameters()]
    got, known = (torch.autograd.grad(y[3].square().sum(), wanted) for y in (ours, want))
    for one, other in zip(got, known, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_equilibrium_conv_passes_gradcheck(device):
    conv = make(device, scales=(1, 2))
    x, edge_index, edge_weight = inputs(device)
    x.requires_grad_()
    edge_weight.requires_grad_()
    assert gradcheck(lambda x, w: conv(x, edge_index, w), (x, edge_weight))


def test_equilibrium_conv_works_inside_of_pygs_sequential(device):
    x, edge_index, edge_weight = inputs(device)
    torch.manual_seed(0)
    model = Sequential(
        "x, edge_index, edge_weight",
        [
            (GCNConv(FEATURES, 6), "x, edge_index, edge_weight -> x"),
            torch.nn.ReLU(inplace=True),
            (EquilibriumConv(6, CHANNELS, scales=(1, 2)), "x, edge_index, edge_weight -> x"),
            (EquilibriumConv(-1, 3), "x, edge_index -> x"),
            torch.nn.Linear(3, 2),
        ],
    ).to(device, torch.float64)
    logits = model(x, edge_index, edge_weight)
    assert logits.shape == (NODES, 2)
    first, _, second, third, last = model
    want = last(
        third(second(first(x, edge_index, edge_weight).relu(), edge_index, edge_weight), edge_index)
    )
    torch.testing.assert_close(logits, want)
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_a_sparse_adjacency_gives_the_output_of_its_edges(layout, device):
    conv = make(device, scales=(1, 2))
    x, edge_index, edge_weight = inputs(device)
    adj_t = torch.sparse_coo_tensor(edge_index.flip(0), edge_weight, (NODES, NODES)).coalesce()
    adj_t = adj_t if layout is torch.sparse_coo else adj_t.to_sparse_csr()
    torch.testing.assert_close(conv(x, adj_t), conv(x, edge_index, edge_weight), **CLOSE)


def test_a_propagation_gives_the_output_of_its_edges(device):
    conv = make(device)
    x, edge_index, edge_weight = inputs(device)
    propagation = Propagation.from_edge_index(
        edge_index, NODES, edge_weight, "auto", dtype=torch.float64
    )
    torch.testing.assert_close(conv(x, propagation), conv(x, edge_index, edge_weight), **CLOSE)


def test_graphs_of_a_batch_are_independent(device):
    conv = make(device, scales=(1, 2))
    x, edge_index, edge_weight = inputs(device)
    both = torch.cat([edge_index, edge_index + NODES], dim=1)
    batch = torch.arange(2, device=device).repeat_interleave(NODES)
    out = conv(torch.cat([x, 3 * x]), both, edge_weight.repeat(2), batch, 2)
    for stats in conv.solve_log.forward:  # a certificate per graph
        assert stats.converged
        assert stats.graph_error_bound.shape == (2,)
    torch.testing.assert_close(out[:NODES], conv(x, edge_index, edge_weight), **CLOSE)
    torch.testing.assert_close(out[NODES:], conv(3 * x, edge_index, edge_weight), **CLOSE)


def test_the_repr_is_like_that_of_pygs_convolutions():
    conv = EquilibriumConv(16, 32, scales=(1, 2))
    assert repr(conv) == "EquilibriumConv(16, 32, scales=(1, 2), gamma=0.8)"


def test_lazy_channels_are_those_of_the_first_input(device):
    x, edge_index, _ = inputs(device)
    conv = EquilibriumConv(-1, CHANNELS).to(device, torch.float64)
    assert repr(conv) == "EquilibriumConv(-1, 4, scales=(1,), gamma=0.8)"
    assert conv(x, edge_index).shape == (NODES, CHANNELS)
    assert conv.lin.weight.shape == (CHANNELS, FEATURES)


def test_reset_parameters_and_copies(device):
    conv = make(device, scales=(1, 2))
    x, edge_index, edge_weight = inputs(device)
    want = conv(x, edge_index, edge_weight)
    for twin in (copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        torch.testing.assert_close(twin(x, edge_index, edge_weight), want, rtol=0, atol=0)
    before = {name: p.detach().clone() for name, p in conv.named_parameters()}
    conv.reset_parameters()
    changed = {name for name, p in conv.named_parameters() if not torch.equal(p, before[name])}
    assert changed == set(before) - {"lin.bias"} or changed == set(before)


def test_a_single_scale_has_no_fusion_parameters():
    names = [name for name, _ in EquilibriumConv(3, 4).named_parameters()]
    assert names == ["lin.weight", "lin.bias", "equilibrium.factor"]
    assert EquilibriumConv(3, 4, bias=False).lin.bias is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_channels": 0}, "'in_channels'"),
        ({"out_channels": 0}, "'out_channels'"),
        ({"scales": ()}, "'scales'"),
        ({"gamma": 1.0}, "'gamma'"),
        ({"fusion": "max"}, "'fusion'"),
        ({"normalization": "symm"}, "'normalization' .*did you mean 'sym'"),
        ({"self_loops": True, "add_self_loops": True}, "'add_self_loops'"),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        EquilibriumConv(**{"in_channels": 3, "out_channels": 4, **options})


def test_features_that_are_not_finite_are_named(device):
    x, edge_index, _ = inputs(device)
    x[2, 1] = float("nan")
    with pytest.raises(ArgumentError, match=r"'x' .*got nan at row 2, column 1"):
        make(device)(x, edge_index)


def test_equilibrium_conv_is_public():
    assert mgnni.EquilibriumConv is EquilibriumConv
    assert {"EquilibriumConv", "FDGNN", "normalized_gram"} <= set(mgnni.__all__)


@pytest.mark.parametrize("grad", [False, True])
def test_states_of_one_pass_do_not_change_with_those_of_another(grad, device):
    x, edge_index, _ = inputs(device)
    conv = EquilibriumConv(FEATURES, CHANNELS).double().to(device)
    with torch.set_grad_enabled(grad):
        passes = [conv(x, edge_index) for _ in range(3)]
    before = passes[0].detach().clone()
    passes[2].relu_()
    passes[1].mul_(2)
    torch.testing.assert_close(passes[0], before, rtol=0, atol=0)
    if grad:
        passes[0].sum().backward()


def test_a_weight_that_the_caller_changes_does_not_change_the_layer(device):
    x, edge_index, _ = inputs(device)
    conv = EquilibriumConv(FEATURES, CHANNELS).double().to(device)
    with torch.no_grad():
        want = conv(x, edge_index).clone()
        conv.equilibrium.weight(x.dtype, x.device).mul_(0.1)
        torch.testing.assert_close(conv(x, edge_index), want, rtol=0, atol=0)
        torch.testing.assert_close(copy.deepcopy(conv)(x, edge_index), want, rtol=1e-6, atol=1e-9)


def test_an_operation_in_place_may_follow_the_layer(device):
    x, edge_index, edge_weight = inputs(device)
    conv = EquilibriumConv(FEATURES, CHANNELS).double().to(device)
    gradients = []
    for relu in (torch.nn.ReLU(), torch.nn.ReLU(inplace=True)):
        conv.zero_grad()
        relu(conv(x, edge_index, edge_weight)).square().sum().backward()
        gradients.append([one.grad.clone() for one in conv.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
