"""Figures of scores: single runs, their mean, and the number of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mgnni.data.metric_names import gain
from mgnni.html_report.figure import FRAME, MUTED, ROW, SERIES, Figure, axis, markers, rows_layout
from mgnni.html_report.labels import labels, of_experiment
from mgnni.html_report.paper import paper_score
from mgnni.html_report.results import Result
from mgnni.html_report.text import DASH, factor, metric_name, percent, score
from mgnni.reproduce.study import Study

COLUMNS = ("Mean ± std", "Lowest run", "Highest run")


def score_figures(results: Sequence[Result], experiments: Mapping[str, Study]) -> list[Figure]:
    """Return the scores as one figure per experiment, column and metric."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for one in results:
        groups.setdefault((one.experiment, one.column, one.metric), []).append(one)
    return [_score_figure(group, experiments) for group in groups.values()]


def _score_figure(results: Sequence[Result], experiments: Mapping[str, Study]) -> Figure:
    metric = results[0].metric
    papers = [paper_score(one, experiments) for one in results]
    by = factor(metric)
    runs = [(by * run.test, place) for place, one in enumerate(results) for run in one.runs]
    found = [(place, paper) for place, paper in enumerate(papers) if paper is not None]
    data = [
        markers(
            "single runs",
            [x for x, _ in runs],
            [y for _, y in runs],
            marker={"color": MUTED, "size": 6, "opacity": 0.55},
        ),
        markers(
            "mean ± standard deviation",
            [by * one.mean for one in results],
            list(range(len(results))),
            error_x=_spread([one.std for one in results], SERIES[0], by),
            marker={"color": SERIES[0], "size": 10},
        ),
    ]
    if found:
        data.append(
            markers(
                "paper",
                [100 * paper.mean for _, paper in found],
                [place + 0.28 for place, _ in found],
                error_x=_spread([paper.std for _, paper in found], SERIES[1], by),
                marker={"color": SERIES[1], "size": 9, "symbol": "diamond"},
            )
        )
    of, unit_of = ("", "") if by == 1 else (" in percent", " %")
    text = (
        f"Test {metric_name(metric)}{of}: single runs, their mean, and one standard deviation to "
        f"both sides{'; also the mean and standard deviation that the paper states' * bool(found)}"
        f".{_best_mean(results, unit_of)}"
    )
    names = [name + one.mark for name, one in zip(labels(results), results, strict=True)]
    lines = [
        [
            name,
            score(metric, one.mean, one.std),
            score(metric, min(run.test for run in one.runs)),
            score(metric, max(run.test for run in one.runs)),
            *([DASH if paper is None else percent(paper.mean, paper.std)] if found else []),
        ]
        for name, one, paper in zip(names, results, papers, strict=True)
    ]
    return Figure(
        title=f"Scores on {results[0].place}{of_experiment(results[0])}",
        text=text,
        data=data,
        layout=rows_layout(axis(f"test {metric_name(metric)}{' (%)' if by > 1 else ''}"), names),
        head=["Model", *(f"{one}{unit_of}" for one in COLUMNS), *(["Paper %"] if found else [])],
        rows=lines,
        height=FRAME + ROW * len(results),
    )


def _best_mean(results: Sequence[Result], unit_of: str) -> str:
    """Return which mean is the best; nothing if the means are not comparable, or several are."""
    metric = results[0].metric
    same = len({(one.report["protocol"]["rule"], one.splits) for one in results}) == 1
    same &= len({one.split_fingerprints for one in results} - {()}) <= 1
    first, *others = sorted(results, key=lambda one: gain(metric, one.mean), reverse=True)
    if not same or not others or others[0].mean == first.mean:
        return ""
    return (
        f" Best mean: {first.label}, {score(metric, first.mean, first.std, first.mark)}{unit_of}."
    )


def _spread(deviations: Sequence[float | None], colour: str, by: int) -> dict[str, Any]:
    return {
        "type": "data",
        "array": [float(f"{by * (one or 0.0):.4g}") for one in deviations],
        "color": colour,
        "thickness": 2,
        "width": 5,
    }
