"""Figures of the solvers of implicit models: certified errors and iterations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mgnni.html_report.figure import FRAME, ROW, SERIES, Figure, axis, markers, rows_layout
from mgnni.html_report.labels import by_experiment, labels, of_experiment
from mgnni.html_report.results import Result
from mgnni.html_report.text import DASH, small

HEAD = ["Model", "Of", "Solvers", "Equations", "Missed", "Iterations", "Residual", "Error"]
WAYS = {"forward": "states", "backward": "gradients"}
# Records.accept in solve/result.py decides which equations are solved.
ACCEPTED = (
    "A tolerance limits the residual, not the error; residuals of vanishing gradients that are "
    "below the normal range of floating-point numbers are accepted at any relative size."
)


def solver_figures(results: Sequence[Result]) -> list[Figure]:
    """Return the errors and iterations of each experiment; nothing without implicit models."""
    solved = [one for one in results if one.report["solver"]["forward"]["solves"]]
    return [figure for group in by_experiment(solved) for figure in _figures(group)]


def _figures(solved: Sequence[Result]) -> list[Figure]:
    names, of = labels(solved), of_experiment(solved[0])
    found = {way: [one.report["solver"][way] for one in solved] for way in WAYS}
    every = [one for way in found.values() for one in way]
    shared: dict[str, Any] = {
        "head": HEAD,
        "rows": _lines(names, found),
        "words": (0, 1, 2),
        "height": FRAME + ROW * len(solved),
    }
    iterations = Figure(
        title=f"Solver iterations{of}",
        text="Largest number of iterations of any solve of a training; 0 for direct solvers.",
        data=[_trace(way, [one["iterations"] for one in found[way]]) for way in WAYS],
        layout=rows_layout(axis("iterations", rangemode="tozero"), names),
        **shared,
    )
    bounds = [math.log10(one["relative_error_bound"]) for one in every if _bound(one)]
    if not bounds:
        return [iterations]
    solves, missed = (sum(one[name] for one in every) for name in ("solves", "failures"))
    errors = Figure(
        title=f"Certified errors{of}",
        text="Largest proven relative error of any solve of a training. "
        f"{solves:,} equations were solved; {missed:,} missed their tolerance. {ACCEPTED}",
        data=[_trace(way, [_bound(one) for one in found[way]]) for way in WAYS],
        layout=rows_layout(_decades(bounds), names),
        **shared,
    )
    return [errors, iterations]


def _bound(solver: dict[str, Any]) -> float | None:
    """Return the largest proven error, or ``None`` if it has no place on a logarithmic axis."""
    return solver["relative_error_bound"] or None


def _trace(way: str, values: Sequence[float | None]) -> dict[str, Any]:
    forward = way == "forward"
    shift = -0.14 if forward else 0.14  # so that equal numbers stay visible
    kept = [(x, y + shift) for y, x in enumerate(values) if x is not None]
    marker = {"color": SERIES[0 if forward else 1], "size": 10}
    marker["symbol"] = "circle" if forward else "diamond"
    return markers(WAYS[way], [x for x, _ in kept], [y for _, y in kept], marker=marker)


def _decades(logs: Sequence[float]) -> dict[str, Any]:
    """Return a logarithmic axis of whole decades."""
    ends = [math.floor(min(logs)), math.floor(max(logs)) + 1]
    return axis("relative error, at most", type="log", exponentformat="power", range=ends)


def _lines(names: Sequence[str], found: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    lines = []
    for way, what in WAYS.items():
        for name, one in zip(names, found[way], strict=True):
            bound = one["relative_error_bound"]
            counts = [str(one[key]) for key in ("solves", "failures", "iterations")]
            solvers = ", ".join(one["solvers"]) or DASH
            error = "not proven" if bound is None else small(bound)
            lines.append([name, what, solvers, *counts, small(one["relative_residual"]), error])
    return lines
