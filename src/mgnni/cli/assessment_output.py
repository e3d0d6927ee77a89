"""The assessment of a result, in a few lines on standard output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mgnni.data.assessment.reported_threshold import how_decided, threshold_range
from mgnni.data.metric_names import readable, shown
from mgnni.data.tables.messages import counted

MOST_CLASSES = 4  # with a line each; otherwise only those that are recognised least
FEWEST_LINES = 2


def assessment_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield baseline, uncertainty, classes and threshold of a training.

    Args:
        report (Mapping[str, Any]): The report of the training.
    """
    if "regression" in report:
        yield from _number_lines(report)
    found = report.get("classification")
    if found is None:
        return
    metric, ends, baseline = report["metric"], found["interval"], found["baseline"]
    if report["protocol"]["mark"]:
        yield "at the epochs chosen without test labels:"
    elif ends is not None:
        yield (
            f"95 % interval {_percent(ends['low'])} to {_percent(ends['high'])} %, by "
            f"{ends['resamples']:,} resamples of the test rows"
        )
    elif found.get("no_interval"):
        yield f"no 95 % interval: {found['no_interval']}"
    if metric in baseline:
        what = "the most frequent labels" if baseline["class"] is None else repr(baseline["class"])
        yield f"always predicting {what}: {metric} {_percent(baseline[metric])} %"
    balanced = [run["test"].get("balanced_accuracy") for run in report["runs"]]
    known = [value for value in balanced if value is not None]
    which = " of the more probable class" if "threshold" in found else ""
    parts = [f"balanced accuracy{which} {_percent(sum(known) / len(known))} %"] if known else []
    error = found["calibration"]["expected_error"]
    yield ", ".join([*parts, f"expected calibration error {_percent(error)} %"])
    yield from _threshold_lines(found)
    yield from _class_lines(report, found)


def _number_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield uncertainty, baseline, and the error of each target in its own units."""
    found, metric = report["regression"], report["metric"]
    ends, baseline = found["interval"], found["baseline"]
    if ends is not None:
        yield (
            f"95 % interval {shown(metric, ends['low'])} to {shown(metric, ends['high'])}, by "
            f"{ends['resamples']:,} resamples of the test rows"
        )
    elif found.get("no_interval"):
        yield f"no 95 % interval: {found['no_interval']}"
    yield f"always predicting the mean of training: {metric} {shown(metric, baseline[metric])}"
    several = len(found["runs"]) > 1
    run = report["runs"][found["shown_run"]]
    means = f", means over {len(found['runs'])} runs" if several else ""
    which = f"in the best run on validation, split {run['split']}, seed {run['seed']}, "
    for one in found["targets"][:MOST_CLASSES]:
        usual, (low, middle, high) = one["baseline"], one["residuals"]["values"][1:6:2]
        yield (
            f"{one['name']}: mean absolute error {readable(one['mae'])} (of the mean "
            f"{readable(usual['mae'])}), r2 {one['r2']:.4f}{means}; {which * several}true minus "
            f"predicted {readable(low, 3)} to {readable(high, 3)} for 90 % of the test rows, "
            f"median {readable(middle, 3)}"
        )
    if len(found["targets"]) > MOST_CLASSES:
        yield f"and {len(found['targets']) - MOST_CLASSES} more targets in report.json"


def _class_lines(report: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    runs = f" of {len(found['runs'])} runs" if len(found["runs"]) > 1 else ""
    weighed = report["config"].get("class_weight") == "balanced" or report["metric"] == "micro_f1"
    classes = [one for one in found["classes"] if one["support"]]
    few = len(classes) <= MOST_CLASSES
    shown = classes if few else sorted(classes, key=lambda one: one["recall"])[:FEWEST_LINES]
    decided = f"{how_decided(found)}, " if "threshold" in found else ""
    for one in shown:
        yield (
            f"{decided}{'class' if few else 'lowest recall: class'} {one['name']}: precision "
            f"{_percent(one['precision'])}, recall {_percent(one['recall'])}, F1 "
            f"{_percent(one['f1'])} %, {counted(one['support'], 'test row')}{runs}"
        )
    tested = {one["name"] for one in classes}
    for one in found["rare"][:FEWEST_LINES]:
        rare = f"class {one['class']} is rare, {_percent(one['share'])} % of the rows"
        if one["class"] not in tested:
            yield f"{rare}, and no test row has it: the score says nothing about this class"
            continue
        yield f"{rare}: look at its recall{'' if weighed else ', and try --class-weight balanced'}"


def _threshold_lines(found: Mapping[str, Any]) -> Iterator[str]:
    if "threshold" not in found:
        return
    one = found["threshold"]
    yield (
        f"mgnni predict predicts {one['class']!r} above a probability of {threshold_range(found)}, "
        "chosen by balanced accuracy on validation rows: balanced accuracy "
        f"{_percent(one['test']['balanced_accuracy'])} %, accuracy "
        f"{_percent(one['test']['accuracy'])} %"
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"
