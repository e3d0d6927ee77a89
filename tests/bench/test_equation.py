"""The float64 answer that all are measured by, and who is let through by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.cases import dense, equation
from mgnni.bench.compete import RIVAL
from mgnni.bench.equation import TARGET, Equation, ours
from mgnni.bench.measure import errors
from mgnni.bench.row import MISSED
from mgnni.solve.textbook import AUTHORS


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_the_answer_is_that_of_a_dense_solve(device, directed):
    case = equation(device, directed)
    found = errors(case.exact, dense(case))
    assert max(found) < 1e-6  # both know the operator in single precision only
    assert all(one.dtype is torch.float64 for one in case.exact)


def test_everyone_is_entered_at_the_target(device):
    case = equation(device)
    rival, target = case.textbook()
    assert rival.method == RIVAL
    assert rival.errors.within(TARGET)
    assert target.forward <= TARGET.forward
    mine = case.by_us(target)
    assert mine.ours
    assert mine.errors.within(target)
    assert mine.tol >= rival.tol, "a bound that is kept needs no safety"
    assert errors(mine.run(), case.exact) == mine.errors


def test_the_authors_loop_claims_nothing_and_shows_what_it_measures(device):
    case = equation(device)
    found = case.authors()
    assert (found.method, found.claim, found.tol) == (f"{RIVAL}, absolute 1e-6", None, AUTHORS.tol)
    assert errors(found.run(), case.exact) == found.errors
    rougher = replace(case, bias=1e-5 * case.bias).authors()
    assert rougher.errors.forward > 10 * found.errors.forward, "it knows no sizes"


def test_a_solver_that_is_off_gets_no_time(device):
    case = equation(device)

    def off(*arguments):
        return 1.001 * ours(*arguments)

    found = case.reached("off", lambda tol: off, TARGET)
    assert (found.verdict, found.run, found.errors) == (MISSED, None, None)


def test_a_bias_without_gradient(device):
    case = equation(device)
    still = Equation(**{**vars(case), "bias_grad": False})
    whole, part = case.solved(ours), still.solved(ours)
    assert len(part) == 2
    assert all(torch.equal(a, b) for a, b in zip(part, whole, strict=False))
