"""Every method solves the same equations: the library, the textbook loop, and TorchDEQ."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from bench.cases import GAMMA, dense, equation
from mgnni.bench.compete import RIVAL
from mgnni.bench.equation import TARGET, Equation, ours
from mgnni.bench.measure import distance, errors
from mgnni.bench.results import ABSENT, MISSED, Errors, Settings
from mgnni.bench.rivals import DEQ_SOLVERS, deq_equilibria, deq_installed
from mgnni.errors import MgnniError
from mgnni.solve import textbook
from mgnni.solve.textbook import AUTHORS, Stopping, picard


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_the_exact_answer_agrees_with_a_dense_solve(device, directed):
    case = equation(device, directed)
    found = errors(case.exact, dense(case))
    assert max(found) < 1e-6  # both know the operator in single precision only
    assert all(one.dtype is torch.float64 for one in case.exact)


def test_every_method_reaches_the_target(device):
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


@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_the_textbook_loop_agrees_with_a_dense_solve(device, directed):
    case = equation(device, directed)
    solve = partial(textbook.equilibria, stopping=Stopping(1e-7, True, 500))
    assert errors(case.solved(solve), dense(case)).within(Errors(1e-5, 1e-4))


def test_the_authors_stop_by_absolute_change(device):
    """A small right-hand side, such as the gradient of a mean, is then hardly solved at all."""
    case = equation(device)
    small = replace(case, bias=1e-4 * case.bias, cotangent=1e-6 * case.cotangent)
    solved = small.solved(textbook.equilibria)
    careful = small.solved(partial(textbook.equilibria, stopping=Stopping(1e-6, True)))
    loose, tight = (errors(found, small.exact) for found in (solved, careful))
    assert loose.gradient > 1e-2
    assert tight.within(Errors(1e-4, 1e-3))


def test_no_more_passes_than_asked_for(device):
    case = equation(device)
    once = Stopping(0.0, False, 1)
    constants = (case.propagation, case.weight[0], case.bias, 1, GAMMA)
    assert torch.equal(picard(*constants, once), case.bias)
    twice = picard(*constants, replace(once, max_iter=2))
    hop = case.propagation.to_dense() @ case.bias
    assert distance(twice, case.bias + GAMMA * hop @ case.weight[0]) < 1e-6
    assert AUTHORS == Stopping(1e-6, relative=False, max_iter=300)


@pytest.mark.skipif(not deq_installed(), reason="needs TorchDEQ: pip install 'mgnni[bench]'")
@pytest.mark.parametrize("solver", DEQ_SOLVERS)
@pytest.mark.parametrize("directed", [True, False], ids=["directed", "undirected"])
def test_torchdeq_agrees_with_a_dense_solve(device, solver, directed):
    case = equation(device, directed)
    found = case.solved(partial(deq_equilibria, solver=solver, tol=1e-6))
    assert errors(found, dense(case)).within(Errors(1e-4, 1e-3))


def test_without_it_the_row_says_so(device, monkeypatch):
    monkeypatch.setattr("mgnni.bench.equation.deq_installed", lambda: False)
    monkeypatch.setattr("mgnni.bench.rivals.deq_installed", lambda: False)
    case = equation(device)
    (entrant,) = case.torchdeq(Settings(device, quick=True))
    assert entrant.verdict == ABSENT
    assert entrant.run is None
    assert "mgnni[bench]" in entrant.note
    with pytest.raises(MgnniError, match=r"mgnni\[bench\]"):
        case.solved(partial(deq_equilibria, solver="anderson", tol=0.123))
