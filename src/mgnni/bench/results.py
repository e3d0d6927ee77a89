"""Rows of benchmark tables, and how tables are stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

import torch

from mgnni.train.report import commit, device_name, versions

FORMAT = 1
RIGHT, WRONG, MISSED, ABSENT = "right", "wrong", "missed", "absent"


@dataclass(frozen=True)
class Settings:
    """Settings of all tables.

    Args:
        device (torch.device): Where to compute.
        quick (bool, optional): Use small sizes and few repeats, to check that it works.
            (default: :obj:`False`)
    """

    device: torch.device
    quick: bool = False

    @property
    def repeats(self) -> int:
        """Number of measurements per time."""
        return 3 if self.quick else 15


class Errors(NamedTuple):
    """Relative errors against a float64 solve of the same equations."""

    forward: float
    gradient: float

    def within(self, limit: Errors) -> bool:
        """Return whether neither error exceeds the limit; NaN always does."""
        return self.forward <= limit.forward and self.gradient <= limit.gradient


CLAIM = Errors(1e-5, 1e-4)  # accuracy of a time in float32, unless stated otherwise


@dataclass(frozen=True)
class Row:
    """The time of one method for one case.

    Args:
        case (str): What was computed.
        method (str): The method.
        device (str): The device.
        seconds (float, optional): Time of one computation; :obj:`None` unless the result is right.
        errors (Errors, optional): Measured errors; :obj:`None` if no equation is solved.
        claim (Errors, optional): Largest errors for which the time may be shown; :obj:`None` if
            no accuracy is claimed.
        tol (float, optional): Tolerance of the method.
        memory (int, optional): Peak device memory in bytes; :obj:`None` where it is not measured.
        ratio (float, optional): Speedup over the textbook loop, where both are right.
        verdict (str, optional): ``"right"``; ``"wrong"`` if the errors exceed the claim;
            ``"missed"`` if no tolerance reaches the claim; ``"absent"`` if not installed.
        note (str, optional): Remark for the reader.
        size (Mapping[str, float], optional): The numbers that define the case, by name.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        data = asdict(self)
        for key in ("errors", "claim"):
            value: Errors | None = getattr(self, key)
            data[key] = None if value is None else value._asdict()
        return data


def verdict(errors: Errors | None, claim: Errors | None) -> str:
    """Return whether a time may be shown, given the measured and the claimed errors."""
    return RIGHT if errors is None or claim is None or errors.within(claim) else WRONG


def stored(name: str, title: str, rows: Sequence[Row], settings: Settings) -> dict[str, Any]:
    """Return a table as plain data, with device, versions, commit and date."""
    return {
        "format": FORMAT,
        "command": "bench",
        "table": name,
        "title": title,
        "device": device_name(settings.device),
        "threads": torch.get_num_threads(),
        "quick": settings.quick,
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "rows": [row.to_dict() for row in rows],
    }
