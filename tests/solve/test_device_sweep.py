"""Expansions in the operator by kernels, in one launch and term by term, against dense algebra."""

import pytest
import torch

from kernels.reference import as_if_large, no_kernels, set_widest, use_kernels
from mgnni.solve.device_sweep import worthwhile_core
from mgnni.solve.equation import Equations
from mgnni.solve.prepare import prepare
from mgnni.solve.result import Options
from mgnni.solve.weights import Weights
from problems import weight
from solve.core_graphs import NODES, graph
from solve.device_cases import (
    Problem,
    assert_agree,
    assert_solved,
    batched,
    layer,
    operator,
    passed,
    problem,
)


@pytest.fixture(autouse=True, params=["one launch", "by terms", "wide weights", "wide and large"])
def way(request, device, monkeypatch):
    """The ways to evaluate an expansion; weights count as wide past the eigenvalue kernel."""
    large = request.param in ("by terms", "wide and large")
    (as_if_large if large else use_kernels)(device, monkeypatch)
    if "wide" in request.param:
        set_widest(0, monkeypatch)
    return request.param


@pytest.mark.parametrize("loops", [False, True], ids=["isolated nodes", "self-loops"])
@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_states_are_those_of_a_dense_solve(kind, shared, loops, device):
    assert_solved(problem(operator(kind, device, loops), shared=shared))


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_graphs_of_a_batch_have_their_own_records(kind, shared, device):
    case = problem(batched(kind, device), h=5, shared=shared)
    assert_solved(case)
    for one in prepare(case.equations, Options()).solve(case.bias).records.stats:
        assert one.graph_error_bound.shape == (4,)
        assert one.graph_error_bound[1] == 0  # a graph without nodes
        assert one.graph_relative_residual[1] == 0


@pytest.mark.parametrize("h", [1, 7, 8, 9, 17, 40])
@pytest.mark.parametrize("kind", ["rank-one", "identity", "gram"])
def test_weights_of_any_width_and_spectrum_are_solved(kind, h, device):
    assert_solved(problem(operator("sym", device), h=h, kind=kind, shared=False))
    assert_solved(problem(operator("dir", device), h=h, kind=kind))


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
def test_many_equations_on_a_directed_graph_are_solved_on_its_core(shared, adjoint, device):
    count, scales = 256, (1, 2, 3, 1) * 64  # so many that the core saves time
    ws = torch.stack([weight("gram", 2, seed) for seed in range(count)]).float().to(device)
    bias = torch.randn(1 if shared else count, NODES, 2).to(device)
    operator = graph("both").to(torch.float32).to(device)
    operator = operator.adjoint() if adjoint else operator
    equations = Equations(operator, scales, 0.8, Weights(ws, psd_norm=1.0))
    assert worthwhile_core(equations) is not None
    # In the norms of a directed graph, the bound grows with the number of nodes.
    assert_solved(Problem(equations, bias.expand(count, -1, -1)), certified=1e-2)


@pytest.mark.parametrize("size", [1e-20, 1e15])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_a_bias_of_any_size_is_solved(kind, size, device):
    assert_solved(problem(operator(kind, device), shared=False, size=size))


@pytest.mark.parametrize("kind", ["sym", "dir"])
def test_a_zero_bias_has_the_zero_solution(kind, device):
    case = problem(operator(kind, device), size=0.0)
    found = prepare(case.equations, Options()).solve(case.bias)
    assert not found.z.any()
    assert not found.hop.any()
    for one in found.records.stats:
        assert one.converged
        assert (one.residual, one.relative_residual, one.relative_error_bound) == (0, 0, 0)


@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_the_adjoint_plan_solves_the_adjoint_equations(kind, device):
    case = problem(operator(kind, device))
    plan = prepare(case.equations, Options())
    plan.solve(case.bias)
    found = plan.adjoint().solve(case.bias)
    p = case.operator.to_dense().double().T
    for i, m in enumerate(case.equations.scales):
        power, w = torch.linalg.matrix_power(p, m), case.equations.weights.tensor[i].double()
        z = found.z[i].double()
        residual = 0.8 * power @ z @ w.T + case.bias[i].double() - z
        assert residual.norm() <= 2e-6 * z.norm()
    assert found.records.converged
    assert (plan.adjoint() is plan) == (kind == "sym")


@pytest.mark.parametrize("kind", ["sym", "dir", "out", "batch"])
def test_states_and_gradients_of_a_layer_are_those_without_kernels(kind, device, monkeypatch):
    p = batched("dir", device) if kind == "batch" else operator(kind, device)
    found = passed(layer(device, tol=2e-7), p)
    no_kernels(monkeypatch)
    assert_agree(found, passed(layer(device, tol=2e-7), p))
