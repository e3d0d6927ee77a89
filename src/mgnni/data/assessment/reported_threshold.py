"""The threshold of two classes in a report, in words; needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def threshold_range(found: Mapping[str, Any]) -> str:
    """Returns the threshold of all runs, or the lowest and the highest one.

    Args:
        found (Mapping[str, Any]): ``classification`` of a report that has a threshold.
    """
    known = [run["threshold"] for run in found["runs"] if run["threshold"] is not None]
    ends = dict.fromkeys(f"{value:.3g}" for value in (min(known), max(known)))
    return " to ".join(ends)


def how_decided(found: Mapping[str, Any]) -> str:
    """Returns by which predictions the classes and the confusion matrix were counted.

    Reports of earlier versions count the more probable class even if there is a threshold.

    Args:
        found (Mapping[str, Any]): ``classification`` of a report.

    Returns:
        str: ``"at the threshold"`` or ``"of the more probable class"``; empty if there is no
        threshold.
    """
    if "threshold" not in found:
        return ""
    applied = "applied_to" in found["threshold"]
    return "at the threshold" if applied else "of the more probable class"
