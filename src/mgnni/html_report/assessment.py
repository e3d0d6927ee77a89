"""Figures that assess a result: classes, calibration, ROC and precision-recall curves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mgnni.data.assessment.reported_threshold import how_decided, threshold_range
from mgnni.html_report.figure import MUTED, SERIES, Figure, axis, categories
from mgnni.html_report.results import Result
from mgnni.html_report.text import metric_name, percent

MOST_BARS = 40  # classes
SQUARE: dict[str, Any] = {"width": 620, "height": 420}
MEASURES = ("precision", "recall", "f1")


def assessment_facts(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the uncertainty, the baseline and the threshold of a result, in words."""
    found = result.report.get("classification")
    if found is None:
        return
    ends, baseline, metric = found["interval"], found["baseline"], result.metric
    if ends is not None and not result.mark:
        yield (
            "95 % interval",
            f"{percent(ends['low'])} to {percent(ends['high'])} %, by {ends['resamples']:,} "
            "bootstrap resamples of the test rows; training data and seeds stay fixed",
        )
    elif found.get("no_interval") and not result.mark:
        yield "95 % interval", f"none: {found['no_interval']}"
    if metric in baseline:
        name = baseline["class"]
        what = "most frequent labels" if name is None else f"class {name}"
        yield "Baseline", f"always predicting the {what}: {percent(baseline[metric])} %"
    for one in found["rare"]:
        yield (
            "Rare class",
            f"{one['class']}: {percent(one['share'])} % of the rows for training and validation "
            f"(split {result.runs[0].split})",
        )
    if "threshold" in found:
        one = found["threshold"]
        yield (
            "Threshold",
            f"{one['class']} above a probability of {threshold_range(found)}, chosen by "
            f"{one['chosen_by']}: test balanced accuracy "
            f"{percent(one['test']['balanced_accuracy'])} %, accuracy "
            f"{percent(one['test']['accuracy'])} %",
        )


def assessment_figures(result: Result) -> list[Figure]:
    """Return the figures of a report that has an assessment."""
    found = result.report.get("classification")
    if found is None:
        return []
    figures = [_classes(found, len(result.runs)), _reliability(found["calibration"])]
    if "curves" in found:
        run = result.runs[found["curves"]["run"]]
        which = f"split {run.split}, seed {run.seed}"
        figures += [_roc(found["curves"]["roc"], which)]
        figures += [_precision_recall(found["curves"]["precision_recall"], which)]
    return figures


def _classes(found: Mapping[str, Any], runs: int) -> Figure:
    classes, decided = found["classes"], how_decided(found)
    shown = sorted(classes, key=lambda one: -one["support"])[:MOST_BARS]
    data = [
        {
            "type": "bar",
            "orientation": "h",
            "name": "F1" if name == "f1" else name,
            "x": [None if one[name] is None else round(100 * one[name], 2) for one in shown],
            "y": list(range(len(shown))),
            "marker": {"color": SERIES[place], "line": {"color": SERIES[place], "width": 2}},
            "hovertemplate": f"{name} %{{x}} %<extra></extra>",
        }
        for place, name in enumerate(MEASURES)
    ]
    gaps = any(one[name] is None for one in shown for name in MEASURES)
    worst = min(classes, key=lambda one: 2 if one["recall"] is None else one["recall"])
    return Figure(
        title="Classes",
        text="Precision: how many of the rows predicted as a class belong to it. Recall: how many "
        f"of its rows are found. Test rows of {runs} run{'s' * (runs > 1)} together"
        f"{f', predictions {decided}' * bool(decided)}. Lowest recall: class {worst['name']}, "
        f"{percent(worst['recall'])} %." + " Where there are no such rows, there is no bar." * gaps,
        data=data,
        layout={
            "xaxis": axis("%", range=[-0.5, 100]),  # so that the edge of a bar of 0 % is visible
            "yaxis": categories([one["name"] for one in shown]),
            "barmode": "group",
        },
        head=["Class", "Precision %", "Recall %", "F1 %", "Rows"],
        rows=[
            [one["name"], *(percent(one[name]) for name in MEASURES), f"{one['support']:,}"]
            for one in sorted(classes, key=lambda one: -one["support"])
        ],
        height=140 + 54 * len(shown),
    )


def _reliability(calibration: Mapping[str, Any]) -> Figure:
    bins = calibration["bins"]
    data = [
        {
            **_line("bins", [100 * one["confidence"] for one in bins], SERIES[0]),
            "y": [round(100 * one["accuracy"], 2) for one in bins],
            "mode": "lines+markers",
            "customdata": [one["rows"] for one in bins],
            "hovertemplate": "confidence %{x} %, right %{y} %, %{customdata} rows<extra></extra>",
        },
        _diagonal("calibrated"),
    ]
    return Figure(
        title="Calibration",
        text="How often predictions are right, by the probability that the model gives them. Below "
        "the diagonal it is too sure. Expected calibration error: "
        f"{percent(calibration['expected_error'])} %.",
        data=data,
        layout={
            "xaxis": axis("mean confidence (%)", range=[0, 100]),
            "yaxis": axis("right (%)", range=[0, 102]),
        },
        head=["Confidence", "Mean confidence %", "Right %", "Predictions"],
        rows=[
            [
                f"{one['from']:.1f} to {one['to']:.1f}",
                percent(one["confidence"]),
                percent(one["accuracy"]),
                f"{one['rows']:,}",
            ]
            for one in bins
        ],
        **SQUARE,
    )


def _roc(curve: Mapping[str, Any], which: str) -> Figure:
    x, y = curve["false_positive_rate"], curve["true_positive_rate"]
    area = f"{metric_name('roc_auc')}: {percent(curve['area'])} %"
    names = ("false positive rate", "true positive rate")
    return _curve("ROC curve", which, area, names, x, y, _diagonal("guessing"))


def _precision_recall(curve: Mapping[str, Any], which: str) -> Figure:
    x, y = curve["recall"], curve["precision"]
    area = f"Average precision: {percent(curve['area'])} %; guessing has {percent(y[-1])} %"
    return _curve("Precision-recall curve", which, area, ("recall", "precision"), x, y)


def _curve(
    title: str,
    which: str,
    area: str,
    names: tuple[str, str],
    x: Sequence[float],
    y: Sequence[float],
    *others: dict[str, Any],
) -> Figure:
    """Draw one share against another, beside other lines."""
    return Figure(
        title=title,
        text=f"Test rows of the best run on validation data, {which}. {area}.",
        data=[{**_line("model", [100 * v for v in x], SERIES[0]), "y": _rounded(y)}, *others],
        layout={
            "xaxis": axis(f"{names[0]} (%)", range=[0, 100]),
            "yaxis": axis(f"{names[1]} (%)", range=[0, 101]),
        },
        head=[f"{name.capitalize()} %" for name in names],
        rows=[[percent(a), percent(b)] for a, b in zip(x, y, strict=True)],
        words=(),
        **SQUARE,
    )


def _line(name: str, x: Sequence[float], colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [round(value, 2) for value in x],
        "line": {"color": colour, "width": 2},
        "hovertemplate": "%{x} %, %{y} %<extra></extra>",
    }


def _diagonal(name: str) -> dict[str, Any]:
    line = {"color": MUTED, "dash": "dash", "width": 1}
    return {**_line(name, [0, 100], MUTED), "y": [0, 100], "line": line}


def _rounded(shares: Sequence[float]) -> list[float]:
    return [round(100 * share, 2) for share in shares]
