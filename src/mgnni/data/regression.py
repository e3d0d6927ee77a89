"""Metrics of predicted numbers: mean absolute error and coefficient of determination."""

from __future__ import annotations

import statistics

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, DataError


def measure_numbers(predicted: Tensor, targets: Tensor) -> dict[str, float]:
    r"""Returns ``mae`` and ``r2``, each the mean over the targets.

    For numbers :math:`y_i` with mean :math:`\bar{y}` and predictions :math:`p_i`,

    .. math::
        \mathrm{MAE} = \frac{1}{N} \sum_i |y_i - p_i|, \qquad
        R^2 = 1 - \frac{\sum_i (y_i - p_i)^2}{\sum_i (y_i - \bar{y})^2}.

    MAE has the unit of the target. :math:`R^2` is 1 for exact predictions, 0 for the mean of these
    rows, and negative for worse ones. If the numbers are all equal, it is 1 for exact predictions
    and 0 otherwise, as in scikit-learn.

    Args:
        predicted (Tensor): Predicted numbers.
        targets (Tensor): True numbers.

    Shapes:
        - **predicted**, **targets:** :math:`(N, T)` for :math:`N` rows and :math:`T` targets
    """
    _check(predicted, targets)
    columns = per_target(predicted, targets)
    return {name: statistics.fmean(values) for name, values in columns.items()}


def per_target(predicted: Tensor, targets: Tensor) -> dict[str, list[float]]:
    """Returns ``mae`` and ``r2`` of each target; see :func:`measure_numbers`.

    Args:
        predicted (Tensor): Predicted numbers.
        targets (Tensor): True numbers.

    Shapes:
        - **predicted**, **targets:** :math:`(N, T)` for :math:`N` rows and :math:`T` targets
    """
    error, true = predicted.detach().double() - targets.double(), targets.double()
    left, spread = error.square().sum(0), (true - true.mean(0)).square().sum(0)
    constant = torch.where(left > 0, 0.0, 1.0).double()
    r2 = torch.where(spread > 0, 1 - left / spread, constant)
    return {"r2": r2.tolist(), "mae": error.abs().mean(0).tolist()}


def _check(predicted: Tensor, targets: Tensor) -> None:
    if targets.size(0) == 0:
        raise DataError("no labelled rows to evaluate; add labelled units to this set")
    if predicted.shape != targets.shape:
        raise ArgumentError(
            f"'scores' must have shape {tuple(targets.shape)}, one number per row and target (got "
            f"{tuple(predicted.shape)}); pass the output of the model for these rows"
        )
    if not bool(torch.isfinite(predicted).all()):
        bad = int((~torch.isfinite(predicted)).any(1).nonzero()[0])
        raise ArgumentError(
            f"'scores' must be finite (got nan or inf, first in row {bad}); check the loss, or "
            "lower the learning rate"
        )
