"""ROC and precision-recall curves of a task with two classes, with few points."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mgnni.data.assessment.threshold import positive_probability

POINTS = 50  # of a curve, at most
DIGITS = 6

Floats = npt.NDArray[np.float64]


def binary_curves(scores: Tensor, labels: Tensor) -> dict[str, Any] | None:
    r"""Returns the ROC curve and the precision-recall curve, with their areas.

    The area under the ROC curve is exact, by the trapezoidal rule over all points. That of the
    precision-recall curve is the average precision :math:`\sum_n (R_n - R_{n-1}) P_n`, which does
    not interpolate. The curves themselves keep at most 50 points each.

    Args:
        scores (Tensor): Logits.
        labels (Tensor): Classes, 0 or 1.

    Shapes:
        - **scores:** :math:`(N, 2)` for :math:`N` rows
        - **labels:** :math:`(N)`

    Returns:
        dict, optional: ``roc`` with ``false_positive_rate``, ``true_positive_rate`` and ``area``,
        ``precision_recall`` with ``recall``, ``precision`` and ``area``; ``None`` if the labels
        contain one class only.
    """
    probability, positive = positive_probability(scores), labels.cpu() == 1
    if bool(positive.all()) or not bool(positive.any()):
        return None
    order = torch.argsort(probability, descending=True, stable=True)
    value, hits = probability[order].numpy(), positive[order].numpy()
    last = np.append(np.flatnonzero(np.diff(value)), len(value) - 1)  # of equal probabilities
    true = np.cumsum(hits)[last].astype(float)
    claimed = last + 1.0
    recall, fallout = true / hits.sum(), (claimed - true) / (~hits).sum()
    precision = true / claimed
    average = float(np.sum(np.diff(recall, prepend=0.0) * precision))
    roc = np.append(0.0, fallout), np.append(0.0, recall)
    area = float(np.sum(np.diff(roc[0]) * (roc[1][1:] + roc[1][:-1]) / 2))
    return {
        "roc": _curve(roc, ("false_positive_rate", "true_positive_rate"), area),
        "precision_recall": _curve((recall, precision), ("recall", "precision"), average),
    }


def _curve(curve: tuple[Floats, Floats], names: tuple[str, str], area: float) -> dict[str, Any]:
    """Returns a curve with few points: the ends, and points at even steps along it."""
    length = np.cumsum(np.abs(np.diff(curve[0], prepend=curve[0][0])))
    length += np.cumsum(np.abs(np.diff(curve[1], prepend=curve[1][0])))
    kept = np.arange(len(length))
    if len(length) > POINTS:
        steps = np.linspace(0, length[-1], POINTS)
        kept = np.unique(np.searchsorted(length, steps).clip(max=len(length) - 1))
        kept = np.unique(np.append(kept, [0, len(length) - 1]))[:POINTS]
        kept[-1] = len(length) - 1
    rounded = {
        name: np.round(one[kept], DIGITS).tolist() for name, one in zip(names, curve, strict=True)
    }
    return {**rounded, "area": area}
