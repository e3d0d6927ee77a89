"""The acceptance rule: a solve is accepted by its measured residual, in every graph."""

import math

import pytest
import torch

from mgnni.solve.result import Records, SolveLog, Status

INF, NAN = math.inf, math.nan


def records(residual, reference=1.0, tol=1e-6, floor=0.0, exhausted=False, bound=0.25):
    """Records of one equation; numbers are per graph."""
    residual = torch.tensor(residual, dtype=torch.float64)
    rows = [residual, torch.full_like(residual, reference), bound * residual]
    rows += [torch.full_like(residual, 0.5), torch.arange(1.0, len(residual) + 1).double()]
    numbers = torch.stack(rows).unsqueeze(1)
    return Records(numbers, (2,), "frobenius", tol, "picard", floor, (exhausted,))


@pytest.mark.parametrize(
    ("residual", "reference", "floor", "met"),
    [
        (1e-6, 1.0, 0.0, True),
        (1.01e-6, 1.0, 0.0, False),
        (9e-6, 10.0, 0.0, True),
        (9e-8, 0.01, 0.0, False),
        (1e-40, 1e-38, 0.0, False),
        (1e-40, 1e-38, 2e-40, True),  # subnormal
        (3e-40, 1e-38, 2e-40, False),
        (0.0, 0.0, 0.0, True),
        (NAN, 1.0, 1.0, False),
        (INF, INF, 1.0, False),
    ],
)
def test_a_residual_is_compared_with_the_tolerance_and_the_floor(residual, reference, floor, met):
    (stats,) = records([residual], reference, floor=floor).stats
    assert stats.converged is met


def test_every_graph_must_meet_the_tolerance():
    good, bad = records([1e-7, 0.0, 9e-7]), records([1e-7, 2e-6, 9e-7])
    assert good.converged
    assert not bad.converged
    assert bad.stats[0].status is Status.STAGNATED
    assert records([1e-7, 2e-6], exhausted=True).stats[0].status is Status.MAX_ITER
    assert records([1e-7, NAN], exhausted=True).stats[0].status is Status.NOT_FINITE
    assert records([1e-7, 9e-7], exhausted=True).converged  # met it all the same


def test_a_record_holds_the_worst_graph():
    (stats,) = records([1e-7, 8e-7, 2e-7], reference=2.0).stats
    assert stats.residual == 8e-7
    assert stats.relative_residual == pytest.approx(4e-7)
    assert stats.error_bound == pytest.approx(2e-7)
    assert stats.relative_error_bound == pytest.approx(1e-7)
    assert stats.iterations == 3
    assert stats.contraction == 0.5
    assert stats.graph_relative_residual.tolist() == pytest.approx([5e-8, 4e-7, 1e-7])
    assert stats.graph_error_bound.tolist() == pytest.approx([2.5e-8, 2e-7, 5e-8])
    assert stats.graph_iterations.tolist() == [1, 2, 3]
    assert math.isnan(records([1e-7, NAN, 2e-7]).stats[0].relative_residual)


def test_the_worst_error_of_a_pass_is_that_of_both_directions():
    large, small = records([4e-7]), records([1e-7, 2e-7])
    for log in (SolveLog((large,), (small,)), SolveLog((small,), (large,))):
        assert log.worst_error_bound == pytest.approx(1e-7)
    assert SolveLog((small,)).worst_error_bound == pytest.approx(5e-8)
    assert SolveLog().worst_error_bound == 0.0


def test_records_are_deferred_until_they_are_read():
    log = SolveLog((records([1e-7]),), (records([1e-7]),))
    assert log.deferred == [*log.forward_records, *log.backward_records]
    assert log.forward[0].converged
    assert log.deferred == list(log.backward_records)
