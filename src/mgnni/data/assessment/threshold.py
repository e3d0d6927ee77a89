"""From scores to predicted classes, and the threshold of two classes, chosen on validation data."""

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


def predicted_classes(scores: Tensor, multilabel: bool, threshold: float | None = None) -> Tensor:
    """Returns which classes are predicted; predictions and reported statistics use this rule.

    Several labels per row: those with a positive score. Otherwise the class with the highest score,
    the first one of equals; or, with a threshold, the second of two classes where its probability
    exceeds the threshold, and the first one elsewhere.

    Args:
        scores (Tensor): Logits.
        multilabel (bool): Whether a row may have several labels.
        threshold (float, optional): Threshold of a task with two classes. (default: :obj:`None`)

    Shapes:
        - **scores:** :math:`(N, C)` for :math:`N` rows and :math:`C` classes
        - **output:** :math:`(N, C)`, boolean
    """
    if multilabel:
        return scores > 0
    # By scores, since probabilities may be equal where scores are not.
    best = scores.argmax(1)
    if threshold is not None:
        best = (positive_probability(scores) > threshold).long().to(scores.device)
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, best.unsqueeze(1), True)


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
