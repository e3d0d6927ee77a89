"""Plans that solve with kernels: which equations they take, records that wait, and fallbacks."""

import math

import pytest
import torch

from kernels.reference import as_if_large, no_kernels, set_widest, use_kernels
from mgnni import ArgumentError, Propagation, Status
from mgnni.implicit.linear import deferred
from mgnni.kernels import launches
from mgnni.kernels.terms import Lines
from mgnni.solve import device_sweep
from mgnni.solve.certify import measure
from mgnni.solve.device_rows import DeviceRows
from mgnni.solve.device_sweep import DeviceSweep
from mgnni.solve.equation import Equations
from mgnni.solve.prepare import prepare
from mgnni.solve.refine import RefinedPlan
from mgnni.solve.result import Options
from mgnni.solve.weights import Weights
from problems import lopsided_edges
from solve.device_cases import (
    SCALES,
    Problem,
    assert_agree,
    batched,
    layer,
    operator,
    passed,
    problem,
)


@pytest.fixture(autouse=True)
def kernels(device, monkeypatch):
    use_kernels(device, monkeypatch)


def plan_of(equations, *options, **named):
    return type(prepare(equations, Options(*options, **named)))


def test_kernels_solve_what_is_known_in_advance(device, monkeypatch):
    p, directed = operator("sym", device), problem(operator("dir", device)).equations
    equations = problem(p).equations
    weights = equations.weights
    assert plan_of(equations) is plan_of(equations, "chebyshev") is DeviceSweep
    assert plan_of(directed) is plan_of(directed, "series") is DeviceSweep
    assert plan_of(equations, "series") is RefinedPlan
    assert plan_of(equations, max_iter=500) is RefinedPlan
    assert plan_of(Equations(p, SCALES, 0.8, Weights(weights.tensor))) is RefinedPlan
    high = Equations(p, (1, launches.MOST_ROOTS + 1), 0.8, weights)
    assert plan_of(high) is RefinedPlan
    assert plan_of(Equations(p, SCALES, 0.9995, weights)) is RefinedPlan
    no_kernels(monkeypatch)
    assert plan_of(equations) is RefinedPlan


def test_wide_weights_are_solved_row_by_row_on_small_symmetric_graphs(device):
    wide = problem(operator("sym", device), 130).equations
    assert plan_of(wide) is plan_of(wide, "wide") is DeviceRows
    assert plan_of(wide, "chebyshev") is DeviceSweep
    assert plan_of(problem(operator("dir", device), 130).equations) is DeviceSweep
    assert plan_of(problem(batched("sym", device), 130).equations) is DeviceSweep


def test_plans_synchronise_if_the_host_reads_degrees_or_eigenpairs(device, monkeypatch):
    equations = problem(operator("sym", device)).equations
    assert not prepare(equations, Options()).synchronises
    with monkeypatch.context() as changed:
        set_widest(4, changed)
        assert prepare(equations, Options("chebyshev")).synchronises
    as_if_large(device, monkeypatch)
    assert prepare(equations, Options()).synchronises


def test_a_hub_is_solved_without_kernels_unless_one_launch_suffices(device, monkeypatch):
    equations = problem(operator("sym", device)).equations
    monkeypatch.setattr(Lines, "usable", False)
    assert plan_of(equations) is DeviceSweep
    as_if_large(device, monkeypatch)
    monkeypatch.setattr(Lines, "usable", False)
    assert plan_of(equations) is RefinedPlan


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "a bias each"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out", "batch", "wide"])
def test_certificates_are_those_of_plain_torch(kind, shared, device):
    """At a tolerance so coarse that rounding is negligible."""
    p = operator("sym" if kind == "wide" else kind, device) if kind != "batch" else None
    case = problem(batched("out", device) if p is None else p, 130 if kind == "wide" else 7, shared)
    equations = case.equations
    found = prepare(equations, Options(tol=1e-2)).solve(case.bias, deferred=True)
    wanted = measure(equations, case.bias, found.z)
    residual, reference, bound, contraction, iterations = found.records.numbers.cpu()
    torch.testing.assert_close(residual, wanted.residual_norm, rtol=1e-3, atol=1e-12)
    torch.testing.assert_close(reference, wanted.reference, rtol=1e-6, atol=0)
    # The plain bound knows the spectral norm of wide weights, which is at most one here.
    proven = torch.tensor(equations.contractions, dtype=torch.float64).unsqueeze(1)
    assert bool((contraction >= proven * (1 - 1e-9)).all())
    if kind != "wide":
        torch.testing.assert_close(contraction, proven.expand_as(contraction), rtol=1e-6, atol=0)
    scaled = wanted.error_bound * (1 - proven) / (1 - contraction)
    torch.testing.assert_close(bound, scaled, rtol=1e-3, atol=1e-12)
    assert bool((iterations > 0).all())
    for one, relative in zip(found.records.stats, wanted.relative, strict=True):
        torch.testing.assert_close(one.graph_relative_residual, relative, rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("large", [False, True], ids=["one launch", "by terms"])
def test_a_solve_that_misses_its_tolerance_is_repeated_without_kernels(large, device, monkeypatch):
    if large:
        as_if_large(device, monkeypatch)
    case = problem(operator("sym", device))
    monkeypatch.setattr(device_sweep, "SHARE", 1e4)  # expansions with far too few terms
    plan, wanted = prepare(case.equations, Options()), case.dense()
    if not large:
        raw = plan.solve(case.bias, deferred=True)
        assert {one.status for one in raw.records.stats} == {Status.STAGNATED}
        assert (raw.z - wanted).norm() > 1e-4 * wanted.norm()
    found = plan.solve(case.bias)
    assert found.records.converged
    assert found.records.exhausted is not None  # the fallback has solved them
    assert (found.z - wanted).norm() <= 1e-5 * wanted.norm()
    back = plan.adjoint().solve(case.bias)
    assert back.records.converged


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("where", ["weight", "bias"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out", "wide"])
def test_numbers_that_are_not_finite_are_reported(kind, where, bad, device):
    p = operator("sym" if kind == "wide" else kind, device)
    case = problem(p, 130 if kind == "wide" else 7, shared=False)
    broken = case.equations.weights.tensor if where == "weight" else case.bias
    broken[0, 2, 1] = bad
    for postponed in (True, False):
        found = prepare(case.equations, Options()).solve(case.bias, deferred=postponed)
        first, second = found.records.stats
        assert first.status is Status.NOT_FINITE
        assert second.converged  # another equation


def test_a_plan_that_synchronises_refuses_weights_that_are_not_finite(device, monkeypatch):
    set_widest(4, monkeypatch)
    case = problem(operator("dir", device))
    case.equations.weights.tensor[1, 2, 3] = math.nan
    with pytest.raises(ArgumentError, match="'weight' must be finite"):
        prepare(case.equations, Options())


def test_eigenvectors_of_the_previous_plan_are_taken_over_if_they_fit(device):
    """They are overwritten in place, because a recorded CUDA graph holds their address."""
    equations = problem(operator("sym", device)).equations
    plan = prepare(equations, Options())
    changed = Equations(equations.operator, SCALES, 0.7, equations.weights)
    again = prepare(changed, Options(), plan.previous())
    assert again.expansion.basis is plan.expansion.basis
    other = prepare(problem(operator("sym", device), 9).equations, Options(), plan.previous())
    assert other.expansion.basis is not plan.expansion.basis


def test_a_plan_that_synchronises_reuses_the_expansion_for_equal_weights(device, monkeypatch):
    as_if_large(device, monkeypatch)
    case = problem(operator("sym", device))
    tensor = case.equations.weights.tensor
    plan = prepare(case.equations, Options())
    plan.solve(case.bias)
    for factor in (1.0, 0.9):
        weights = Weights(factor * tensor, psd_norm=1.0)
        again = Problem(Equations(case.operator, SCALES, 0.8, weights), case.bias)
        other = prepare(again.equations, Options(), plan.previous())
        assert (other.expansion is plan.expansion) == (factor == 1.0)
        found, wanted = other.solve(case.bias), again.dense()
        assert (found.z - wanted).norm() <= 1e-5 * wanted.norm()
        assert found.records.exhausted is None  # not solved by the fallback


def test_initial_states_are_used_by_plans_that_synchronise(device, monkeypatch):
    as_if_large(device, monkeypatch)
    case = problem(operator("sym", device), shared=False)
    plan = prepare(case.equations, Options())
    first = plan.solve(case.bias)
    again = plan.solve(case.bias, first.z)
    assert max(one.iterations for one in first.records.stats) > 0
    assert max(one.iterations for one in again.records.stats) == 0


@pytest.mark.parametrize("memory", ["fast", "low"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out", "batch", "wide"])
def test_states_and_gradients_of_a_layer_are_those_without_kernels(
    kind, memory, device, monkeypatch
):
    p = operator("sym" if kind == "wide" else kind, device) if kind != "batch" else None
    p = batched("dir", device) if p is None else p
    channels = 130 if kind == "wide" else 7
    made = layer(device, channels, memory=memory, tol=2e-7)
    with deferred():
        found = passed(made, p)
        assert len(made.log.deferred) == 2, "the kernels were not used"
    solver = "wide" if kind == "wide" else "chebyshev" if p.symmetric else "series"
    assert {one.solver for one in (*made.log.forward, *made.log.backward)} == {solver}
    no_kernels(monkeypatch)
    assert_agree(found, passed(layer(device, channels, memory=memory, tol=2e-7), p))


def test_gradients_of_edge_weights_are_those_without_kernels(device, monkeypatch):
    found = []
    for kernels in (True, False):
        if not kernels:
            no_kernels(monkeypatch)
        edge_index, edge_weight = lopsided_edges()
        edge_weight = edge_weight.float().to(device).requires_grad_()
        p = Propagation.from_edge_index(edge_index.to(device), 12, edge_weight, "dir")
        z = layer(device, tol=2e-7)(torch.ones(12, 7, device=device), p)
        torch.manual_seed(4)
        found += torch.autograd.grad(z, edge_weight, torch.randn(z.shape).to(device))
    assert (found[0] - found[1]).norm() <= 1e-4 * found[1].norm()


def test_records_are_deferred_until_they_are_read(device):
    made, p = layer(device), operator("sym", device)
    bias = torch.randn(12, 7, device=device)
    with deferred():
        z = made(bias, p)
        assert len(made.log.deferred) == 1
        z.sum().backward()
    assert len(made.log.deferred) == 2
    assert [one.scale for one in made.log.forward] == list(SCALES)
    assert len(made.log.deferred) == 1
    assert all(one.converged for one in made.log.backward)
    assert not made.log.deferred
    made(bias, p).sum().backward()  # outside of the context, nothing is deferred
    assert not made.log.deferred
    assert len(made.log.forward) == len(made.log.backward) == 2


def test_a_plan_that_synchronises_does_not_defer_its_records(device, monkeypatch):
    as_if_large(device, monkeypatch)
    made = layer(device)
    with deferred():
        passed(made, operator("sym", device))
        assert not made.log.deferred
    assert all(one.converged for one in (*made.log.forward, *made.log.backward))


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
