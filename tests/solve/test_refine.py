"""Propose, measure, correct: returned states have met the tolerance by measurement."""

import math

import pytest
import torch
from torch_geometric.utils import to_undirected

from mgnni import ConvergenceWarning, Propagation, Status, solve_equilibria, solve_equilibrium
from mgnni.solve.certify import measure
from mgnni.solve.equation import Equations
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.prepare import METHODS, SHARDED, prepare
from mgnni.solve.refine import RefinedPlan
from mgnni.solve.result import Options
from mgnni.solve.weights import Weights
from problems import chain, dense_solution, generator, propagation, weight


@pytest.mark.parametrize("solver", ["picard", "anderson", "gmres", "series", "auto"])
@pytest.mark.parametrize("normalization", ["sym", "dir", "out", "row"])
def test_float32_reaches_a_tolerance_near_its_rounding(normalization, solver, device):
    """Corrected with float64 residuals, float32 states meet 5e-7, eight times their unit."""
    for seed in range(12):
        operator = propagation(normalization, 20, seed).to(device).to(torch.float32)
        w = weight("rank-one", 3, seed).to(device).float()
        bias = torch.randn(20, 3, generator=generator(seed)).to(device)
        gamma = (0.8, 0.95, 0.99)[seed % 3]
        result = solve_equilibrium(operator, w, bias, 1 + seed % 4, gamma, solver=solver, tol=5e-7)
        expected = dense_solution(operator, w, bias, 1 + seed % 4, gamma)
        error = (result.value.double() - expected).norm().item()
        assert error <= result.error_bound


def test_a_correction_that_meets_the_tolerance_is_kept(device):
    """The residual is just above the tolerance before and below it after, halved or not."""
    leaves = torch.arange(1, 40)
    edge_index = torch.stack([leaves, torch.zeros_like(leaves)]).to(device)
    operator = Propagation.from_edge_index(
        edge_index, 40, normalization="out", flow="target_to_source", dtype=torch.float32
    )
    w = weight("rank-one", 3).to(device).float()
    for seed in range(20):
        bias = torch.randn(40, 3, generator=generator(seed)).to(device)
        result = solve_equilibrium(operator, w, bias, 3, 0.9, solver="picard", tol=1e-6)
        assert result.relative_residual <= 1e-6


@pytest.mark.parametrize("form", ["indefinite", "random"])
@pytest.mark.parametrize("solver", ["series", "chebyshev", "spectral", "dense"])
def test_a_proposal_to_a_proven_tolerance_meets_it_without_correction(solver, form, device):
    operator = propagation("sym").to(device)
    for seed in range(5):
        w = weight(form, 4, seed).unsqueeze(0).to(device)
        bias = torch.randn(1, 12, 4, dtype=torch.float64, generator=generator(seed)).to(device)
        for scale in (1, 2, 3, 8):
            equations = Equations(operator, (scale,), 0.95, Weights(w))
            found = METHODS[solver](equations).propose(bias, 1e-11, 10**6)
            assert measure(equations, bias, found.z).relative.item() <= 1e-11


class Proposed(Method):
    """Proposes given states: first the one, then the other ones for every correction."""

    name = "proposed"

    def __init__(self, equations, *states):
        super().__init__(equations)
        self.states = iter(states)

    def propose(self, bias, tol, max_iter):
        steps = torch.ones(len(bias), self.equations.operator.num_graphs, dtype=torch.long)
        return Proposal(next(self.states), steps, False)


def two_graphs(device):
    """One equation over two equal graphs, its bias and its exact solution."""
    edge_index = torch.cat([chain(5), chain(5) + 5], 1).to(device)
    batch = torch.arange(2, device=device).repeat_interleave(5)
    operator = Propagation.from_edge_index(edge_index, 10, batch=batch, dtype=torch.float64)
    w = weight("random", 3).to(device)
    bias = torch.randn(10, 3, dtype=torch.float64, generator=generator(1)).to(device)
    exact = dense_solution(operator, w, bias, 1, 0.9)
    return Equations(operator, (1,), 0.9, Weights(w[None])), bias[None], exact[None]


def test_a_correction_is_kept_only_by_the_graphs_that_it_improves(device):
    equations, bias, exact = two_graphs(device)
    error = 1e-3 * torch.randn(exact.shape, dtype=torch.float64, generator=generator(2)).to(device)
    correction = -error  # exact for the first graph, ten times the error for the second
    correction[:, 5:] *= -10
    method = Proposed(equations, exact + error, correction)
    found = RefinedPlan(equations, Options(tol=1e-9), method).solve(bias)
    torch.testing.assert_close(found.z[:, :5], exact[:, :5], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.z[:, 5:], (exact + error)[:, 5:], rtol=0, atol=0)
    (stats,) = found.records.stats
    assert stats.status is Status.STAGNATED
    assert stats.graph_iterations.tolist() == [2, 1]
    residual = equations.gamma * equations.hop(found.z) @ equations.weights.tensor + bias - found.z
    assert stats.residual == pytest.approx(residual[0, 5:].norm().item(), rel=1e-12)
    assert stats.graph_relative_residual[0] <= 1e-9 < stats.graph_relative_residual[1]


@pytest.mark.parametrize("unit", [1.0, 2.0**-40])
def test_a_graph_between_two_measurements_is_solved(unit, device):
    """Its residual is below the tolerance in float32 and above it in float64.

    It must not be corrected, or refused, because another graph of its batch is corrected.
    """
    graphs, nodes, tried = 64, 16, 0
    one = torch.cat([chain(nodes), chain(nodes).flip(0)], 1)
    edge_index = torch.cat([one + nodes * graph for graph in range(graphs)], 1).to(device)
    batch = torch.arange(graphs, device=device).repeat_interleave(nodes)
    operator = Propagation.from_edge_index(
        edge_index, graphs * nodes, batch=batch, dtype=torch.float32
    )
    stack = torch.stack([weight("random", 16, seed) for seed in range(2)]).to(device).float()
    equations = Equations(operator, (1, 3), 0.8, Weights(stack))
    bias = torch.randn(2, graphs * nodes, 16, generator=generator(3)).to(device)
    z = METHODS["spectral"](equations).propose(bias, 1e-6, 10).z
    rough = measure(equations, bias, z).relative
    precise = measure(equations.double(), bias.double(), z.double()).relative
    for tol in ((rough + precise) / 2)[rough < precise].tolist():
        if not (rough > tol).any():
            continue
        tried += 1
        method = METHODS["spectral"](equations)
        found = RefinedPlan(equations, Options("spectral", tol=tol), method).solve(unit * bias)
        assert all(stats.converged for stats in found.records.stats)
        met = (rough <= tol).to(device)[:, batch].unsqueeze(-1)
        assert torch.equal(torch.where(met, found.z, 0), torch.where(met, unit * z, 0))
    assert tried, "no residual lies between"


def test_corrections_stop_once_they_gain_little(device):
    """Each one removes a tenth of the error, which is less than half."""
    equations, bias, exact = two_graphs(device)
    error = torch.randn(exact.shape, dtype=torch.float64, generator=generator(2)).to(device)
    method = Proposed(equations, exact + error, -0.1 * error, -0.1 * error)
    found = RefinedPlan(equations, Options(tol=1e-9), method).solve(bias)
    torch.testing.assert_close(found.z, exact + 0.9 * error)
    assert found.records.stats[0].status is Status.STAGNATED


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_a_looser_tolerance_takes_no_more_work(solver, device):
    operator = Propagation.from_edge_index(chain(30).to(device), 30, dtype=torch.float64)
    w = weight("rank-one", 2).to(device)
    bias = torch.randn(30, 2, dtype=torch.float64, device=device)
    counts = [
        solve_equilibrium(operator, w, bias, 1, 0.9, solver=solver, tol=tol).iterations
        for tol in (0.5, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
    ]
    assert counts == sorted(counts)
    closed_form = solver in ("spectral", "wide", "dense")
    assert closed_form or counts[-1] > counts[0]


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_solving_twice_gives_the_same(solver, device):
    operator = propagation("sym").to(device)
    w = weight("random", 3).to(device)
    bias = torch.randn(12, 3, dtype=torch.float64, device=device)
    first, second = (
        solve_equilibrium(operator, w, bias, 2, 0.9, solver=solver).value for _ in range(2)
    )
    torch.testing.assert_close(first, second, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("solver", [*METHODS, "auto"])
def test_later_solves_do_not_write_into_a_solution(solver, device):
    operator = propagation("sym").to(device)
    w = weight("random", 3).to(device)
    biases = torch.randn(3, 12, 3, dtype=torch.float64, device=device)
    values = [solve_equilibrium(operator, w, b, 2, 0.9, solver=solver).value for b in biases]
    kept = [value.clone() for value in values]
    for bias in biases.flip(0):
        solve_equilibrium(operator, w, bias, 3, 0.9, solver=solver)
    for value, before in zip(values, kept, strict=True):
        assert torch.equal(value, before)


EXTREMES = [
    (torch.float32, -130),
    (torch.float32, -60),
    (torch.float32, -30),
    (torch.float32, 40),
    (torch.float32, 110),
    (torch.float64, -900),
    (torch.float64, 900),
]


@pytest.mark.parametrize("solver", ["auto", "picard", "dense"])
@pytest.mark.parametrize(("dtype", "power"), EXTREMES, ids=str)
def test_states_hops_and_records_are_in_the_units_of_the_bias(dtype, power, solver, device):
    """Every graph has its own unit, and the solution is linear in the bias."""
    equations, bias, _ = two_graphs(device)
    stack = equations.weights.tensor.repeat(2, 1, 1).to(dtype)
    equations = Equations(equations.operator.to(dtype), (1, 2), 0.9, Weights(stack))
    units = torch.tensor([2.0**power, 1.0], device=device, dtype=torch.float64)
    row = units[equations.operator.batch].unsqueeze(1)
    plain = bias[0].to(dtype).expand(2, -1, -1)
    scaled = (plain.double() * row).to(dtype)
    plan = prepare(equations, Options(solver, tol=1e-6))
    one, other = plan.solve(plain), plan.solve(scaled)
    digits = 1e-5 if power > -120 else 1e-3  # numbers at the end of the range have fewer
    for i, scale in enumerate((1, 2)):
        expected = dense_solution(equations.operator, stack[i], plain[i].double(), scale, 0.9)
        for graph in (0, 1):
            mine = equations.operator.batch == graph
            z, hop = other.z[i].double() / row, other.hop[i].double() / row
            p = torch.linalg.matrix_power(equations.operator.to_dense().double(), scale)
            assert (z - expected)[mine].norm() <= digits * expected[mine].norm()
            assert (hop - p @ expected)[mine].norm() <= digits * expected[mine].norm()
            stats, before = other.records.stats[i], one.records.stats[i]
            error = (z - expected)[mine].norm().item()
            bound = stats.graph_error_bound[graph].item() / units[graph].item()
            assert error <= bound + 1e-13
            assert bound <= 1e3 * before.graph_error_bound[graph].item() + digits
            assert stats.converged


@pytest.mark.parametrize(("dtype", "power"), [(torch.float32, -147), (torch.float64, -1072)])
def test_a_bias_of_subnormal_numbers_is_solved_to_the_last_one(dtype, power, device):
    """No state of so few digits meets the tolerance, and none could be better."""
    operator, w = propagation("sym", dtype=dtype).to(device), weight("random").to(device, dtype)
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    bias = torch.full((12, 4), 2.0**power, dtype=dtype, device=device)
    assert float(bias[0, 0]) > 0
    result = solve_equilibrium(operator, w, bias, 2, 0.9, tol=1e-6)
    assert result.relative_residual > 1e-6
    assert result.converged
    exact = dense_solution(operator, w, torch.ones_like(bias), 2, 0.9).cpu()
    digits = result.value.double().cpu() / smallest  # CUDA divides by way of the reciprocal
    assert (digits - exact * (2.0**power / smallest)).abs().max() <= 1


@pytest.mark.parametrize("memory", ["fast", "low"])
@pytest.mark.parametrize("power", [-60, -30, 40])
def test_gradients_of_the_weight_scale_with_the_bias(power, memory, device):
    operator = propagation("dir", dtype=torch.float32).to(device)
    bias = torch.randn(12, 4, generator=generator()).to(device)
    cotangent = torch.randn(12, 4, generator=generator(1)).to(device)
    gradients = []
    for unit in (1.0, 2.0**power):
        w = weight("general").float().to(device).requires_grad_()
        z = solve_equilibrium(operator, w, unit * bias, 2, memory=memory).value
        gradients.append(torch.autograd.grad((z * cotangent).sum(), w)[0])
    torch.testing.assert_close(gradients[1] / 2.0**power, gradients[0], rtol=1e-4, atol=1e-6)


def test_initial_states_that_are_close_are_corrected(device):
    operator, w = propagation("dir").to(device), weight("general", 3).unsqueeze(0).to(device)
    bias = torch.randn(1, 12, 3, dtype=torch.float64, generator=generator()).to(device)
    plan = prepare(Equations(operator, (1,), 0.95, Weights(w)), Options("picard", tol=1e-10))
    cold = plan.solve(bias)
    near = cold.z + 1e-6 * torch.randn(cold.z.shape, dtype=torch.float64).to(device)
    warm, same = plan.solve(bias, near), plan.solve(bias, cold.z)
    far = plan.solve(bias, 100 * cold.z)
    expected = dense_solution(operator, w[0], bias[0], 1, 0.95)
    for found in (cold, warm, same, far):
        (stats,) = found.records.stats
        assert stats.relative_residual <= 1e-10
        assert (found.z[0] - expected).norm().item() <= stats.error_bound
    steps = [found.records.stats[0].iterations for found in (same, warm, cold, far)]
    assert steps[0] == 0 < steps[1] < steps[2] == steps[3]


def test_the_plan_of_the_adjoint_equations_solves_them(device):
    operator, w = propagation("dir").to(device), weight("general", 3).unsqueeze(0).to(device)
    bias = torch.randn(1, 12, 3, dtype=torch.float64, generator=generator()).to(device)
    for solver in ("auto", "picard", "dense"):
        plan = prepare(Equations(operator, (2,), 0.9, Weights(w)), Options(solver, tol=1e-12))
        found = plan.adjoint().solve(bias)
        expected = dense_solution(operator.adjoint(), w[0].T, bias[0], 2, 0.9)
        torch.testing.assert_close(found.z[0], expected, rtol=1e-10, atol=1e-10)
        assert found.records.stats[0].solver == plan.solve(bias).records.stats[0].solver


def test_a_symmetric_plan_is_its_own_adjoint(device):
    operator, w = propagation("sym").to(device), weight("random", 3).unsqueeze(0).to(device)
    plan = prepare(Equations(operator, (2,), 0.9, Weights(w)), Options())
    assert plan.adjoint() is plan


def undirected(dtype, device, nodes=60):
    """A random undirected graph."""
    edge_index = to_undirected(torch.randint(nodes, (2, 2 * nodes), generator=generator()))
    return Propagation.from_edge_index(edge_index.to(device), nodes, dtype=dtype)


SYMMETRIC = [name for name in METHODS if name not in ("anderson", "dense")]


@pytest.mark.parametrize("solver", [*SYMMETRIC, "auto"])
@pytest.mark.parametrize("scale", [16, 64, 256])
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float32, 1e-6), (torch.float64, 1e-10)], ids=str)
def test_the_default_budget_suffices_at_large_scales(dtype, tol, scale, solver, device):
    """For small eigenvalues of the weight a few steps suffice, each of as many products."""
    operator = undirected(dtype, device)
    bias = torch.randn(60, 2, dtype=torch.float64, generator=generator(1)).to(device, dtype)
    for value in (0.9, 0.5, 0.01, 1e-9):
        w = torch.diag(torch.tensor([value, -value / 3], dtype=dtype, device=device))
        for memory in ("fast", "low", "half"):
            result = solve_equilibrium(
                operator, w, bias, scale, 0.8, solver=solver, tol=tol, memory=memory
            )
            expected = dense_solution(operator, w, bias, scale, 0.8)
            error = (result.value.double() - expected).norm()
            assert error <= 100 * tol * expected.norm()


@pytest.mark.parametrize("memory", ["fast", "low", "half"])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("scales", [(1, 64), (64,), (100,), (1, 4, 16, 64)], ids=str)
def test_small_weights_are_solved_at_every_scale(scales, batched, memory, device):
    """The weights g(F) of a model of 32 channels have small eigenvalues at the start."""
    operator = undirected(torch.float32, device)
    if batched:
        edges = torch.cat([chain(30), chain(30) + 30], 1).to(device)
        batch = torch.arange(2, device=device).repeat_interleave(30)
        operator = Propagation.from_edge_index(edges, 60, batch=batch)
    w = torch.stack([weight("random", 32, seed) for seed in scales]).float().to(device)
    bias = torch.randn(60, 32, generator=generator(1)).to(device).requires_grad_()
    cotangent = torch.randn(60, 32, generator=generator(2)).to(device)
    results = solve_equilibria(operator, w, bias, scales, 0.8, memory=memory)
    values, q = torch.linalg.eigh(w.double())
    for i, (result, scale) in enumerate(zip(results, scales, strict=True)):
        (grad,) = torch.autograd.grad((result.value * cotangent).sum(), bias, retain_graph=True)
        # In the eigenbasis of the weight, every column has a linear system of its own.
        power = torch.linalg.matrix_power(operator.to_dense().double(), scale)
        eye = torch.eye(60, dtype=torch.float64, device=device)
        systems = eye - 0.8 * values[i].view(-1, 1, 1) * power
        for found, right in ((result.value, bias), (grad, cotangent)):
            columns = torch.linalg.solve(systems, (right.double() @ q[i]).T.unsqueeze(-1))
            expected = columns.squeeze(-1).T @ q[i].T
            assert (found.double() - expected).norm() <= 1e-5 * expected.norm()


@pytest.mark.parametrize("methods", [METHODS, SHARDED], ids=["one process", "several"])
def test_only_the_budget_of_chebyshev_counts_products(methods, device):
    stack = torch.stack([weight("random", 3, seed) for seed in range(2)]).to(device)
    equations = Equations(undirected(torch.float64, device), (2, 7), 0.8, Weights(stack))
    for name, method in methods.items():
        assert method(equations).budget(11) == (77 if name == "chebyshev" else 11)


@pytest.mark.parametrize("memory", ["fast", "low"])
@pytest.mark.parametrize("solver", ["series", "chebyshev"])
def test_a_given_budget_counts_the_iterations_that_are_reported(solver, memory, device):
    """Terms of P^3 for a series, and degrees for Chebyshev polynomials."""
    operator, w = undirected(torch.float64, device), weight("identity", 1).to(device)
    bias = torch.randn(60, 1, dtype=torch.float64, generator=generator(1)).to(device)
    options = {"solver": solver, "tol": 1e-8, "memory": memory, "on_failure": "warn"}
    needed = solve_equilibrium(operator, w, bias, 3, 0.9, **options).iterations
    if solver == "series":
        assert needed == math.ceil(math.log(0.7e-8) / math.log(0.9))
    again = solve_equilibrium(operator, w, bias, 3, 0.9, max_iter=needed, **options)
    assert (again.status, again.iterations) == (Status.CONVERGED, needed)
    with pytest.warns(ConvergenceWarning, match="iteration budget"):
        fewer = solve_equilibrium(operator, w, bias, 3, 0.9, max_iter=needed // 2, **options)
    assert (fewer.status, fewer.iterations) == (Status.MAX_ITER, needed // 2)
