"""Figures of predicted numbers: predicted against true ones, and residuals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mgnni.data.metric_names import readable
from mgnni.html_report.figure import MUTED, SERIES, Figure, axis
from mgnni.html_report.results import Result
from mgnni.html_report.text import metric_name, score

MOST_TARGETS = 6  # with figures
SQUARE: dict[str, Any] = {"width": 620, "height": 460}


def number_facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield uncertainty, baseline and errors of a regression, in words."""
    found, metric = result.report.get("regression"), result.metric
    if found is None:
        return
    ends = found["interval"]
    if ends is not None:
        yield (
            "95 % interval",
            f"{score(metric, ends['low'])} to {score(metric, ends['high'])}, by "
            f"{ends['resamples']:,} bootstrap resamples of the test rows; training data and seeds "
            "stay fixed",
        )
    elif found.get("no_interval"):
        yield "95 % interval", f"none: {found['no_interval']}"
    usual = score(metric, found["baseline"][metric])
    yield "Baseline", f"always predicting the mean of training: {metric_name(metric)} {usual}"
    means = _means(len(result.runs))
    for one in found["targets"][:MOST_TARGETS]:
        yield (
            "Target",
            f"{one['name']}: MAE {readable(one['mae'])} (of the mean "
            f"{readable(one['baseline']['mae'])}), R² {one['r2']:.4f}{means}",
        )


def number_figures(result: Result) -> list[Figure]:
    """Return two figures for each target of a regression."""
    found = result.report.get("regression")
    if found is None:
        return []
    run = result.runs[found["shown_run"]]
    which = f"split {run.split}, seed {run.seed}"
    figures = []
    for one in found["targets"][:MOST_TARGETS]:
        figures += [_against(one, which, _means(len(result.runs))), _residuals(one, which)]
    return figures


def _means(runs: int) -> str:
    return f", mean over {runs} runs" if runs > 1 else ""


def _against(target: Mapping[str, Any], which: str, means: str) -> Figure:
    true, predicted = target["points"]["true"], target["points"]["predicted"]
    ends = [min(*true, *predicted), max(*true, *predicted)]
    name = target["name"]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "exact",
            "x": ends,
            "y": ends,
            "line": {"color": MUTED, "dash": "dash", "width": 1},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": "test rows",
            "x": true,
            "y": predicted,
            "marker": {"color": SERIES[0], "size": 6, "opacity": 0.6},
            "hovertemplate": "true %{x}, predicted %{y}<extra></extra>",
        },
    ]
    return Figure(
        title=f"{name}: predicted against true",
        text=f"{len(true):,} test rows of the best run on validation data, {which}; exact "
        "predictions are on the dashed line.",
        data=data,
        layout={"xaxis": axis("true"), "yaxis": axis("predicted")},
        head=["", "MAE", "R²"],
        rows=[
            [f"model{means}", readable(target["mae"]), f"{target['r2']:.4f}"],
            [
                f"mean of training{means}",
                readable(target["baseline"]["mae"]),
                f"{target['baseline']['r2']:.4f}",
            ],
        ],
        **SQUARE,
    )


def _residuals(target: Mapping[str, Any], which: str) -> Figure:
    true, predicted = target["points"]["true"], target["points"]["predicted"]
    left = [a - b for a, b in zip(true, predicted, strict=True)]
    shares, values = target["residuals"]["quantiles"], target["residuals"]["values"]
    return Figure(
        title=f"{target['name']}: residuals",
        text=f"True minus predicted numbers of the same test rows, {which}, by the predicted "
        f"number. Median {readable(values[len(values) // 2], 3)}; 90 % lie between "
        f"{readable(values[1], 3)} and {readable(values[-2], 3)}.",
        data=[
            {
                "type": "scatter",
                "mode": "markers",
                "name": "test rows",
                "x": predicted,
                "y": [float(f"{value:.6g}") for value in left],
                "marker": {"color": SERIES[1], "size": 6, "opacity": 0.6},
                "hovertemplate": "predicted %{x}, residual %{y}<extra></extra>",
                "showlegend": False,
            }
        ],
        layout={"xaxis": axis("predicted"), "yaxis": axis("true minus predicted")},
        head=["Share of test rows", "Residual at most"],
        rows=[
            [f"{100 * share:g} %", readable(value)]
            for share, value in zip(shares, values, strict=True)
        ],
        **SQUARE,
    )
