"""Tables and figures over all results: scores, solvers, time and memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from mgnni.data.metric_names import gain
from mgnni.html_report.figure import MUTED, SERIES, Figure, axis, categories
from mgnni.html_report.paper import Row, paper_score
from mgnni.html_report.results import Result
from mgnni.html_report.text import (
    DASH,
    Html,
    duration,
    factor,
    link,
    metric_name,
    percent,
    points,
    score,
    size,
    small,
    table,
)

ROW = 36  # pixels per result
FRAME = 110  # pixels around the rows
COLUMNS = ("Mean ± std", "Lowest run", "Highest run")
WORDS = ("Model", "Dataset", "Metric", "Rule", "Experiment")


def overview_table(results: Sequence[Result], rows: Sequence[Row]) -> Html:
    """Return one row per result; the model links to its section, the score to its runs."""
    with_paper = any(paper_score(one, rows) for one in results)
    stored = any(one.experiment for one in results)
    of = "" if any(factor(one.metric) == 1 for one in results) else " %"  # else metrics differ
    head = ["Model", "Dataset", f"Test{of}", *(["Paper %", "Difference"] if with_paper else [])]
    head += [f"Validation{of}", "Runs", "Time", "Metric", "Rule"]
    head += ["Experiment"] if stored else []
    words = [head.index(name) for name in head if name in WORDS]
    lines = []
    for one in results:
        line: list[str] = [link(one.anchor, one.label)]
        line.append(one.dataset + ("" if one.column == one.dataset else f" ({one.column})"))
        line.append(link(f"{one.anchor}-runs", score(one.metric, one.mean, one.std, one.mark)))
        if with_paper:
            paper = paper_score(one, rows)
            line.append(DASH if paper is None else percent(paper.mean, paper.std))
            line.append(DASH if paper is None else points(one.mean - paper.mean))
        line += [score(one.metric, one.val), str(len(one.runs)), duration(one.seconds)]
        line += [metric_name(one.metric), one.report["protocol"]["rule"]]
        lines.append([*line, *([one.experiment or DASH] if stored else [])])
    return table("All results: mean ± standard deviation over runs", head, lines, words=words)


def score_figures(results: Sequence[Result], rows: Sequence[Row]) -> list[Figure]:
    """Return the scores as one figure per experiment, column and metric."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for one in results:
        groups.setdefault((one.experiment, one.column, one.metric), []).append(one)
    return [_score_figure(*key, group, rows) for key, group in groups.items()]


def _score_figure(
    experiment: str, column: str, metric: str, results: Sequence[Result], rows: Sequence[Row]
) -> Figure:
    papers = [paper_score(one, rows) for one in results]
    places = list(range(len(results)))
    by = factor(metric)
    runs = [(by * run.test, place) for place, one in enumerate(results) for run in one.runs]
    found = [(place, paper) for place, paper in enumerate(papers) if paper is not None]
    data: list[dict[str, Any]] = [
        {
            **_points("single runs", [x for x, _ in runs], [y for _, y in runs]),
            "marker": {"color": MUTED, "size": 6, "opacity": 0.55},
        },
        {
            **_points("mean ± standard deviation", [by * one.mean for one in results], places),
            "error_x": _spread([one.std for one in results], SERIES[0], by),
            "marker": {"color": SERIES[0], "size": 10},
        },
    ]
    if found:
        data.append(
            {
                **_points("paper", [100 * p.mean for _, p in found], [i + 0.28 for i, _ in found]),
                "error_x": _spread([paper.std for _, paper in found], SERIES[1], by),
                "marker": {"color": SERIES[1], "size": 9, "symbol": "diamond"},
            }
        )
    best = max(results, key=lambda one: gain(metric, one.mean))
    of, unit_of = ("", "") if by == 1 else (" in percent", " %")
    text = (
        f"Test {metric_name(metric)}{of}: single runs, their mean, and one standard "
        f"deviation to both sides{', and the same of the paper' if found else ''}. Best mean: "
        f"{best.label}, {score(metric, best.mean, best.std, best.mark)}."
    )
    lines = [
        [
            label + one.mark,
            score(metric, one.mean, one.std),
            score(metric, min(run.test for run in one.runs)),
            score(metric, max(run.test for run in one.runs)),
            DASH if paper is None else percent(paper.mean, paper.std),
        ]
        for label, one, paper in zip(names(results), results, papers, strict=True)
    ]
    labels = [a + one.mark for a, one in zip(names(results), results, strict=True)]
    return Figure(
        title=f"Scores on {column}" + (f", {experiment}" if experiment else ""),
        text=text,
        data=data,
        layout={
            "xaxis": axis(f"test {metric_name(metric)}{' (%)' if by > 1 else ''}"),
            "yaxis": categories(labels),
        },
        head=["Model", *(f"{one}{unit_of}" for one in COLUMNS), "Paper %"],
        rows=lines,
        height=FRAME + ROW * len(results) + 20,
    )


def names(results: Sequence[Result]) -> list[str]:
    """Return a label for each result, with the dataset or the folder where labels are equal."""
    labels = [one.label for one in results]
    if len({one.column for one in results}) > 1:
        labels = [f"{one.label}, {one.column}" for one in results]
    several = {label for label, count in Counter(labels).items() if count > 1}
    return [
        f"{label} ({one.folder.name})" if label in several else label
        for label, one in zip(labels, results, strict=True)
    ]


def solver_figures(results: Sequence[Result]) -> list[Figure]:
    """Return the errors and the iterations of the solvers; nothing without implicit models."""
    solved = [one for one in results if one.report["solver"]["forward"]["solves"]]
    if not solved:
        return []
    ways = {"forward": "states", "backward": "gradients"}
    lines, bounds, iterations = [], [], []
    for way, what in ways.items():
        found = [one.report["solver"][way] for one in solved]
        errors = [one["relative_error_bound"] for one in found]
        shift = -0.14 if way == "forward" else 0.14  # so that equal numbers stay visible
        kept = [(x, y + shift) for y, x in enumerate(errors) if x]
        colour = {"color": SERIES[0 if way == "forward" else 1], "size": 10}
        shape = {"symbol": "circle" if way == "forward" else "diamond"}
        marker = {"marker": {**colour, **shape}}
        bounds.append({**_points(what, [x for x, _ in kept], [y for _, y in kept]), **marker})
        counts = [one["iterations"] for one in found]
        iterations.append(
            {**_points(what, counts, [y + shift for y in range(len(found))]), **marker}
        )
        for label, one in zip(names(solved), found, strict=True):
            bound = "not proven" if one["relative_error_bound"] is None else ""
            lines.append(
                [
                    label,
                    what,
                    ", ".join(one["solvers"]) or DASH,
                    str(one["solves"]),
                    str(one["failures"]),
                    str(one["iterations"]),
                    small(one["relative_residual"]),
                    bound or small(one["relative_error_bound"]),
                ]
            )
    head = ["Model", "Of", "Solvers", "Equations", "Missed", "Iterations", "Residual", "Error"]
    shared: dict[str, Any] = {
        "head": head,
        "rows": lines,
        "words": (0, 1, 2),
        "height": FRAME + ROW * len(solved),
    }
    failures = sum(int(line[4]) for line in lines)
    total = sum(int(line[3]) for line in lines)
    made = f"{total:,} equations were solved; {failures:,} missed their tolerance."
    labels = categories(names(solved))
    figures = []
    shown = [math.log10(x) for trace in bounds for x in trace["x"]]
    if shown:
        decades = [math.floor(min(shown)), math.floor(max(shown)) + 1]
        figures.append(
            Figure(
                title="Certified errors",
                text=f"Largest proven relative error of any solve of a training. {made}",
                data=bounds,
                layout={
                    "xaxis": {
                        **axis("relative error, at most", type="log", exponentformat="power"),
                        "range": decades,
                        "dtick": 1,
                    },
                    "yaxis": labels,
                },
                **shared,
            )
        )
    figures.append(
        Figure(
            title="Solver iterations",
            text="Largest number of iterations of any solve of a training; 0 for direct solvers.",
            data=iterations,
            layout={"xaxis": axis("iterations", rangemode="tozero"), "yaxis": labels},
            **shared,
        )
    )
    return figures


def cost_figures(results: Sequence[Result]) -> list[Figure]:
    """Return the time of each training, and its memory where it is known."""
    labels = names(results)
    shared: dict[str, Any] = {
        "head": ["Model", "Time", "Peak memory", "Runs", "Parameters", "Device"],
        "words": (0, 5),
        "rows": [
            [
                label,
                duration(one.seconds),
                size(one.report.get("peak_memory")),
                str(len(one.runs)),
                f"{one.report.get('parameters', 0):,}",
                str(one.report.get("device", DASH)),
            ]
            for label, one in zip(labels, results, strict=True)
        ],
        "height": FRAME - 20 + 28 * len(results),
    }
    figures = [
        Figure(
            title="Training time",
            text="Seconds for all runs of a training together. Compare times of the same device "
            "only; the table names it.",
            data=[_bars([one.seconds for one in results])],
            layout={"xaxis": axis("seconds"), "yaxis": categories(labels)},
            **shared,
        )
    ]
    memory = [one.report.get("peak_memory") for one in results]
    if any(memory):
        figures.append(
            Figure(
                title="Peak memory",
                text="Most memory in use at a time: on the GPU, or by the whole process on a CPU. "
                "Reports of earlier versions and of trainings in several processes do not have it.",
                data=[_bars([(count or 0) / 2**20 for count in memory])],
                layout={"xaxis": axis("MiB"), "yaxis": categories(labels)},
                **shared,
            )
        )
    return figures


def _points(name: str, x: Sequence[float], y: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [float(f"{value:.5g}") for value in x],
        "y": list(y),
        "hovertemplate": f"%{{x}}<extra>{name}</extra>",
    }


def _bars(values: Sequence[float]) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "x": [float(f"{value:.4g}") for value in values],
        "y": list(range(len(values))),
        "marker": {"color": SERIES[0]},
        "hovertemplate": "%{x}<extra></extra>",
        "showlegend": False,
    }


def _spread(deviations: Sequence[float | None], colour: str, by: int) -> dict[str, Any]:
    return {
        "type": "data",
        "array": [float(f"{by * (one or 0.0):.4g}") for one in deviations],
        "color": colour,
        "thickness": 2,
        "width": 5,
    }
