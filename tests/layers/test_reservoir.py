"""Reservoirs: random weights, contraction and states."""

import pytest
import torch

from mgnni import NotContractiveError, Propagation
from mgnni.errors import ArgumentError
from mgnni.layers.readout import RandomReadout
from mgnni.layers.reservoir import Reservoir, random_weight
from models.cases import NODES, PARTS, batch_of_graphs, graph, normal

CHANNELS, FEATURES = 6, 5
OPTIONS = {
    "rho": 0.95,
    "omega": 1.5,
    "connections": None,
    "input_connections": None,
    "max_degree": None,
    "solver": "anderson",
    "tol": 1e-12,
    "max_iter": None,
}


def make(device, **options):
    layer = Reservoir(FEATURES, CHANNELS, **{**OPTIONS, **options})
    return layer.to(device, torch.float64)


def operator(edge_index, num_nodes, edge_weight=None, batch=None):
    return Propagation.from_edge_index(
        edge_index, num_nodes, edge_weight, "none", False, batch=batch, dtype=torch.float64
    )


def dense(edge_index, num_nodes, edge_weight):
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64, device=edge_index.device)
    return matrix.index_put((edge_index[1], edge_index[0]), edge_weight, accumulate=True)


def norm_of(weight):
    """The largest singular value, by the eigenvalues of the Gram matrix."""
    return torch.linalg.eigvalsh(weight.double().T @ weight.double())[-1].sqrt().item()


@pytest.mark.parametrize("connections", [None, 1, 3, 99])
def test_random_weights_have_the_requested_norm_and_sparsity(connections):
    weight = random_weight(7, 9, 0.6, connections)
    assert norm_of(weight) == pytest.approx(0.6, rel=1e-6)
    count = (weight != 0).sum(1)
    assert torch.equal(count, torch.full((7,), min(connections or 9, 9)))
    assert (weight < 0).any()
    assert (weight > 0).any()


def test_random_weights_depend_on_the_seed_and_not_on_the_device(device):
    torch.manual_seed(5)
    layer = make(device)
    torch.manual_seed(5)
    same = make(device)
    torch.manual_seed(6)
    other = make(device)
    for name, buffer in layer.named_buffers():
        assert torch.equal(buffer, same.get_buffer(name))
    assert not torch.equal(layer.weight, other.weight)
    torch.manual_seed(5)
    other.reset_parameters()
    assert torch.equal(layer.weight, other.weight)
    assert torch.equal(layer.input_weight, other.input_weight)
    assert not list(layer.parameters())
    assert {"weight", "input_weight", "contraction"} <= set(layer.state_dict())


@pytest.mark.parametrize("max_degree", [None, 40])
@pytest.mark.parametrize("directed", [False, True])
def test_states_match_a_dense_iteration(directed, max_degree, device):
    layer = make(device, max_degree=max_degree)
    edge_index, edge_weight = graph(directed, device)
    a = dense(edge_index, NODES, edge_weight)
    k = max_degree or (a.sum(1).max() * a.sum(0).max()).sqrt()
    x = normal(NODES, FEATURES, device=device)
    z = torch.zeros(NODES, CHANNELS, dtype=torch.float64, device=device)
    for _ in range(800):
        z = torch.tanh(x @ layer.input_weight.T + a @ z @ layer.weight.T / k)
    got = layer(x, operator(edge_index, NODES, edge_weight))
    torch.testing.assert_close(got, z, rtol=0, atol=1e-10)
    (stats,) = layer.solve.log.forward
    assert stats.converged
    assert (got - z).norm() <= stats.error_bound < 1e-8


def test_the_certificate_holds_where_the_solve_is_loose(device):
    edge_index, edge_weight = graph(True, device)
    x, p = normal(NODES, FEATURES, device=device), operator(edge_index, NODES, edge_weight)
    torch.manual_seed(1)
    exact = make(device)(x, p)
    torch.manual_seed(1)
    layer = make(device, tol=1e-2, solver="picard")
    error = (layer(x, p) - exact).norm()
    (stats,) = layer.solve.log.forward
    assert 1e-9 < error <= stats.error_bound < 10


@pytest.mark.parametrize("connections", [None, 1])
def test_the_map_contracts_by_rho(connections, device):
    """Embedding stability: the distance of two states shrinks by rho in every step."""
    layer = make(device, connections=connections)
    edge_index, edge_weight = graph(True, device)
    a = dense(edge_index, NODES, edge_weight)
    share = a / layer.degree(operator(edge_index, NODES, edge_weight))
    product = torch.kron(share, layer.weight)
    norm = torch.linalg.matrix_norm(product, 2).item()
    assert norm <= layer.contraction.item() <= 0.95 * (1 + 2e-5)
    star = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 0, 0, 0]], device=device)
    undirected = operator(torch.cat([star, star.flip(0)], dim=1), 6)
    ring = torch.arange(6, device=device)
    cycle = operator(torch.stack([ring, ring.roll(1)]), 6)
    for p in (undirected, cycle):  # on a regular graph the bound is reached
        share = p.to_dense() / layer.degree(p)
        norm = torch.linalg.matrix_norm(torch.kron(share, layer.weight), 2).item()
        assert norm <= layer.contraction.item()
    assert norm == pytest.approx(0.95, rel=1e-5)


def test_graphs_of_a_batch_are_independent(device):
    layer = make(device)
    x, edge_index, batch, alone = batch_of_graphs(device)
    together = layer(x, operator(edge_index, len(x), batch=batch))
    for states, part, edges in zip(together.split(PARTS), x.split(PARTS), alone, strict=True):
        torch.testing.assert_close(
            layer(part, operator(edges, len(part))), states, rtol=0, atol=1e-9
        )


def test_states_without_edges_depend_on_the_input_only(device):
    none = torch.empty(2, 0, dtype=torch.long, device=device)
    for layer in (make(device), make(device, max_degree=3)):
        for nodes in (0, 1, 3):
            x = normal(nodes, FEATURES, device=device)
            want = torch.tanh(x @ layer.input_weight.T)
            torch.testing.assert_close(layer(x, operator(none, nodes)), want)


def test_a_degree_above_the_largest_is_refused(device):
    layer = make(device, max_degree=2)
    star = torch.tensor([[1, 2, 3, 0, 0, 0], [0, 0, 0, 1, 2, 3]], device=device)
    x = normal(4, FEATURES, device=device)
    with pytest.raises(NotContractiveError, match=r"largest degree, 3 .*leave it out"):
        layer(x, operator(star, 4))
    layer.max_degree = 3
    assert layer(x, operator(star, 4)).shape == (4, CHANNELS)


@pytest.mark.parametrize("rho", [-0.1, 1.0, float("nan"), "0.9"])
def test_a_rho_that_does_not_contract_is_refused(rho, device):
    with pytest.raises(ArgumentError, match="'rho' must lie in"):
        make(device, rho=rho)


@pytest.mark.parametrize("omega", [0, -1.0, float("inf")])
def test_an_omega_that_scales_to_nothing_is_refused(omega, device):
    with pytest.raises(ArgumentError, match=r"'omega' must lie in \(0, inf\)"):
        make(device, omega=omega)


@pytest.mark.parametrize("channels", [None, 9])
def test_the_readout_learns_its_last_map_only(channels, device):
    readout = RandomReadout(CHANNELS, channels, 2, 0.0).to(device, torch.float64)
    x = normal(4, CHANNELS, device=device)
    linear = readout.linear
    features = x if channels is None else torch.tanh(x @ readout.project.T)
    want = features @ linear.weight.T + linear.bias
    torch.testing.assert_close(readout(x), want)
    assert [name for name, _ in readout.named_parameters()] == ["linear.weight", "linear.bias"]
    if channels is not None:
        assert norm_of(readout.project) == pytest.approx(1, rel=1e-6)
        assert "project" in readout.state_dict()
