import copy
import json
import math

import pytest
import torch

from mgnni.solve.result import Records, SolveLog, SolveStats, Status
from mgnni.train.certificates import Certificate, Certificates
from problems import generator


def test_a_certificate_keeps_the_worst() -> None:
    def stats(residual: float, relative: float, bound: float, solver: str) -> SolveStats:
        empty = torch.zeros(1)
        return SolveStats(
            residual=residual,
            relative_residual=relative,
            iterations=int(100 * bound),
            status=Status.CONVERGED,
            error_bound=bound,
            relative_error_bound=bound / 5,
            contraction=0.5,
            norm="frobenius",
            tol=1e-6,
            solver=solver,
            scale=1,
            graph_relative_residual=empty,
            graph_error_bound=empty,
            graph_iterations=empty,
        )

    certificate = Certificate()
    certificate.add([stats(0.2, 0.02, 0.5, "cg"), stats(0.03, 0.03, 0.1, "series")])
    certificate.add([stats(0.0, 0.0, 0.0, "cg")])
    assert certificate == Certificate(3, 0, {"cg", "series"}, 50, 0.03, 0.5, 0.1)


def pending(seed: int = 0, tol: float = 1e-6, graphs: int = 3, floor: float = 0.0) -> Records:
    """Records that are still to be read, all good enough; one graph is empty."""
    g = generator(seed)
    reference = 1 + torch.rand(2, graphs, dtype=torch.float64, generator=g)
    residual = tol * reference * torch.rand(2, graphs, dtype=torch.float64, generator=g)
    bound = residual * 5 + 1e-8
    steps = torch.tensor([[4.0], [9.0 + seed]], dtype=torch.float64).expand(2, graphs)
    numbers = torch.stack([residual, reference, bound, torch.full_like(bound, 0.8), steps])
    numbers[:3, :, 1:2] = 0
    return Records(numbers, (1, 2), "frobenius", tol, f"solver {seed}", floor)


def taken(one: Records) -> tuple[Certificate, bool]:
    certificate = Certificate()
    return certificate, certificate.add_deferred(one, one.numbers.numpy())


def test_records_to_come_count_as_those_that_came():
    ours, wanted = Certificate(), Certificate()
    for seed in (3, 0, 1):
        one = pending(seed)
        assert ours.add_deferred(one, one.numbers.numpy())
        wanted.add(one.stats)
    assert ours == wanted
    assert (ours.solves, ours.failures, ours.iterations) == (6, 0, 12)
    assert 0 < ours.relative_residual <= 1e-6


@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("bad", [1e-5, float("nan"), float("inf")])
def test_records_that_missed_their_tolerance_are_not_taken_in(bad, place):
    one = pending()
    one.numbers[0, 1, place] = bad
    assert taken(one) == (Certificate(), False)
    assert not all(stats.converged for stats in one.stats)


def test_a_reference_that_is_not_a_number_is_not_taken_in():
    one = pending()
    one.numbers[1, 0, 0] = float("nan")
    assert taken(one) == (Certificate(), False)


def test_residuals_of_last_digits_pass():
    one = pending(floor=1e-40)
    one.numbers[:3, 0, 0] = torch.tensor([1e-40, 1e-41, 1e-39])
    certificate, good = taken(one)
    assert good
    assert all(stats.converged for stats in one.stats)
    assert certificate.relative_residual == max(s.relative_residual for s in one.stats)


def read(one: Records) -> Records:
    """Records whose numbers were read."""
    assert one.stats
    return one


def logs() -> list[SolveLog]:
    """Passes of every kind: read, to be read, mixed, and without gradients."""
    return [
        SolveLog((read(pending(1)),), (read(pending(2)),)),
        SolveLog((pending(3),), (pending(4),)),
        SolveLog((read(pending(5)),), (pending(6, graphs=1),)),
        SolveLog((pending(7),), ()),
    ]


def test_several_passes_are_read_at_once():
    ours, wanted = Certificates(), Certificates()
    assert ours.record_all(logs())
    for log in logs():
        wanted.record(log)
    assert ours == wanted
    assert (ours.forward.solves, ours.backward.solves) == (8, 6)
    assert ours.record_all([])
    assert ours == wanted


@pytest.mark.parametrize("which", [1, 3])
def test_if_one_pass_failed_nothing_is_taken_in(which):
    ours = Certificates()
    assert ours.record_all(logs())
    before = copy.deepcopy(ours)
    broken = logs()
    broken[which].deferred[-1].numbers[0, 0, 0] = 1.0
    assert not ours.record_all(broken)
    assert ours == before


def test_failures_that_were_read_before_are_counted():
    one = pending()
    one.numbers[0, 0, 0] = 1.0
    ours = Certificates()
    assert ours.record_all([SolveLog((read(one),), ())])  # the plain way has told already
    assert (ours.forward.solves, ours.forward.failures) == (2, 1)


def test_a_bound_that_is_not_proven_is_none_in_a_file():
    certificate = Certificate(solves=1, error_bound=math.inf, relative_error_bound=math.inf)
    data = certificate.to_dict()
    assert (data["error_bound"], data["relative_error_bound"]) == (None, None)
    assert Certificate.from_dict(json.loads(json.dumps(data))) == certificate
