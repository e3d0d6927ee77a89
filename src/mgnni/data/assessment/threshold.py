"""The decision threshold of a task with two classes, chosen on validation data."""

from __future__ import annotations

import torch
from torch import Tensor

CRITERION = "balanced_accuracy"  # what the threshold maximises


def positive_probability(scores: Tensor) -> Tensor:
    """Returns the probability of the second of two classes, in double precision.

    Args:
        scores (Tensor): Logits.

    Shapes:
        - **scores:** :math:`(N, 2)` for :math:`N` rows
        - **output:** :math:`(N)`
    """
    exact = scores.detach().cpu().double()
    return (exact[:, 1] - exact[:, 0]).sigmoid()


def best_threshold(scores: Tensor, labels: Tensor) -> float | None:
    """Returns the threshold with the highest balanced accuracy, the closest to 0.5 of several.

    A row is predicted to be of class 1 if its probability exceeds the threshold. Candidates are
    0.5 and the middles between neighbouring probabilities.

    Args:
        scores (Tensor): Logits of validation rows.
        labels (Tensor): Their classes, 0 or 1.

    Shapes:
        - **scores:** :math:`(N, 2)` for :math:`N` rows
        - **labels:** :math:`(N)`

    Returns:
        float, optional: The threshold; ``None`` if the labels contain one class only.
    """
    probability, labels = positive_probability(scores), labels.cpu()
    positive, negative = ((probability[labels == one]).sort().values for one in (1, 0))
    if not positive.numel() or not negative.numel():
        return None
    distinct = torch.unique(probability)
    middles = (distinct[1:] + distinct[:-1]) / 2
    candidates = torch.cat([torch.tensor([0.5], dtype=torch.double), middles])
    found = 1 - torch.searchsorted(positive, candidates, right=True) / positive.numel()
    spared = torch.searchsorted(negative, candidates, right=True) / negative.numel()
    quality = (found + spared).double().round(decimals=6)  # equal up to rounding is equal
    best = candidates[quality == quality.max()]
    return float(best[(best - 0.5).abs().argmin()])
