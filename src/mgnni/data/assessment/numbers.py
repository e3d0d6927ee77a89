"""The assessment of predicted numbers: baseline, uncertainty, and a sample of test rows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgnni.data.assessment.bootstrap import Floats, bootstrap_rows, interval
from mgnni.data.regression import measure_numbers, per_target

MOST_POINTS = 1000  # test rows in the report, spread over the target's range
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


def assess_numbers(
    scores: Tensor, labels: Tensor, train: Tensor, rows: Tensor, num_rows: int, metric: str
) -> dict[str, Any]:
    """Returns the assessment of a run as plain data.

    Args:
        scores (Tensor): Predicted numbers of the test rows.
        labels (Tensor): Their true numbers.
        train (Tensor): Numbers of the training rows; the baseline predicts their mean.
        rows (Tensor): Indices of the test rows.
        num_rows (int): Number of rows of the task.
        metric (str): Metric of the task.

    Shapes:
        - **scores**, **labels:** :math:`(N, T)` for :math:`N` rows and :math:`T` targets
        - **train:** as **labels**, for other rows
        - **rows:** :math:`(N)`

    Returns:
        dict: ``baseline`` (metrics of the mean of the training rows), ``mean`` (that prediction),
        ``targets`` (metrics, those of the baseline, and quantiles of the residuals, per target),
        ``replicates`` (of the metric, by bootstrap), and ``points``: true and predicted numbers.
    """
    scores, labels = scores.detach().cpu().double(), labels.double()
    mean = train.double().mean(0)
    constant = mean.expand_as(labels)
    own, usual = per_target(scores, labels), per_target(constant, labels)
    # Not by torch.quantile, which refuses more than 16 million numbers.
    residual = np.quantile((labels - scores).numpy(), QUANTILES, axis=0)
    targets = [
        {
            **{name: own[name][place] for name in own},
            "baseline": {name: usual[name][place] for name in usual},
            "mean": float(mean[place]),
            "residuals": residual[:, place].tolist(),
        }
        for place in range(labels.size(1))
    ]
    true, predicted = labels.numpy(), scores.numpy()

    def resampled(weights: Any) -> Floats:
        return _mae(weights, predicted, true) if metric == "mae" else _r2(weights, predicted, true)

    return {
        "baseline": measure_numbers(constant, labels),
        "targets": targets,
        "replicates": bootstrap_rows(rows, num_rows, resampled),
        "points": [_points(true[:, i], predicted[:, i]) for i in range(true.shape[1])],
    }


def summarize_numbers(
    names: Sequence[str],
    metric: str,
    rows: Sequence[Tensor],
    assessed: Sequence[Mapping[str, Any]],
    best: int,
) -> dict[str, Any]:
    """Returns the assessment of all runs as plain data.

    Errors are means over runs. Residuals and points are those of one run, ``shown_run``.

    Args:
        names (Sequence[str]): Names of the targets.
        metric (str): Metric of the task.
        rows (Sequence[Tensor]): Indices of the test rows of each run.
        assessed (Sequence[Mapping[str, Any]]): Results of :func:`assess_numbers`.
        best (int): The run whose test rows are kept.

    Shapes:
        - **rows:** :math:`(N)` for each run, with its :math:`N` test rows

    Returns:
        dict: ``interval`` (or ``None``, and the reason in ``no_interval``), ``baseline``,
        ``targets``, ``shown_run`` and ``runs``; each target has its metrics, those of the mean of
        the training rows, quantiles of the residuals (true minus predicted), and true and predicted
        numbers of up to 1,000 test rows.
    """
    targets = []
    for place, name in enumerate(names):
        each = [one["targets"][place] for one in assessed]
        targets.append(
            {
                "name": name,
                **{
                    key: statistics.fmean(one[key] for one in each) for key in ("mae", "r2", "mean")
                },
                "baseline": {
                    key: statistics.fmean(one["baseline"][key] for one in each)
                    for key in ("mae", "r2")
                },
                "residuals": {
                    "quantiles": list(QUANTILES),
                    "values": assessed[best]["targets"][place]["residuals"],
                },
                "points": assessed[best]["points"][place],
            }
        )
    baseline = {
        key: statistics.fmean(one["baseline"][key] for one in assessed) for key in ("mae", "r2")
    }
    every = torch.unique(torch.cat(list(rows))).numel()
    ends, reason = interval([one["replicates"] for one in assessed], every)
    runs = []
    for one, tested in zip(assessed, rows, strict=True):
        own, _ = interval([one["replicates"]], tested.numel())
        bounds = None if own is None else [own["low"], own["high"]]
        runs.append({"interval": bounds, "baseline": one["baseline"][metric]})
    return {
        "epoch": "chosen without test labels",
        "interval": ends,
        **({} if reason is None else {"no_interval": reason}),
        "baseline": baseline,
        "targets": targets,
        "shown_run": best,
        "runs": runs,
    }


def _points(true: Any, predicted: Any) -> dict[str, list[float]]:
    """Returns rows that are evenly spaced in the order of their true numbers."""
    order = np.argsort(true, kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_POINTS)).round())
    kept = order[places.astype(int)]
    return {
        name: [float(f"{value:.6g}") for value in values[kept]]
        for name, values in (("true", true), ("predicted", predicted))
    }


def _mae(weights: Any, predicted: Any, true: Any) -> Floats:
    return np.asarray(weights @ np.abs(true - predicted).mean(1) / weights.sum(1))


def _r2(weights: Any, predicted: Any, true: Any) -> Floats:
    """Returns nan where all drawn rows have one number."""
    total = weights.sum(1, keepdims=True)
    size = np.abs(true).max(0)  # squares of tiny numbers would be zero
    # Centred before squaring, so that a large mean costs no digits.
    centred, error = (true - true.mean(0)) / size, (true - predicted) / size
    spread = weights @ centred**2 - (weights @ centred) ** 2 / total
    spread = np.where(spread > 1e-12 * (weights @ centred**2), spread, np.nan)
    return np.asarray((1 - weights @ error**2 / spread).mean(1))
