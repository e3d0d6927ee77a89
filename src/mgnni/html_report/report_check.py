"""Checks that a report has what a page shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def check_report(report: Mapping[str, Any]) -> None:
    """Raise an error unless a report has everything that a page shows of each result.

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
    for part in report.get("parts") or ():
        _numbers([part["seeds"], part.get("splits", []), [part["seconds"]]])
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
        _numbers(counts)
    if "classification" in report:
        _check_assessment(report["classification"], len(report["runs"]))
    if "regression" in report:
        _check_regression(report["regression"], len(report["runs"]))
    if report.get("portfolio") is not None:
        _check_portfolio(report["portfolio"])
    if "attention" in report:
        sample = report["attention"]
        if not len(sample["nodes"]) == len(sample["predicted"]) == len(sample["weights"]):
            raise ValueError("attention must have one row per node")
        rows = [*sample["weights"], *(one["weights"] for one in sample["means"])]
        if any(len(row) != len(sample["scales"]) for row in rows):
            raise ValueError("attention must have one column per scale")
        _numbers(rows)


def _check_portfolio(record: Mapping[str, Any]) -> None:
    _numbers([record["splits"], [record["seconds"]]])
    for name in ("chosen", "metric"):
        if not isinstance(record[name], str):
            raise TypeError(f"portfolio.{name} must be a string")
    for one in record["candidates"]:
        values = [one["epochs"], one["validation"], one["seconds_per_epoch"]]
        _numbers([[value for value in values if value is not None]])
        if not isinstance(one["name"], str) or not isinstance(one["error"], str | None):
            raise TypeError("a candidate of the portfolio must have a name, and an error or none")
    texts = [*record["notes"], *record["left_out"], *record["left_out"].values()]
    if record["chosen"] not in [one["name"] for one in record["candidates"]]:
        raise ValueError("the chosen model must be one of the candidates")
    if any(not isinstance(text, str) for text in texts):
        raise TypeError("notes and reasons of the portfolio must be strings")


def _check_assessment(found: Mapping[str, Any], runs: int) -> None:
    if found["interval"] is not None:
        _numbers([[found["interval"][name] for name in ("low", "high", "resamples")]])
    finite_number(found["calibration"]["expected_error"])
    names = ("from", "to", "rows", "confidence", "accuracy")
    _numbers([[one[name] for name in names] for one in found["calibration"]["bins"]])
    _numbers([[value for name, value in found["baseline"].items() if name != "class"]])
    _numbers([[one["share"]] for one in found["rare"]])
    for one in found["classes"]:
        values = [one["precision"], one["recall"], one["f1"], one["support"]]
        _numbers([[value for value in values if value is not None]])
        if not isinstance(one["name"], str):
            raise TypeError("the name of a class must be a string")
    if len(found["runs"]) != runs or not found["classes"]:
        raise ValueError("classification must have one entry per run, and classes")
    thresholds = [run["threshold"] for run in found["runs"] if run["threshold"] is not None]
    if "threshold" in found:
        test = found["threshold"]["test"]
        _numbers([thresholds, [test["accuracy"], test["balanced_accuracy"]]])
        if not thresholds or not isinstance(found["threshold"]["chosen_by"], str):
            raise ValueError("threshold must have a value, and say how it was chosen")
    if "curves" in found:
        roc, other = found["curves"]["roc"], found["curves"]["precision_recall"]
        pairs = [[roc[f"{name}_positive_rate"] for name in ("false", "true")]]
        pairs += [[other["recall"], other["precision"]]]
        for x, y in pairs:
            if not len(x) == len(y) > 0:
                raise ValueError("a curve must have as many numbers for both axes")
        _numbers([*pairs[0], *pairs[1], [roc["area"], other["area"]]])
        if found["curves"]["run"] not in range(runs):
            raise ValueError("curves must be those of a run")


def _check_regression(found: Mapping[str, Any], runs: int) -> None:
    if found["interval"] is not None:
        _numbers([[found["interval"][name] for name in ("low", "high", "resamples")]])
    measures = ("mae", "r2")
    _numbers([[found["baseline"][name] for name in measures]])
    if found["shown_run"] not in range(runs) or not found["targets"]:
        raise ValueError("regression must have targets, and a run that is shown")
    for one in found["targets"]:
        if not isinstance(one["name"], str):
            raise TypeError("the name of a target must be a string")
        true, predicted = one["points"]["true"], one["points"]["predicted"]
        shares, values = one["residuals"]["quantiles"], one["residuals"]["values"]
        if not len(true) == len(predicted) > 0 or not len(shares) == len(values) > 2:
            raise ValueError("a target must have as many true as predicted numbers, and residuals")
        _numbers([[one[name], one["baseline"][name]] for name in measures])
        _numbers([true, predicted, shares, values])


def _numbers(rows: Sequence[Sequence[Any]]) -> None:
    for row in rows:
        for value in row:
            finite_number(value)


def finite_number(value: Any) -> float:
    """Return a value if it is a finite number, and raise an error otherwise.

    Args:
        value (Any): Anything that was read from a file.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"a number is needed (got {value!r:.50})")
    return float(value)
