"""Convolutions on an operator against PyG's on edge indices, with the same parameters."""

import math

import pytest
import torch
from torch_geometric import nn as pyg
from torch_geometric.utils import remove_self_loops, to_undirected

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.layers import convs
from problems import generator, lopsided_edges

NODES, FEATURES, HIDDEN = 9, 5, 4
TOLERANCE = {"rtol": 1e-9, "atol": 1e-11}


def normal(*shape, device, seed=1):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def twins(ours, theirs, device):
    """Give both the same non-zero parameters."""
    ours, theirs = ours.to(device, torch.float64), theirs.to(device, torch.float64)
    with torch.no_grad():
        for seed, parameter in enumerate(ours.parameters()):
            parameter.copy_(normal(*parameter.shape, device=device, seed=seed))
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def undirected(device):
    """Weighted and repeated edges, with two isolated nodes and without self-loops."""
    edges = remove_self_loops(*lopsided_edges(NODES))
    edge_index, edge_weight = to_undirected(*edges, num_nodes=NODES)
    return edge_index.to(device), edge_weight.to(device)


def assert_same_with_gradients(ours, theirs, known, wanted):
    torch.testing.assert_close(ours, theirs, **TOLERANCE)
    got = torch.autograd.grad(ours[3].pow(2).sum(), known)
    want = torch.autograd.grad(theirs[3].pow(2).sum(), wanted)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, **TOLERANCE)


NORMALISED = {
    "gcn": (
        lambda: convs.GCNConv(FEATURES, HIDDEN),
        lambda: pyg.GCNConv(FEATURES, HIDDEN),
    ),
    "appnp": (lambda: convs.APPNPConv(3, 0.2), lambda: pyg.APPNP(3, 0.2)),
    "mixhop": (
        lambda: convs.MixHopConv(FEATURES, HIDDEN, (3, 0, 1)),
        lambda: pyg.MixHopConv(FEATURES, HIDDEN, [3, 0, 1]),
    ),
    "gcn2": (
        lambda: convs.GCN2Conv(FEATURES, 0.3, 1.5, 2),
        lambda: pyg.GCN2Conv(FEATURES, 0.3, 1.5, 2),
    ),
    "gcn2*": (
        lambda: convs.GCN2Conv(FEATURES, 0.3, 1.5, 2, shared_weights=False),
        lambda: pyg.GCN2Conv(FEATURES, 0.3, 1.5, 2, shared_weights=False),
    ),
}


@pytest.mark.parametrize("name", NORMALISED)
def test_convolutions_match_pyg_on_an_undirected_graph(name, device):
    ours, theirs = twins(*(make() for make in NORMALISED[name]), device)
    edge_index, edge_weight = undirected(device)
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    first = (normal(NODES, FEATURES, device=device, seed=2),) if name.startswith("gcn2") else ()
    operator = Propagation.from_edge_index(edge_index, NODES, edge_weight, "sym")
    assert_same_with_gradients(
        ours(x, *first, operator),
        theirs(x, *first, edge_index, edge_weight),
        [x, *ours.parameters()],
        [x, *theirs.parameters()],
    )


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("aggr", ["mean", "sum", "max"])
def test_sage_matches_pyg_on_a_directed_graph_with_repeated_edges(aggr, project, device):
    ours, theirs = twins(
        convs.SAGEConv(FEATURES, HIDDEN, aggr, project=project),
        pyg.SAGEConv(FEATURES, HIDDEN, aggr, project=project),
        device,
    )
    edge_index = lopsided_edges(NODES)[0].to(device)
    operator = Propagation.from_edge_index(
        edge_index, NODES, None, "none", self_loops=False, dtype=torch.float64
    )
    x = normal(NODES, FEATURES, device=device).requires_grad_()
    # A repeated edge is a tie, which divides the gradient of PyG's maximum; the operator has one.
    unique = torch.unique(edge_index, dim=1) if aggr == "max" else edge_index
    assert_same_with_gradients(
        ours(x, operator),
        theirs(x, unique),
        [x, *ours.parameters()],
        [x, *theirs.parameters()],
    )


def test_sage_computes_the_weighted_mean_of_its_definition(device):
    edge_index = torch.tensor([[0, 1, 0, 2], [2, 2, 1, 2]], device=device)
    edge_weight = torch.tensor([1.0, 3.0, 5.0, 4.0], dtype=torch.float64, device=device)
    operator = Propagation.from_edge_index(edge_index, 4, edge_weight, "none", self_loops=False)
    conv = convs.SAGEConv(1, 1, root_weight=False, bias=False).to(device, torch.float64)
    with torch.no_grad():
        conv.lin_l.weight.fill_(1.0)
    x = torch.tensor([[8.0], [16.0], [2.0], [100.0]], dtype=torch.float64, device=device)
    want = [[0.0], [8.0], [(1 * 8 + 3 * 16 + 4 * 2) / 8], [0.0]]
    torch.testing.assert_close(conv(x, operator), x.new_tensor(want), **TOLERANCE)


def test_sage_mean_has_gradients_of_edge_weights(device):
    edge_index, edge_weight = (part.to(device) for part in lopsided_edges(NODES))
    conv = convs.SAGEConv(FEATURES, HIDDEN).to(device, torch.float64)
    x = normal(NODES, FEATURES, device=device)

    def value(edge_weight):
        operator = Propagation.from_edge_index(
            edge_index, NODES, edge_weight, "none", self_loops=False
        )
        return conv(x, operator)[:4]

    weight = edge_weight.requires_grad_()
    assert torch.autograd.gradcheck(value, (weight,), nondet_tol=1e-9)


def test_sage_mean_can_be_trained_after_inference_mode(device):
    edge_index = lopsided_edges(NODES)[0].to(device)
    conv = convs.SAGEConv(FEATURES, HIDDEN).to(device)
    operator = Propagation.from_edge_index(edge_index, NODES, None, "none", self_loops=False)
    x = normal(NODES, FEATURES, device=device).float()
    with torch.inference_mode():
        want = conv(x, operator)
    logits = conv(x, operator)
    assert torch.equal(logits, want)
    logits.sum().backward()
    assert conv.lin_l.weight.grad.abs().max() > 0


@pytest.mark.parametrize("power", [0, 1, 3])
def test_powers_are_powers_of_the_matrix(power, device):
    edge_index, edge_weight = (part.to(device) for part in lopsided_edges(NODES))
    operator = Propagation.from_edge_index(edge_index, NODES, edge_weight, "dir")
    conv, _ = twins(
        convs.GCNConv(FEATURES, HIDDEN, power=power), pyg.GCNConv(FEATURES, HIDDEN), device
    )
    x = normal(NODES, FEATURES, device=device)
    matrix = torch.linalg.matrix_power(operator.to_dense(), power)
    want = matrix @ x @ conv.lin.weight.T + conv.bias
    torch.testing.assert_close(conv(x, operator), want, **TOLERANCE)


def test_powers_match_pygs_simple_convolution(device):
    edge_index, edge_weight = undirected(device)
    operator = Propagation.from_edge_index(edge_index, NODES, edge_weight, "sym")
    theirs = pyg.SGConv(FEATURES, HIDDEN, K=3).to(device, torch.float64)
    ours = convs.GCNConv(FEATURES, HIDDEN, power=3).to(device, torch.float64)
    with torch.no_grad():
        ours.lin.weight.copy_(theirs.lin.weight)
        ours.bias.copy_(theirs.lin.bias)
    x = normal(NODES, FEATURES, device=device)
    torch.testing.assert_close(ours(x, operator), theirs(x, edge_index, edge_weight), **TOLERANCE)


def test_appnp_converges_to_the_solution_of_its_equation(device):
    edge_index, edge_weight = (part.to(device) for part in lopsided_edges(NODES))
    operator = Propagation.from_edge_index(edge_index, NODES, edge_weight, "dir")
    x = normal(NODES, FEATURES, device=device)
    system = torch.eye(NODES, dtype=x.dtype, device=device) - 0.5 * operator.to_dense()
    want = torch.linalg.solve(system, 0.5 * x)
    torch.testing.assert_close(convs.APPNPConv(60, 0.5)(x, operator), want, **TOLERANCE)


@pytest.mark.parametrize("wide", [torch.float64, torch.float32])
@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_the_operator_multiplies_in_its_own_precision(narrow, wide, device):
    edge_index = lopsided_edges(NODES)[0].to(device)
    operator = Propagation.from_edge_index(edge_index, NODES, None, "dir", dtype=wide)
    x = normal(NODES, FEATURES, device=device).to(narrow)
    got = convs.propagate(operator, x, 2)
    assert got.dtype is narrow
    want = torch.linalg.matrix_power(operator.to_dense(), 2) @ x.to(wide)
    torch.testing.assert_close(got, want.to(narrow))


def test_convolutions_support_mixed_precision(device):
    edge_index = lopsided_edges(NODES)[0].to(device)
    operator = Propagation.from_edge_index(edge_index, NODES, None, "none", self_loops=False)
    x = normal(NODES, FEATURES, device=device).float().requires_grad_()
    for conv in (convs.GCNConv(FEATURES, HIDDEN), convs.SAGEConv(FEATURES, HIDDEN)):
        conv.to(device)
        exact = conv(x, operator)
        with torch.autocast(device.type, torch.bfloat16):
            rough = conv(x, operator)
        rough.float().pow(2).sum().backward()
        torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.3)
        assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: convs.GCNConv(2, 2, power=-1),
        lambda: convs.GCNConv(2, 2, power=True),
        lambda: convs.APPNPConv(-1, 0.1),
        lambda: convs.APPNPConv(10, 1.5),
        lambda: convs.APPNPConv(10, math.nan),
        lambda: convs.GCN2Conv(2, -0.1, 1.0, 1),
        lambda: convs.GCN2Conv(2, 0.1, -1.0, 1),
        lambda: convs.GCN2Conv(2, 0.1, math.inf, 1),
        lambda: convs.MixHopConv(2, 2, ()),
        lambda: convs.MixHopConv(2, 2, (1, 1)),
        lambda: convs.MixHopConv(2, 2, (0, -1)),
        lambda: convs.MixHopConv(2, 2, 3),
        lambda: convs.SAGEConv(2, 2, "median"),
    ],
)
def test_invalid_arguments_of_convolutions_are_refused(make):
    with pytest.raises(ArgumentError, match=r"must .*\(got .*\)") as refusal:
        make()
    assert "\n" not in str(refusal.value)


def test_gin_matches_pyg(device):
    edge_index, _ = lopsided_edges(NODES)
    edge_index = edge_index.to(device)
    operator = Propagation.from_edge_index(
        edge_index, NODES, normalization="none", self_loops=False, dtype=torch.float64
    )
    ours, theirs = twins(
        convs.GINConv(torch.nn.Linear(FEATURES, HIDDEN), eps=0.3, train_eps=True),
        pyg.GINConv(torch.nn.Linear(FEATURES, HIDDEN), train_eps=True),
        device,
    )
    x = normal(NODES, FEATURES, device=device)
    got, want = ours(x, operator), theirs(x, edge_index)
    torch.testing.assert_close(got, want, **TOLERANCE)
    got[3].sum().backward()
    want[3].sum().backward()
    for mine, known in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, known.grad, **TOLERANCE)


def test_gin_keeps_the_dtype_of_its_input(device):
    edge_index = lopsided_edges(NODES)[0].to(device)
    operator = Propagation.from_edge_index(edge_index, NODES, normalization="none")
    layer = convs.GINConv(torch.nn.Identity()).to(device, torch.bfloat16)
    x = normal(NODES, FEATURES, device=device).bfloat16()
    assert layer(x, operator).dtype is torch.bfloat16
