"""Times several methods alternately, and checks each result against its claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mgnni.bench.measure import alternate, peak
from mgnni.bench.results import ABSENT, CLAIM, MISSED, RIGHT, Errors, Row, Settings, verdict
from mgnni.errors import ConvergenceError
from mgnni.solve.textbook import AUTHORS
from mgnni.train.report import device_name

LADDER = (1e-2, 2e-3, 5e-4, 1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6, 5e-7, 2e-7, 1e-7, 5e-8)
RIVAL = "textbook"
ROUNDING = Errors(1e-6, 1e-5)  # differences below these are due to rounding


@dataclass(frozen=True)
class Entrant:
    """A method that takes part in a comparison.

    Args:
        method (str): Its name.
        run (Callable, optional): What is timed; :obj:`None` if there is nothing to time.
        errors (Errors, optional): Errors of its result.
        claim (Errors, optional): Largest errors for which its time may be shown.
        tol (float, optional): Its tolerance.
        work (int, optional): How many times one run does the case. (default: :obj:`1`)
        verdict (str, optional): Known in advance; by default it follows from the errors.
        note (str, optional): Remark for the reader.
        ours (bool, optional): Whether it is this library, which must be at least as accurate as
            the rival. (default: :obj:`False`)
        comparable (bool, optional): Whether it solves the same equations as the rival.
            (default: :obj:`True`)
    """

    method: str
    run: Callable[[], object] | None = None
    errors: Errors | None = None
    claim: Errors | None = CLAIM
    tol: float | None = None
    work: int = 1
    verdict: str = ""
    note: str = ""
    ours: bool = False
    comparable: bool = True


def loosest(measure: Callable[[float], Errors], claim: Errors) -> tuple[float, Errors] | None:
    """Return the loosest tolerance whose errors are within the claim, and these errors.

    The search ends after two tolerances without improvement close to rounding. Looser tolerances
    may give equal errors because a solver tests convergence only every few iterations.
    """
    best, idle = math.inf, 0
    for tol in LADDER:
        try:
            found = measure(tol)
        except ConvergenceError:
            continue
        if found.within(claim):
            return tol, found
        missed = max(found.forward / claim.forward, found.gradient / claim.gradient)
        idle = 0 if missed < 0.9 * best or tol > ROUNDING.forward else idle + 1
        best = min(best, missed)
        if idle == 2:
            break
    return None


def reached(
    method: str,
    measure: Callable[[float], Errors],
    run: Callable[[float], Callable[[], object]],
    claim: Errors = CLAIM,
    *,
    ours: bool = False,
) -> Entrant:
    """Return a method at the loosest tolerance that reaches the claim; without a time if none."""
    last: Errors | None = None

    def measured(tol: float) -> Errors:
        nonlocal last
        last = measure(tol)
        return last

    found = loosest(measured, claim)
    if found is None:
        best = "" if last is None else f"; at last {last.forward:.1e} and {last.gradient:.1e}"
        note = f"at no tolerance{best}"
        return Entrant(method, verdict=MISSED, claim=claim, note=note, ours=ours)
    tol, errors = found
    return Entrant(method, run(tol), errors, claim, tol, ours=ours)


def fastest(method: str, entrants: Iterable[Entrant], settings: Settings) -> Entrant:
    """Return the fastest method by one quick comparison of those that reach the claim."""
    ready = {one.note: one for one in entrants if one.run is not None}
    if not ready:
        return Entrant(method, verdict=MISSED, note="with no solver, at no tolerance")
    runs = {name: one.run for name, one in ready.items() if one.run is not None}
    times = alternate(runs, settings.device, repeats=1, warmup=1)
    return replace(ready[min(times, key=times.__getitem__)], method=method)


def absent() -> Entrant:
    """Return TorchDEQ where it is not installed."""
    return Entrant("TorchDEQ", verdict=ABSENT, note="not installed; pip install 'mgnni[bench]'")


def as_authors(run: Callable[[], object], errors: Errors) -> Entrant:
    """Return the textbook loop with the stopping criterion of the authors, whatever its errors."""
    return Entrant(
        f"{RIVAL}, absolute 1e-6",
        run,
        errors,
        claim=None,
        tol=AUTHORS.tol,
        note="stops as the authors' code; claims no error",
    )


def no_larger(claim: Errors, rival: Errors) -> Errors:
    """Lower a claim to the errors of a rival, but not below rounding."""
    return Errors(
        min(claim.forward, max(rival.forward, ROUNDING.forward)),
        min(claim.gradient, max(rival.gradient, ROUNDING.gradient)),
    )


def settle(
    case: str,
    entrants: Iterable[Entrant],
    settings: Settings,
    size: Mapping[str, float] | None = None,
) -> Iterator[Row]:
    """Check all methods, time those that are right, and compare them with the rival."""
    judged = []
    entered = list(entrants)
    rival = next((one.errors for one in entered if one.method == RIVAL), None)
    for one in entered:
        claim = one.claim
        if one.ours and claim is not None and rival is not None:
            claim = no_larger(claim, rival)
        judged.append(replace(one, claim=claim, verdict=one.verdict or verdict(one.errors, claim)))
    runs = {one.method: one.run for one in judged if one.verdict == RIGHT and one.run is not None}
    times = alternate(runs, settings.device, settings.repeats)
    memory = {name: peak(run, settings.device) for name, run in runs.items()}
    for one in judged:
        seconds = times.get(one.method)
        ratio = None
        if seconds is not None and one.comparable and None not in (one.errors, one.claim):
            ratio = times[RIVAL] * one.work / seconds if RIVAL in times else None
        yield Row(
            case,
            one.method,
            device_name(settings.device),
            seconds,
            one.errors,
            one.claim,
            one.tol,
            memory.get(one.method),
            ratio,
            one.verdict,
            one.note,
            dict(size or {}),
        )
