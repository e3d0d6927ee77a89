"""Several ways to do the same, timed in turns, each against what it claims."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mgnni.bench.measure import alternate, peak
from mgnni.bench.row import (
    ABSENT,
    CLAIM,
    MISSED,
    RIGHT,
    Errors,
    Row,
    verdict,
)
from mgnni.bench.settings import Settings
from mgnni.bench.textbook import AUTHORS
from mgnni.errors import ConvergenceError
from mgnni.train.report import device_name

LADDER = (1e-2, 2e-3, 5e-4, 1e-4, 5e-5, 2e-5, 1e-5, 5e-6, 2e-6, 1e-6, 5e-7, 2e-7, 1e-7, 5e-8)
RIVAL = "textbook"
ROUNDING = Errors(1e-6, 1e-5)  # smaller errors than these are luck on either side


@dataclass(frozen=True)
class Entrant:
    """One way to do it.

    Attributes:
        method: what it is called.
        run: what is timed; none if there is nothing to time.
        errors: of its result.
        claim: the largest errors with which its time may be shown.
        tol: its tolerance.
        work: how many times the case it does in one run.
        verdict: known beforehand, or found from the errors.
        note: for the reader.
        ours: whether it is the library; it may not be less exact than the rival.
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


def loosest(measure: Callable[[float], Errors], claim: Errors) -> tuple[float, Errors] | None:
    """Return the loosest tolerance whose result measures the claim, and what it measures.

    Two tolerances in a row that bring nothing show that rounding has been reached, if they are
    near it; a solver that looks now and then may end at the same term for looser ones.
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
    """Enter at the loosest tolerance that measures the claim; without a time if none does."""
    last: Errors | None = None

    def measured(tol: float) -> Errors:
        nonlocal last
        last = measure(tol)
        return last

    found = loosest(measured, claim)
    if found is None:
        best = "" if last is None else f"; at the last {last.forward:.1e} and {last.gradient:.1e}"
        note = f"at no tolerance{best}"
        return Entrant(method, verdict=MISSED, claim=claim, note=note, ours=ours)
    tol, errors = found
    return Entrant(method, run(tol), errors, claim, tol, ours=ours)


def fastest(method: str, entrants: Iterable[Entrant], settings: Settings) -> Entrant:
    """Return the fastest of those that have come so far, by one quick race; it may be none."""
    ready = {one.note: one for one in entrants if one.run is not None}
    if not ready:
        return Entrant(method, verdict=MISSED, note="with no solver, at no tolerance")
    runs = {name: one.run for name, one in ready.items() if one.run is not None}
    times = alternate(runs, settings.device, repeats=1, warmup=1)
    return replace(ready[min(times, key=times.__getitem__)], method=method)


def absent(method: str, note: str) -> Entrant:
    """Say that a rival is not there."""
    return Entrant(method, verdict=ABSENT, note=note)


def as_authors(run: Callable[[], object], errors: Errors) -> Entrant:
    """Enter the textbook loop, stopped as the authors do, whatever that comes to."""
    return Entrant(
        f"{RIVAL}, absolute 1e-6",
        run,
        errors,
        claim=None,
        tol=AUTHORS.tol,
        note="stops as the authors' code; claims no error",
    )


def no_larger(claim: Errors, rival: Errors) -> Errors:
    """Lower a claim to the errors of a rival, as far as these are more than rounding."""
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
    """Judge, time those that are right, and compare with the rival."""
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
        if seconds is not None and one.errors is not None and one.claim is not None:
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
