"""Checks that a report has what every result needs; a page finds what else is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def check_report(report: Mapping[str, Any]) -> None:
    """Raise an error unless a report has model, data, scores, runs and records of the solver.

    Args:
        report (Mapping[str, Any]): Content of a ``report.json``.
    """
    for name in ("model", "dataset", "metric"):
        if not isinstance(report[name], str):
            raise TypeError(f"{name} must be a string")
    for name in ("rule", "description", "mark"):
        if not isinstance(report["protocol"][name], str):
            raise TypeError(f"protocol.{name} must be a string")
    finite_number(report["score"]["mean"])
    if report["score"]["std"] is not None:
        finite_number(report["score"]["std"])
    finite_number(report["seconds"])
    if not report["runs"]:
        raise ValueError("no runs")
    for way in ("forward", "backward"):
        solver = report["solver"][way]
        for name in ("solves", "failures", "iterations", "relative_residual"):
            finite_number(solver[name])
        if solver["relative_error_bound"] is not None:
            finite_number(solver["relative_error_bound"])
        ", ".join(solver["solvers"])
    if "confusion" in report:
        classes, counts = report["confusion"]["classes"], report["confusion"]["counts"]
        if [len(row) for row in counts] != [len(classes)] * len(classes):
            raise ValueError("confusion must be a square table with one row per class")
        for row in counts:
            for count in row:
                finite_number(count)


def finite_number(value: Any) -> float:
    """Return a value if it is a finite number, and raise an error otherwise.

    Args:
        value (Any): Anything that was read from a file.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"a number is needed (got {value!r:.50})")
    return float(value)
