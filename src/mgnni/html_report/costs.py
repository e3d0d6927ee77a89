"""Figures of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgnni.html_report.figure import FRAME, SERIES, Figure, axis, rows_layout
from mgnni.html_report.labels import by_experiment, labels, of_experiment
from mgnni.html_report.results import Result
from mgnni.html_report.text import duration, size

ROW = 30  # pixels per bar


def cost_figures(results: Sequence[Result]) -> list[Figure]:
    """Return the time of the trainings of each experiment, and their memory where it is known."""
    return [figure for group in by_experiment(results) for figure in _figures(group)]


def _figures(results: Sequence[Result]) -> list[Figure]:
    names, of = labels(results), of_experiment(results[0])
    shared: dict[str, Any] = {
        "head": ["Model", "Time", "Peak memory", "Runs", "Parameters", "Device"],
        "words": (0, 5),
        "rows": [
            [
                name,
                duration(one.seconds),
                size(one.report.get("peak_memory")),
                str(len(one.runs)),
                f"{one.report.get('parameters', 0):,}",
                one.device,
            ]
            for name, one in zip(names, results, strict=True)
        ],
        "height": FRAME + ROW * len(results),
    }
    figures = [
        Figure(
            title=f"Training time{of}",
            text="Seconds for all runs of a training together. Compare times of the same device "
            "only; the table names it.",
            data=[_bars([one.seconds for one in results])],
            layout=rows_layout(axis("seconds"), names),
            **shared,
        )
    ]
    memory = [one.report.get("peak_memory") for one in results]
    if any(memory):
        figures.append(
            Figure(
                title=f"Peak memory{of}",
                text="Most memory in use at a time: on the GPU, or by the whole process on a CPU. "
                "Reports of earlier versions and of trainings in several processes do not have it.",
                data=[_bars([count and count / 2**20 for count in memory])],
                layout=rows_layout(axis("MiB"), names),
                **shared,
            )
        )
    return figures


def _bars(values: Sequence[float | None]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": [None if value is None else float(f"{value:.4g}") for value in values],
        "y": list(range(len(values))),
        "marker": {"color": SERIES[0]},
        "hovertemplate": "%{x}<extra></extra>",
        "showlegend": False,
    }
