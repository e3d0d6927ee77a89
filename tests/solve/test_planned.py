"""Solves without a look at a number: the same answers, the same certificates.

On the CPU the kernels are replaced by plain torch, which tests of their own compare with them.
"""

import math

import pytest
import torch
from mgnni.solve.planned import _terms, certify, solve_planned
from mgnni.solve.solve import Options, plan_for, solve
from torch import Tensor

from kernels.reference import no_kernels, use_kernels
from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.implicit.linear import deferred
from mgnni.kernels import launches
from mgnni.kernels.rows import share_out
from mgnni.layers.equilibrium import MultiscaleEquilibrium
from mgnni.solve import planned
from mgnni.solve.certify import measure
from mgnni.solve.equation import Equations
from mgnni.solve.result import Status
from mgnni.solve.weights import Weights
from problems import dense_solution, lopsided_edges, propagation, weight

SCALES = (1, 3)


@pytest.fixture(autouse=True)
def kernels(device, monkeypatch):
    use_kernels(device, monkeypatch)


def operator(kind: str, device: torch.device, loops: bool = False) -> Propagation:
    """Without loops, two of the nodes are isolated, and have empty rows."""
    return propagation(kind, self_loops=loops, dtype=torch.float32).to(device)


def batched(kind: str, device: torch.device) -> Propagation:
    """Three graphs, the last a single node, and a number that no graph has."""
    edges = [lopsided_edges(size, seed=size)[0] for size in (12, 9)]
    edge_index = torch.cat([edges[0], edges[1] + 12], 1)
    if kind == "sym":
        edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
    batch = torch.tensor([0] * 12 + [2] * 9 + [3])
    return Propagation.from_edge_index(
        edge_index, 22, normalization=kind, batch=batch, dtype=torch.float32
    ).to(device)


def equations(
    operator: Propagation, h: int = 7, shared: bool = True, size: float = 1.0, kind: str = "gram"
) -> Equations:
    scales, device = SCALES, operator.device
    ws = torch.stack([weight(kind, h, seed) for seed in range(len(scales))]).float().to(device)
    bias = torch.randn(1 if shared else len(scales), operator.num_nodes, h).to(device) * size
    bias = bias.expand(len(scales), -1, -1)
    return Equations(operator, scales, 0.8, Weights(ws, normed=True), bias)


def dense(problem: Equations) -> Tensor:
    parts = zip(problem.weights.tensor, problem.bias, problem.scales, strict=True)
    found = [dense_solution(problem.operator, w, b, m, problem.gamma) for w, b, m in parts]
    return torch.stack(found)


def hops(problem: Equations, z: Tensor) -> Tensor:
    p = problem.operator.to_dense().double()
    powers = [torch.linalg.matrix_power(p, m) for m in problem.scales]
    return torch.stack([power @ one.double() for power, one in zip(powers, z, strict=True)])


def assert_no_less(contraction: float, problem: Equations, i: int) -> None:
    """Than it is by a singular value, and no more than what may be left off the diagonal."""
    largest = float(torch.linalg.matrix_norm(problem.weights.tensor[i].double().cpu(), 2))
    step = problem.gamma * problem.step_bounds[i]
    left = 1e-8 * launches.padded(problem.channels)
    assert step * largest * (1 - 1e-12) <= contraction <= step * (largest + left) * (1 + 1e-6)


def assert_solved(problem: Equations, tol: float = 1e-6) -> None:
    wanted = dense(problem)
    z, hop, pending = solve_planned(problem, tol)
    for i in range(len(problem)):
        size = wanted[i].norm()
        assert (z[i] - wanted[i]).norm() <= 1e-5 * size
        assert (hop[i] - hops(problem, wanted)[i]).norm() <= 1e-5 * size
    records = pending.records()
    assert [one.scale for one in records] == list(problem.scales)
    batch = problem.operator.graph_of_node
    for i, one in enumerate(records):
        assert one.status is Status.CONVERGED
        assert one.relative_residual <= tol
        assert one.solver == ("chebyshev" if problem.operator.symmetric else "series")
        assert_no_less(one.contraction, problem, i)
        assert one.norm == problem.operator.norm.kind
        for graph, bound in enumerate(one.graph_error_bound.tolist()):
            mine = batch == graph
            assert float((z[i, mine] - wanted[i, mine]).norm()) <= bound


@pytest.mark.parametrize("loops", [False, True], ids=["isolated", "loops"])
@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "own bias"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_states_are_those_of_a_dense_solve(kind, shared, loops, device):
    assert_solved(equations(operator(kind, device, loops), shared=shared))


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "own bias"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_batches_of_graphs(kind, shared, device):
    problem = equations(batched(kind, device), h=5, shared=shared)
    assert_solved(problem)
    (first, _) = solve_planned(problem, 1e-6)[2].records()
    assert first.graph_error_bound.shape == (4,)
    assert first.graph_error_bound[1] == 0  # nobody is there
    assert first.graph_relative_residual[1] == 0


@pytest.mark.parametrize("h", [1, 7, 8, 9, 17])
def test_channels_are_padded_to_whole_groups(h, device):
    assert_solved(equations(operator("sym", device), h=h))


@pytest.mark.parametrize("kind", ["rank-one", "identity"])
@pytest.mark.parametrize("graph", ["sym", "dir"])
def test_weights_of_special_spectra(kind, graph, device):
    assert_solved(equations(operator(graph, device), kind=kind))


@pytest.mark.parametrize("size", [1e-20, 1e15])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_any_size_of_bias(kind, size, device):
    assert_solved(equations(operator(kind, device), shared=False, size=size))


@pytest.mark.parametrize("kind", ["sym", "dir"])
def test_no_bias_has_no_state(kind, device):
    problem = equations(operator(kind, device), size=0.0)
    z, hop, pending = solve_planned(problem, 1e-6)
    assert not z.any()
    assert not hop.any()
    for one in pending.records():
        assert one.converged
        assert (one.residual, one.relative_residual, one.relative_error_bound) == (0, 0, 0)


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "own bias"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out", "batch"])
def test_certificates_are_those_of_the_plain_way(kind, shared, device):
    # At a point that solves nothing, so that rounding does not matter.
    p = batched("out", device) if kind == "batch" else operator(kind, device)
    problem = equations(p, shared=shared)
    z = torch.randn(len(problem), p.num_nodes, 7).to(device)
    bias = problem.bias[:1] if shared else problem.bias
    needed = torch.tensor([4, 9], dtype=torch.int32, device=device)
    known = problem.weights.planned_pairs[0], needed
    same, hop, pending = certify(problem, z, bias.contiguous(), known, 1e-6, "series")
    wanted = measure(problem, z)
    assert torch.equal(same, z)
    torch.testing.assert_close(hop, wanted.hop, rtol=1e-4, atol=1e-5)
    residual, reference, bound, contraction, iterations = pending.numbers.cpu()
    for ours, theirs in (
        (residual, wanted.residual_norm),
        (reference, wanted.reference),
        (bound, wanted.error_bound),
    ):
        torch.testing.assert_close(ours, theirs, rtol=2e-6, atol=0)
    proven = torch.tensor(problem.contractions, dtype=torch.float64).unsqueeze(1)
    torch.testing.assert_close(contraction, proven.expand_as(contraction), rtol=1e-6, atol=0)
    assert iterations[:, 0].tolist() == [4, 9]
    for one, relative in zip(pending.records(), wanted.relative, strict=True):
        assert one.status is Status.STAGNATED
        torch.testing.assert_close(one.graph_relative_residual, relative, rtol=2e-6, atol=0)


@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
@pytest.mark.parametrize("where", ["weight", "bias"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_told(kind, where, bad, device):
    problem = equations(operator(kind, device), shared=False)
    broken = problem.weights.tensor if where == "weight" else problem.bias
    broken[0, 2, 1] = bad
    first, second = solve_planned(problem, 1e-6)[2].records()
    assert first.status is Status.NOT_FINITE
    assert second.converged  # another equation


@pytest.mark.parametrize("chebyshev", [True, False])
@pytest.mark.parametrize("scales", [(1,), (2,), (5,), (1, 4), (16,)])
@pytest.mark.parametrize(("gamma", "bound"), [(0.8, 1.0), (0.99, 0.9), (0.1, 1.0)])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_terms_suffice_and_are_not_many_more(chebyshev, scales, gamma, bound, tol):
    terms = _terms(scales, gamma, bound, tol, chebyshev)
    s = torch.linspace(-1, 1, 2001, dtype=torch.float64)
    most = 0
    for m in scales:
        rate = gamma * bound**m
        resolvent = 1 / (1 - rate * s**m)
        if chebyshev:  # by the cosine transform, which knows nothing of roots
            size = 4096
            angle = math.pi * (torch.arange(size, dtype=torch.float64) + 0.5) / size
            values = 1 / (1 - rate * torch.cos(angle) ** m)
            k = torch.arange(terms + 1, dtype=torch.float64)
            coefficient = 2 / size * torch.cos(k.unsqueeze(1) * angle) @ values
            coefficient[0] /= 2
            sums = (coefficient.unsqueeze(1) * torch.cos(k.unsqueeze(1) * s.acos())).cumsum(0)
        else:
            k = torch.arange(terms + 1)
            powers = torch.where(k % m == 0, rate ** (k // m).double(), 0.0).unsqueeze(1)
            sums = (powers * s ** k.unsqueeze(1)).cumsum(0)
        residual = (1 - (1 - rate * s**m) * sums).abs().amax(1)
        assert float((resolvent - sums[terms - 1]).abs().max()) * (1 - rate) <= tol
        enough = (residual <= tol).int()
        assert enough[terms - 1]
        most = max(most, int((enough.flip(0).cumprod(0).flip(0) == 0).sum()) + 1)
    assert terms <= 1.7 * most + 2 * max(scales) + 2


def test_which_equations_are_planned(device, monkeypatch):
    p = operator("sym", device)
    problem = equations(p)
    assert plan_for(problem, "auto") is solve_planned
    assert plan_for(problem, "chebyshev") is solve_planned
    assert plan_for(problem, "series") is None  # it was asked for
    assert plan_for(equations(operator("dir", device)), "series") is solve_planned
    assert plan_for(equations(operator("dir", device)), "chebyshev") is None
    free = Equations(p, SCALES, 0.8, Weights(problem.weights.tensor), problem.bias)
    assert plan_for(free, "auto") is None
    high = Equations(p, (1, launches.MOST_ROOTS + 1), 0.8, problem.weights, problem.bias)
    assert plan_for(high, "auto") is None
    near = Equations(p, SCALES, 0.9995, problem.weights, problem.bias)
    assert plan_for(near, "auto") is None
    no_kernels(monkeypatch)
    assert plan_for(problem, "auto") is None


def test_rows_must_leave_room_for_their_sums(device, monkeypatch):
    monkeypatch.setattr(launches, "shared_memory", lambda device: 100_000)
    for count, fits in ((3000, True), (3100, False)):  # 32 bytes each, and a few kilobytes
        rows = share_out(torch.ones(count, dtype=torch.int32), 1, device)
        assert launches.has_room(rows, 16, device) == fits
    assert launches.has_room(share_out(torch.ones(3100, dtype=torch.int32), 7, device), 16, device)


def test_a_planned_solve_that_fails_is_corrected(device, monkeypatch):
    problem = equations(operator("sym", device))
    monkeypatch.setattr(planned, "SHARE", 1e4)  # far too few terms
    z, _, pending = solve_planned(problem, 1e-6)
    assert {one.status for one in pending.records()} == {Status.STAGNATED}
    solution = solve(problem, Options())
    assert all(one.converged for one in solution.stats)
    wanted = dense(problem)
    assert (z - wanted).norm() > 1e-4 * wanted.norm() > 10 * (solution.z - wanted).norm()


def layer(device: torch.device, **options: object) -> MultiscaleEquilibrium:
    torch.manual_seed(3)
    return MultiscaleEquilibrium(7, SCALES, **options).to(device)


def passed(made: MultiscaleEquilibrium, p: Propagation) -> list[Tensor]:
    """States and gradients, for a cotangent that tells scales, nodes and channels apart."""
    torch.manual_seed(4)
    bias = torch.randn(p.num_nodes, made.factor.size(-1)).to(p.device).requires_grad_()
    z = made(bias, p)
    cotangent = torch.randn(z.shape).to(p.device)
    return [z, *torch.autograd.grad(z, [bias, made.factor], cotangent)]


@pytest.mark.parametrize("memory", ["fast", "low"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out", "batch"])
def test_states_and_gradients_of_a_layer_are_those_of_the_plain_way(
    kind, memory, device, monkeypatch
):
    p = batched("dir", device) if kind == "batch" else operator(kind, device)
    made = layer(device, memory=memory, tol=2e-7)
    with deferred():
        found = passed(made, p)
        assert len(made.log.pending) == 2  # or the plain way would be compared with itself
    no_kernels(monkeypatch)
    wanted = passed(layer(device, memory=memory, tol=2e-7), p)
    for ours, theirs, close in zip(found, wanted, (1e-5, 1e-4, 1e-4), strict=True):
        assert (ours - theirs).norm() <= close * theirs.norm()


def test_gradients_of_edge_weights(device, monkeypatch):
    found = []
    for planned_ in (True, False):
        if not planned_:
            no_kernels(monkeypatch)
        edge_index, edge_weight = lopsided_edges()
        edge_weight = edge_weight.float().to(device).requires_grad_()
        p = Propagation.from_edge_index(edge_index.to(device), 12, edge_weight, "dir")
        z = layer(device, tol=2e-7)(torch.ones(12, 7, device=device), p)
        torch.manual_seed(4)
        found += torch.autograd.grad(z, edge_weight, torch.randn(z.shape).to(device))
    assert (found[0] - found[1]).norm() <= 1e-4 * found[1].norm()


def test_records_wait_until_somebody_asks(device):
    made, p = layer(device), operator("sym", device)
    bias = torch.randn(12, 7, device=device)
    with deferred():
        z = made(bias, p)
        assert len(made.log.pending) == 1
        z.sum().backward()
    assert len(made.log.pending) == 2
    assert [one.scale for one in made.log.forward] == list(SCALES)
    assert made.log.forward is made.log.forward
    assert len(made.log.pending) == 1
    assert all(one.converged for one in made.log.backward)
    assert not made.log.pending
    made(bias, p).sum().backward()  # outside, nothing is put off
    assert not made.log.pending
    assert len(made.log.forward) == len(made.log.backward) == 2


def test_deferred_solves_do_not_raise_and_others_do(device):
    made, p = layer(device), operator("sym", device)
    bias = torch.full((12, 7), math.nan, device=device)
    with deferred():
        made(bias, p)
    assert {one.status for one in made.log.forward} == {Status.NOT_FINITE}
    with pytest.raises(ArgumentError, match="'bias' must be finite"):
        made(bias, p)
    with torch.no_grad():
        made.factor[1, 0, 0] = math.inf
    with pytest.raises(ArgumentError, match="'weight' must be finite"):
        made(torch.ones_like(bias), p)
