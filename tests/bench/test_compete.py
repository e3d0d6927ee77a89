"""Who is right, who is wrong, and who is how much faster."""

from __future__ import annotations

import time

import pytest
import torch

from mgnni.bench.compete import LADDER, RIVAL, Entrant, fastest, loosest, reached, settle
from mgnni.bench.results import CLAIM, MISSED, RIGHT, WRONG, Errors, Settings
from mgnni.errors import ConvergenceError

QUICK = Settings(torch.device("cpu"), quick=True)


def entrant(method, errors, seconds=0.0, **facts):
    return Entrant(method, lambda: time.sleep(seconds), Errors(*errors), tol=1e-6, **facts)


@pytest.mark.parametrize(
    ("errors", "ours", "verdict"),
    [
        ((9e-6, 9e-5), False, RIGHT),
        ((1.1e-5, 0.0), False, WRONG),
        ((0.0, 1.1e-4), False, WRONG),
        ((float("nan"), 0.0), False, WRONG),
        ((5e-6, 5e-5), True, RIGHT),
        ((6e-6, 0.0), True, WRONG),  # right enough, but the rival is more exact
        ((0.0, 6e-5), True, WRONG),
    ],
)
def test_a_wrong_result_has_no_time(errors, ours, verdict):
    rival = entrant(RIVAL, (5e-6, 5e-5))
    _, row = settle("case", [rival, entrant("it", errors, ours=ours)], QUICK)
    assert row.verdict == verdict
    assert (row.seconds is None) == (row.ratio is None) == (verdict == WRONG)


def test_below_rounding_nobody_is_more_exact():
    rival = entrant(RIVAL, (1e-8, 1e-8))
    _, row = settle("case", [rival, entrant("it", (9e-7, 9e-6), ours=True)], QUICK)
    assert row.verdict == RIGHT


def test_the_ratio_counts_the_work():
    entrants = [
        entrant(RIVAL, (1e-6, 1e-6), 0.02),
        entrant("twice as fast", (1e-6, 1e-6), 0.01),
        entrant("ten at once", (1e-6, 1e-6), 0.02, work=10),
        Entrant("explicit", lambda: None, claim=None),
        Entrant("claims nothing", lambda: None, Errors(1.0, 1.0), claim=None),
    ]
    rows = {row.method: row for row in settle("case", entrants, QUICK, {"edges": 3})}
    assert rows[RIVAL].ratio == 1
    for name, work in (("twice as fast", 1), ("ten at once", 10)):
        expected = work * rows[RIVAL].seconds / rows[name].seconds
        assert rows[name].ratio == pytest.approx(expected)
    # A sleep lasts at least as long as asked for, however busy the machine is.
    assert rows[RIVAL].seconds >= 0.02
    assert rows["twice as fast"].seconds >= 0.01
    assert rows["explicit"].ratio is None
    assert rows["claims nothing"].ratio is None
    assert rows["claims nothing"].seconds is not None
    assert all(row.size == {"edges": 3} for row in rows.values())


def test_without_the_rival_there_is_no_ratio():
    (row,) = settle("case", [entrant("it", (0.0, 0.0), ours=True)], QUICK)
    assert row.verdict == RIGHT
    assert row.ratio is None


def test_the_loosest_tolerance_that_does():
    asked = []

    def measure(tol):
        asked.append(tol)
        if tol == LADDER[1]:
            raise ConvergenceError("it happens")
        return Errors(tol, 2 * tol)

    assert loosest(measure, CLAIM) == (1e-5, Errors(1e-5, 2e-5))
    assert tuple(asked) == LADDER[: LADDER.index(1e-5) + 1]


def test_rounding_is_recognised():
    asked = []

    def measure(tol):
        asked.append(tol)
        return Errors(max(tol, 3e-5), 0.0)

    found = reached("it", measure, lambda tol: lambda: None)
    assert (found.verdict, found.run) == (MISSED, None)
    assert len(asked) < len(LADDER), "it goes no lower, and need not be asked for more"


def test_the_fastest_of_several_goes_on():
    slow = entrant("a", (0.0, 0.0), 0.01, note="a")
    fast = entrant("b", (0.0, 0.0), 0.0, note="b")
    missed = Entrant("c", verdict=MISSED, note="c")
    found = fastest("best", [slow, fast, missed], QUICK)
    assert (found.method, found.note) == ("best", "b")
    assert fastest("best", [missed], QUICK).verdict == MISSED
