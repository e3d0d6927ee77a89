"""A line of a table: a time, and the errors without which it would mean nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

RIGHT, WRONG, MISSED, ABSENT = "right", "wrong", "missed", "absent"


class Errors(NamedTuple):
    """Relative errors against a float64 solve of the same equations."""

    forward: float
    gradient: float

    def within(self, limit: Errors) -> bool:
        """Tell whether neither is larger; one that is no number is not within any limit."""
        return self.forward <= limit.forward and self.gradient <= limit.gradient


CLAIM = Errors(1e-5, 1e-4)  # what a time in float32 stands for, if not said otherwise


@dataclass(frozen=True)
class Row:
    """What one method needed for one case.

    Attributes:
        case: what was computed.
        method: by whom.
        device: where.
        seconds: of one computation; none unless its result was found right.
        errors: as measured; none for a method that solves no equation.
        claim: the largest errors with which the time may be shown; none if it claims nothing.
        tol: the tolerance at which it was run.
        memory: most bytes of the device in use at once; none where it is not counted.
        ratio: how many times faster than the textbook loop, where both are right; the library is
            right only if its errors are no larger than those of the loop.
        verdict: ``"right"``; ``"wrong"``, if its errors exceed its claim; ``"missed"``, if at no
            tolerance its errors came down to the claim; ``"absent"``, if it is not installed.
        note: what a reader should know.
        size: the numbers behind the case, by name.
    """

    case: str
    method: str
    device: str
    seconds: float | None = None
    errors: Errors | None = None
    claim: Errors | None = CLAIM
    tol: float | None = None
    memory: int | None = None
    ratio: float | None = None
    verdict: str = RIGHT
    note: str = ""
    size: Mapping[str, float] = field(default_factory=dict)


def verdict(errors: Errors | None, claim: Errors | None) -> str:
    """Tell whether a time may be shown: by its errors, if it claims any."""
    if errors is None or claim is None or errors.within(claim):
        return RIGHT
    return WRONG
