"""Planned solves that look once, at how far each column goes: of large graphs, and wide weights.

On the CPU the kernels are replaced by plain torch, which tests of their own compare with them.
"""

import math

import pytest
import torch
from mgnni.solve.planned import solve_planned, unseen
from mgnni.solve.planned_large import by_degree
from mgnni.solve.solve import Options, looks, plan_for, solve

from kernels.reference import as_if_large, no_kernels, use_kernels
from mgnni.implicit.linear import deferred
from mgnni.kernels import launches, terms
from mgnni.kernels.terms import Lines
from mgnni.solve import planned, weights
from mgnni.solve.result import Status
from solve.test_planned import assert_solved, batched, equations, layer, operator, passed


@pytest.fixture(autouse=True)
def large(device, monkeypatch):
    as_if_large(device, monkeypatch)


@pytest.fixture
def widths(monkeypatch):
    """Columns of the terms and of what they stand in, one pair a term."""
    found, plain = [], terms.add_term

    def counting(lines, values, now, *rest, **options):
        found.append((options["width"], now.size(1)))
        return plain(lines, values, now, *rest, **options)

    # Products alone are none of these, and do not come this way.
    monkeypatch.setattr(terms, "add_term", counting)
    return found


@pytest.mark.parametrize("loops", [False, True], ids=["isolated", "loops"])
@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "own bias"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_states_are_those_of_a_dense_solve(kind, shared, loops, device, widths):
    assert_solved(equations(operator(kind, device, loops), shared=shared))
    assert widths


@pytest.mark.parametrize("shared", [True, False], ids=["one bias", "own bias"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_batches_of_graphs(kind, shared, device):
    assert_solved(equations(batched(kind, device), h=5, shared=shared))


@pytest.mark.parametrize("h", [1, 7, 8, 9, 17, 40])
@pytest.mark.parametrize("kind", ["rank-one", "identity", "gram"])
def test_weights_of_any_width_and_spectrum(kind, h, device):
    assert_solved(equations(operator("sym", device), h=h, kind=kind, shared=False))


@pytest.mark.parametrize("size", [1e-20, 1e15])
@pytest.mark.parametrize("kind", ["sym", "dir", "out"])
def test_any_size_of_bias(kind, size, device):
    assert_solved(equations(operator(kind, device), shared=False, size=size))


def test_the_last_columns_are_moved_together(device, widths):
    assert_solved(equations(operator("sym", device), h=40))
    needed = [width for width, _ in widths]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] > terms.NARROW > needed[-1]
    assert widths[0][1] == 80
    for width, pitch in widths:
        assert pitch == 80 or width <= pitch <= terms.NARROW
        if width <= terms.NARROW:
            assert pitch <= max(2 * width - 1, 1)  # the next power of two


def test_degrees_are_looked_at_once(device):
    problem = equations(operator("dir", device), h=9)
    solve_planned(problem, 1e-6)
    (table,) = (one for one in problem.weights.polynomials.values() if hasattr(one, "columns"))
    order = by_degree(table)
    degrees = table.columns.cpu()
    assert order.widths == [int((degrees >= k).sum()) for k in range(int(degrees.max()) + 1)]
    assert torch.equal(order.place[order.back], torch.arange(len(degrees), device=device))
    kept = len(problem.weights.polynomials)
    solve_planned(problem.adjoint(problem.bias), 1e-6)
    assert len(problem.weights.polynomials) == kept


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("where", ["weight", "bias"])
def test_what_is_not_finite_is_told(where, wide, bad, device, monkeypatch):
    if wide:
        narrow_kernels(monkeypatch)
    problem = equations(operator("sym", device), shared=False)
    tensor = problem.weights.tensor if where == "weight" else problem.bias
    tensor[1, 2, 3] = bad
    records = solve_planned(problem, 1e-6)[2].records()
    assert records[1].status is Status.NOT_FINITE


def narrow_kernels(monkeypatch) -> None:
    """Have no kernel for the eigenpairs of these weights."""
    for module in (launches, weights):
        monkeypatch.setattr(module, "widest", lambda device: 4)


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("kind", ["sym", "dir"])
def test_wide_weights(kind, small, device, monkeypatch):
    narrow_kernels(monkeypatch)
    monkeypatch.setattr(planned, "at_once", lambda equations: small)
    problem = equations(operator(kind, device), h=9, shared=False)
    assert plan_for(problem, "auto") is solve_planned
    assert not unseen(problem)
    assert_solved(problem)


def test_who_looks_cannot_be_recorded(device, monkeypatch):
    problem = equations(operator("sym", device))
    plan = plan_for(problem, "auto")
    assert plan is solve_planned
    assert looks(plan, problem)
    assert looks(None, problem)
    made = layer(device)
    with deferred():
        passed(made, problem.operator)
        assert not made.log.pending
        assert all(one.converged for one in (*made.log.forward, *made.log.backward))
    use_kernels(device, monkeypatch)
    monkeypatch.setattr(planned, "at_once", lambda equations: True)
    assert not looks(plan, problem)


def test_a_hub_is_for_others(device, monkeypatch):
    problem = equations(operator("sym", device))
    monkeypatch.setattr(Lines, "usable", False)
    assert plan_for(problem, "auto") is None
    monkeypatch.setattr(planned, "at_once", lambda equations: True)
    assert plan_for(problem, "auto") is solve_planned
    if device.type == "cuda":
        assert_solved(problem)


def test_a_start_is_taken_notice_of(device):
    problem = equations(operator("sym", device), shared=False)
    first = solve(problem, Options())
    again = solve(problem, Options(), start=first.z)
    assert max(one.iterations for one in first.stats) > 0
    assert max(one.iterations for one in again.stats) == 0


@pytest.mark.parametrize("memory", ["fast", "low"])
@pytest.mark.parametrize("kind", ["sym", "dir", "out", "batch"])
def test_states_and_gradients_of_a_layer_are_those_of_the_plain_way(
    kind, memory, device, monkeypatch, widths
):
    p = batched("dir", device) if kind == "batch" else operator(kind, device)
    found = passed(layer(device, memory=memory, tol=2e-7), p)
    assert widths
    no_kernels(monkeypatch)
    wanted = passed(layer(device, memory=memory, tol=2e-7), p)
    for ours, theirs, close in zip(found, wanted, (1e-5, 1e-4, 1e-4), strict=True):
        assert (ours - theirs).norm() <= close * theirs.norm()


def test_weights_that_come_again_are_known(device, monkeypatch):
    """As in validation, and in the training step after it: they are looked at anyway."""
    made, p = layer(device), operator("sym", device)
    found, plain = [], weights.eigenpairs

    def counting(weight, basis=None):
        found.append(weight)
        return plain(weight, basis)

    monkeypatch.setattr(weights, "eigenpairs", counting)
    bias = torch.randn(2, 12, 7).to(device)
    made(bias[0], p)
    made(bias[1], p)
    assert len(found) == 1
    with torch.no_grad():
        made.factor += 0.1
    made(bias[1], p)
    assert len(found) == 2
