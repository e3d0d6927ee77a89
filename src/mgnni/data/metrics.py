"""Metrics of classes: accuracy, plain and balanced, F1, and the area under the ROC curve."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, DataError


def measure(scores: Tensor, labels: Tensor, multilabel: bool) -> dict[str, float]:
    r"""Returns all metrics that are defined, each from 0 (worst) to 1 (best).

    With one class per row, the prediction is the class with the highest score, the first one of
    equals. ``micro_f1`` equals ``accuracy``. ``balanced_accuracy`` is the mean over the classes
    that occur of the fraction of their rows that are predicted correctly. For two classes,
    ``roc_auc`` is the probability that a row of class 1 has a higher score difference
    :math:`s_1 - s_0` than a row of class 0, where ties count one half; it is omitted if the labels
    contain one class only.

    With several labels per row, a label is predicted if its score is positive. ``accuracy`` is the
    fraction of correct *entries*, and ``micro_f1`` is :math:`2TP / (2TP + FP + FN)` over all
    entries.

    ``macro_f1`` is the mean of the F1 scores of the classes that occur in the labels or in the
    predictions. If no label occurs in either, F1 is 0.

    Args:
        scores (Tensor): Logits.
        labels (Tensor): Classes, or a 0/1 matrix if ``multilabel``.
        multilabel (bool): Whether a row may have several labels.

    Shapes:
        - **scores:** :math:`(N, C)` for :math:`N` rows and :math:`C` classes
        - **labels:** :math:`(N)`, or :math:`(N, C)` if ``multilabel``
    """
    _check(scores, labels, multilabel)
    scores = scores.detach()
    if multilabel:
        predicted, true = scores > 0, labels > 0.5
        correct, claimed, present = (cells.sum(0) for cells in (predicted & true, predicted, true))
        return {
            "accuracy": float((predicted == true).double().mean()),
            "micro_f1": _mean_f1(correct.sum(), claimed.sum(), present.sum()),
            "macro_f1": _mean_f1(correct, claimed, present),
        }
    num_classes = scores.size(1)
    predicted = scores.argmax(1)
    hits = predicted == labels
    accuracy = float(hits.double().mean())
    correct, claimed, present = (
        torch.bincount(rows, minlength=num_classes) for rows in (predicted[hits], predicted, labels)
    )
    metrics = {
        "accuracy": accuracy,
        "micro_f1": accuracy,  # every error is one false positive and one false negative
        "macro_f1": _mean_f1(correct, claimed, present),
        "balanced_accuracy": float((correct.double() / present)[present > 0].mean()),
    }
    if num_classes == 2 and bool((present > 0).all()):
        exact = scores.double()  # differences rounded to float32 would create ties
        metrics["roc_auc"] = _roc_auc(exact[:, 1] - exact[:, 0], labels == 1)
    return metrics


def confusion_counts(scores: Tensor, labels: Tensor) -> Tensor:
    """Returns how many rows of each class were predicted as each class.

    Args:
        scores (Tensor): Logits.
        labels (Tensor): Classes.

    Shapes:
        - **scores:** :math:`(N, C)` for :math:`N` rows and :math:`C` classes
        - **labels:** :math:`(N)`
        - **output:** :math:`(C, C)`, true classes in rows, predicted ones in columns
    """
    _check(scores, labels, multilabel=False)
    classes = scores.size(1)
    pairs = labels * classes + scores.detach().argmax(1)
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


def _mean_f1(correct: Tensor, claimed: Tensor, present: Tensor) -> float:
    """Returns the mean F1 over the classes that are predicted or present."""
    both = (claimed + present).double()
    occurs = both > 0
    return float((2 * correct[occurs] / both[occurs]).mean()) if bool(occurs.any()) else 0.0


def _roc_auc(score: Tensor, positive: Tensor) -> float:
    """Returns the fraction of pairs in which the positive row scores higher; ties count half."""
    high, low = score[positive], score[~positive].sort().values
    below = torch.searchsorted(low, high) + torch.searchsorted(low, high, right=True)
    return float(below.sum()) / (2 * high.numel() * low.numel())


def _check(scores: Tensor, labels: Tensor, multilabel: bool) -> None:
    rows = labels.size(0)
    if rows == 0:
        raise DataError("no labelled rows to evaluate; add labelled units to this set")
    expected = tuple(labels.shape) if multilabel else (rows, "classes")
    fits = scores.shape == labels.shape if multilabel else scores.dim() == 2 and len(scores) == rows
    if not fits or (not multilabel and labels.dim() != 1):
        raise ArgumentError(
            f"'scores' must have shape {expected} for labels of shape {tuple(labels.shape)} (got "
            f"{tuple(scores.shape)}); pass one score per row and class"
        )
    if not bool(torch.isfinite(scores).all()):
        bad = int((~torch.isfinite(scores)).any(1).nonzero()[0])
        raise ArgumentError(
            f"'scores' must be finite (got nan or inf, first in row {bad}); check the loss, or "
            "lower the learning rate"
        )
    top = 1 if multilabel else scores.size(1) - 1
    wrong = (labels != 0) & (labels != 1) if multilabel else (labels < 0) | (labels > top)
    if bool(wrong.any()):
        raise DataError(
            f"labels must be {'0 or 1' if multilabel else f'from 0 to {top}'} (got "
            f"{labels[wrong][0].item()}); leave out unlabelled rows"
        )
