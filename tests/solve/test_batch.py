"""Graphs of a batch are separate problems, each with its own solution and certificate."""

import pytest
import torch
from torch import Tensor

from mgnni import Propagation, SolveResult, solve_equilibrium
from mgnni.solve.prepare import METHODS
from problems import admits, chain, dense_solution, generator, weight

ITERATIVE = ("picard", "anderson", "cg", "gmres")
GAMMA, CHANNELS = 0.95, 3
solvers = pytest.mark.parametrize("solver", [*METHODS, "auto"])

Graph = tuple[Tensor, Tensor]  # edge_index, bias


def complete(num_nodes: int) -> Tensor:
    nodes = torch.arange(num_nodes)
    edge_index = torch.cartesian_prod(nodes, nodes).T
    return edge_index[:, edge_index[0] != edge_index[1]]


def stiff(directed: bool) -> Graph:
    """A long chain with a constant bias, which is the slow direction."""
    edge_index = chain(24)
    if directed:  # both ways along the chain, and one short cut
        edge_index = torch.cat([edge_index, torch.tensor([[3], [17]])], dim=1)
    return edge_index, torch.ones(24, CHANNELS, dtype=torch.float64)


def easy(size: int, seed: int, directed: bool) -> Graph:
    """A complete graph with a bias that the first product nearly cancels."""
    bias = torch.randn(size, CHANNELS, dtype=torch.float64, generator=generator(seed))
    bias = 10.0 ** (seed % 5 - 2) * (bias - bias.mean(0))
    edge_index = complete(size)
    return edge_index[:, 1:] if directed else edge_index, bias


def joined(graphs: list[Graph], normalization: str, device: torch.device):
    first, edges, batch, biases = 0, [], [], []
    for number, (edge_index, bias) in enumerate(graphs):
        edges.append(edge_index + first)
        batch += [number] * len(bias)
        biases.append(bias)
        first += len(bias)
    operator = Propagation.from_edge_index(
        torch.cat(edges, dim=1).to(device),
        first,
        normalization=normalization,
        batch=torch.tensor(batch).to(device),
        dtype=torch.float64,
    )
    return operator, torch.cat(biases).to(device)


def alone(graph: Graph, normalization: str, device: torch.device):
    edge_index, bias = graph
    operator = Propagation.from_edge_index(
        edge_index.to(device), len(bias), normalization=normalization, dtype=torch.float64
    )
    return operator, bias.to(device)


def solve(operator, bias, solver, tol, **options) -> SolveResult:
    w = weight("rank-one", CHANNELS).to(bias.device)
    if not admits(solver, operator, w):
        pytest.skip("needs a symmetric operator")
    return solve_equilibrium(operator, w, bias, 2, GAMMA, solver=solver, tol=tol, **options)


def batch_of(directed: bool) -> list[Graph]:
    """Seven easy graphs with the stiff one among them."""
    graphs = [easy(3 + seed % 4, seed, directed) for seed in range(7)]
    graphs.insert(3, stiff(directed))
    return graphs


@pytest.mark.parametrize("tol", [1e-4, 1e-9])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row"])
@solvers
def test_a_graph_is_solved_independently_of_its_batch(solver, normalization, tol, device):
    directed = normalization != "sym"
    graphs = batch_of(directed)
    together, bias = joined(graphs, normalization, device)
    result = solve(together, bias, solver, tol)
    w = weight("rank-one", CHANNELS).to(device)
    singles = []
    for number, graph in enumerate(graphs):
        operator, own = alone(graph, normalization, device)
        single = solve(operator, own, solver, tol)
        singles.append(single)
        rows = together.graph_of_node() == number
        gap = (result.value[rows] - single.value).norm().item()
        assert gap <= 1e-12 * single.value.norm().item()
        # The allowance for rounding depends on the longest row of the batch.
        expected = dense_solution(operator, w, own, 2, GAMMA)
        error = (result.value[rows] - expected).norm().item()
        bound = result.graph_error_bound[number].item()
        assert error <= bound + 1e-13 * expected.norm().item()
        assert bound == pytest.approx(single.error_bound, rel=0.3)
        assert result.graph_relative_residual[number].item() <= tol
        if solver in ITERATIVE:
            assert int(result.graph_iterations[number]) == single.iterations
    for name in ("error_bound", "relative_residual", "iterations", "residual"):
        worst = max(getattr(single, name) for single in singles)
        assert getattr(result, name) == pytest.approx(worst, rel=0.3, abs=1e-13)

    # The same graphs at other positions of another batch.
    others = [graphs[3], easy(5, 11, directed), graphs[0]]
    operator, bias = joined(others, normalization, device)
    again = solve(operator, bias, solver, tol)
    for place, number in ((0, 3), (2, 0)):
        mine = again.value[operator.graph_of_node() == place]
        gap = (mine - singles[number].value).norm().item()
        assert gap <= 1e-12 * singles[number].value.norm().item()


@solvers
def test_nodes_of_a_graph_need_not_be_adjacent(solver, device):
    operator, bias = joined(batch_of(False), "sym", device)
    order = torch.randperm(operator.num_nodes, generator=generator(9)).to(device)
    place = torch.argsort(order)
    row, col = operator.pattern.row, operator.pattern.col.long()
    edge_index = place[torch.stack([col, row])[:, col != row]]
    mixed = Propagation.from_edge_index(
        edge_index, operator.num_nodes, batch=operator.batch[order], dtype=torch.float64
    )
    torch.testing.assert_close(mixed.to_dense(), operator.to_dense()[order][:, order])
    before = solve(operator, bias, solver, 1e-6)
    after = solve(mixed, bias[order], solver, 1e-6)
    torch.testing.assert_close(after.value, before.value[order], rtol=1e-11, atol=1e-11)
    assert after.graph_iterations.tolist() == before.graph_iterations.tolist()


@pytest.mark.parametrize("solver", ITERATIVE)
def test_every_graph_takes_its_own_number_of_steps(solver, device):
    operator, bias = joined(batch_of(False), "sym", device)
    steps = solve(operator, bias, solver, 1e-9).graph_iterations.tolist()
    slowest = steps.pop(3)
    assert max(steps) <= 3
    assert slowest > 3 * max(steps)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_a_finished_graph_does_not_move_while_others_iterate(solver, device):
    """Its states are the same whether the stiff graph takes many steps or none."""
    operator, bias = joined(batch_of(False), "sym", device)
    stiff_nodes = operator.graph_of_node() == 3
    slow = solve(operator, bias, solver, 1e-9)
    assert int(slow.graph_iterations[3]) > 3 * int(slow.graph_iterations[4])
    fast = solve(operator, bias * ~stiff_nodes.unsqueeze(1), solver, 1e-9)
    assert int(fast.graph_iterations[3]) == 0
    finished = slow.value[~stiff_nodes]
    torch.testing.assert_close(finished, fast.value[~stiff_nodes], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_graphs_that_finish_one_after_another_are_solved(solver, device):
    """Chains of all lengths: finished ones are frozen first and removed later."""
    graphs = []
    for size in range(2, 20):  # odd functions, without the slowest direction
        bias = torch.linspace(-1, 1, size, dtype=torch.float64).unsqueeze(1)
        graphs.append((chain(size), bias.repeat(1, CHANNELS)))
    operator, bias = joined(graphs, "sym", device)
    result = solve(operator, bias, solver, 1e-8)
    w = weight("rank-one", CHANNELS).to(device)
    assert len(set(result.graph_iterations.tolist())) > 3
    for number, graph in enumerate(graphs):
        single_operator, own = alone(graph, "sym", device)
        single = solve(single_operator, own, solver, 1e-8)
        mine = result.value[operator.graph_of_node() == number]
        assert (mine - single.value).norm() <= 1e-12 * single.value.norm()
        assert int(result.graph_iterations[number]) == single.iterations
        expected = dense_solution(single_operator, w, own, 2, GAMMA)
        assert (mine - expected).norm().item() <= result.graph_error_bound[number].item()


@solvers
def test_graphs_without_nodes_or_bias_take_no_steps(solver, device):
    edge_index = (chain(5) + 1).to(device)
    batch = torch.tensor([0, 2, 2, 2, 2, 2, 4], device=device)  # 1 and 3 have no nodes
    operator = Propagation.from_edge_index(edge_index, 7, batch=batch, dtype=torch.float64)
    bias = torch.ones(7, CHANNELS, dtype=torch.float64, device=device)
    bias[6] = 0
    result = solve(operator, bias, solver, 1e-9)
    assert result.graph_error_bound.shape == (5,)
    assert result.graph_error_bound[[1, 3, 4]].tolist() == [0.0, 0.0, 0.0]
    assert bool((result.value[6] == 0).all())
    if solver in ITERATIVE:
        assert result.graph_iterations[[1, 3, 4]].tolist() == [0, 0, 0]
    w = weight("rank-one", CHANNELS).to(device)
    expected = dense_solution(operator, w, bias, 2, GAMMA)
    assert (result.value - expected).norm() <= 1e-6 * expected.norm()


@solvers
def test_a_batch_of_one_graph_is_solved_as_that_graph(solver, device):
    graph = stiff(False)
    result = solve(*joined([graph], "sym", device), solver, 1e-7)
    single = solve(*alone(graph, "sym", device), solver, 1e-7)
    assert (result.value - single.value).norm() <= 1e-12 * single.value.norm()
    assert result.graph_iterations.tolist() == single.graph_iterations.tolist()
    assert result.error_bound == pytest.approx(single.error_bound, rel=1e-6)


@pytest.mark.parametrize("solver", ["picard", "gmres", "series"])
def test_a_graph_is_solved_independently_of_one_far_from_normal(solver, device):
    """A one-way chain, on which minimal residuals stand still, beside an ordinary one.

    Rounding is amplified there, so the limit is wider; Anderson's mixing amplifies it to the size
    of the tolerance, whatever stands beside it.
    """
    nodes = torch.arange(30)
    bias = torch.zeros(30, CHANNELS, dtype=torch.float64)
    bias[0] = 1.0
    awkward = torch.stack([nodes[:-1], nodes[1:]]), bias
    plain = chain(40), torch.linspace(-1, 2, 40, dtype=torch.float64).unsqueeze(1).repeat(1, 3)
    eye = torch.eye(CHANNELS, dtype=torch.float64, device=device)
    options = {"scale": 1, "gamma": 0.99, "solver": solver, "tol": 1e-6}
    operator, biases = joined([awkward, plain], "out", device)
    result = solve_equilibrium(operator, eye, biases, **options)
    for number, graph in enumerate((awkward, plain)):
        single_operator, own = alone(graph, "out", device)
        single = solve_equilibrium(single_operator, eye, own, **options)
        mine = result.value[operator.graph_of_node() == number]
        assert (mine - single.value).norm() <= 1e-9 * single.value.norm()
        if solver in ITERATIVE:
            assert int(result.graph_iterations[number]) == single.iterations


def test_corrections_are_decided_per_graph(device):
    """Near the rounding of float32 some graphs need a correction."""
    graphs = [
        (chain(size), torch.randn(size, CHANNELS, generator=generator(size)))
        for size in (3, 9, 17, 40)
    ]
    eye = torch.eye(CHANNELS, device=device)
    edges, biases, batch, first = [], [], [], 0
    for number, (edge_index, bias) in enumerate(graphs):
        edges.append(edge_index + first)
        biases.append(bias)
        batch += [number] * len(bias)
        first += len(bias)
    operator = Propagation.from_edge_index(
        torch.cat(edges, dim=1).to(device), first, batch=torch.tensor(batch, device=device)
    )
    for solver in ("picard", "series", "chebyshev", "gmres"):
        options = {"scale": 1, "gamma": 0.99, "solver": solver, "tol": 2e-7}
        together = solve_equilibrium(operator, eye, torch.cat(biases).to(device), **options)
        for number, (edge_index, bias) in enumerate(graphs):
            own = Propagation.from_edge_index(edge_index.to(device), len(bias))
            single = solve_equilibrium(own, eye, bias.to(device), **options)
            mine = together.value[operator.graph_of_node() == number]
            # Rounding decides whether a residual near the tolerance is corrected; the certificates
            # of both answers hold either way.
            bound = float(together.graph_error_bound[number]) + single.error_bound
            assert (mine - single.value).norm().item() <= bound
