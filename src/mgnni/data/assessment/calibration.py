"""Calibration: whether a prediction with probability p is right in a fraction p of the cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

BINS = 10


def reliability_sums(confidence: Tensor, right: Tensor) -> dict[str, list[float]]:
    r"""Returns rows, sum of confidences and number of right predictions of ten bins.

    Bin :math:`k` holds confidences in :math:`((k-1)/10, k/10]`. Sums of several runs can be added.

    Args:
        confidence (Tensor): Probability of each predicted class.
        right (Tensor): Whether it is the true one.

    Shapes:
        - **confidence**, **right:** any, the same
    """
    confidence = confidence.detach().cpu().double().flatten()
    place = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    weights = {
        "rows": torch.ones_like(confidence),
        "confidence": confidence,
        "right": right.cpu().double().flatten(),
    }
    return {
        name: torch.zeros(BINS, dtype=torch.double).index_add_(0, place, one).tolist()
        for name, one in weights.items()
    }


def calibration(sums: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    r"""Returns the expected calibration error and the bins of a reliability diagram.

    The error is :math:`\sum_k (n_k / n)\,|a_k - c_k|` with the accuracy :math:`a_k` and the mean
    confidence :math:`c_k` of the :math:`n_k` predictions in bin :math:`k`.

    Args:
        sums (Sequence[Mapping[str, Sequence[float]]]): Results of :func:`reliability_sums`, which
            are pooled.

    Returns:
        dict: ``expected_error``, and ``bins`` with ``from``, ``to``, ``rows``, ``confidence`` and
        ``accuracy``; empty ones are left out.
    """
    rows, confidence, right = (
        [sum(values) for values in zip(*(one[name] for one in sums), strict=True)]
        for name in ("rows", "confidence", "right")
    )
    total = sum(rows)
    bins = [
        {
            "from": place / BINS,
            "to": (place + 1) / BINS,
            "rows": int(rows[place]),
            "confidence": confidence[place] / rows[place],
            "accuracy": right[place] / rows[place],
        }
        for place in range(BINS)
        if rows[place]
    ]
    error = sum(one["rows"] / total * abs(one["accuracy"] - one["confidence"]) for one in bins)
    return {"expected_error": error, "bins": bins}
