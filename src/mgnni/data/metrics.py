"""How good predictions are: accuracy, F1 and the area under the ROC curve."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, DataError

METRICS = ("accuracy", "micro_f1", "macro_f1", "roc_auc")


def default_metric(multilabel: bool) -> str:
    """Return the metric that counts if none was asked for."""
    return "micro_f1" if multilabel else "accuracy"


def measure(scores: Tensor, labels: Tensor, multilabel: bool) -> dict[str, float]:
    r"""Return every metric that is defined, each from 0 (worst) to 1.

    One class a row: the prediction is the highest score, the first of equals. ``accuracy`` is the
    part of rows predicted right, and ``micro_f1`` the same number. ``roc_auc``, of two classes, is
    the chance that a row of class 1 has a higher score difference :math:`s_1 - s_0` than a row of
    class 0, ties counting half; with one class among the labels it is undefined and left out.

    Several labels a row: a score above 0 is a yes. ``accuracy`` is the part of *cells* predicted
    right, ``micro_f1`` is :math:`2TP / (2TP + FP + FN)` over all cells.

    ``macro_f1`` is the mean of each class's F1 over the classes that occur among the labels or
    the predictions; a class that does neither has no F1 and does not count. With several labels
    a row and no yes anywhere, F1 is 0 over 0 and reported as 0.

    Args:
        scores: logits, shape ``(rows, classes)``.
        labels: classes from 0, shape ``(rows,)``; or 0/1, shaped as ``scores``.
        multilabel: whether a row has several labels.
    """
    _check(scores, labels, multilabel)
    scores = scores.detach()
    if multilabel:
        said, true = scores > 0, labels > 0.5
        right = float((said == true).double().mean())
        hits, claims, truths = (cells.sum(0) for cells in (said & true, said, true))
        return {
            "accuracy": right,
            "micro_f1": _f1(hits.sum(), claims.sum(), truths.sum()),
            "macro_f1": _f1(hits, claims, truths),
        }
    classes = scores.size(1)
    said = scores.argmax(1)
    right = float((said == labels).double().mean())
    hits, claims, truths = (
        torch.bincount(rows, minlength=classes) for rows in (said[said == labels], said, labels)
    )
    found = {
        "accuracy": right,
        "micro_f1": right,  # every miss is one FP and one FN
        "macro_f1": _f1(hits, claims, truths),
    }
    if classes == 2 and bool((truths > 0).all()):
        exact = scores.double()  # a difference rounded to float32 would make ties
        found["roc_auc"] = _roc_auc(exact[:, 1] - exact[:, 0], labels == 1)
    return found


def _f1(hits: Tensor, claims: Tensor, truths: Tensor) -> float:
    """Return the mean of 2 TP / (claims + truths) over the classes that occur in either."""
    both = (claims + truths).double()
    occurs = both > 0
    return float((2 * hits[occurs] / both[occurs]).mean()) if bool(occurs.any()) else 0.0


def _roc_auc(score: Tensor, positive: Tensor) -> float:
    """Return Mann and Whitney's statistic as a part of all pairs, from midranks."""
    _, group, size = torch.unique(score, return_inverse=True, return_counts=True)
    midrank = size.cumsum(0).double() - (size - 1).double() / 2  # mean rank of equal scores
    yes = int(positive.sum())
    no = positive.numel() - yes
    above = float(midrank[group[positive]].sum()) - yes * (yes + 1) / 2
    return above / (yes * no)


def _check(scores: Tensor, labels: Tensor, multilabel: bool) -> None:
    if labels.size(0) == 0:
        raise DataError("no labelled rows to measure on; give this part of the split some units")
    rows = labels.size(0)
    expected = tuple(labels.shape) if multilabel else (rows, "classes")
    fits = scores.shape == labels.shape if multilabel else scores.dim() == 2 and len(scores) == rows
    if not fits or (not multilabel and labels.dim() != 1):
        raise ArgumentError(
            f"'scores' must have shape {expected} for labels of shape {tuple(labels.shape)} (got "
            f"{tuple(scores.shape)}); give one score a row and class"
        )
    if not bool(torch.isfinite(scores).all()):
        bad = int((~torch.isfinite(scores)).any(1).nonzero()[0])
        raise ArgumentError(
            f"'scores' must be finite (got nan or inf, first in row {bad}); look at the loss, or "
            "lower the learning rate"
        )
    top = 1 if multilabel else scores.size(1) - 1
    wrong = (labels != 0) & (labels != 1) if multilabel else (labels < 0) | (labels > top)
    if bool(wrong.any()):
        raise DataError(
            f"labels must be {'0 or 1' if multilabel else f'from 0 to {top}'} (got "
            f"{labels[wrong][0].item()}); leave out rows without a label"
        )
