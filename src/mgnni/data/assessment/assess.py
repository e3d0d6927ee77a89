"""The assessment of one run on its test set, at the epoch that was chosen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.data.assessment.bootstrap import bootstrap
from mgnni.data.assessment.calibration import reliability_sums
from mgnni.data.assessment.curves import binary_curves
from mgnni.data.assessment.threshold import predicted_classes
from mgnni.data.metrics import confusion_counts, measure

DECIDED = ("accuracy", "balanced_accuracy", "macro_f1")  # metrics of the predictions


def constant_scores(train: Tensor, classes: int, multilabel: bool) -> Tensor:
    """Returns the scores of a model that always predicts what is most frequent in training.

    Args:
        train (Tensor): Labels of the training rows.
        classes (int): Number of classes, or of labels.
        multilabel (bool): Whether a row may have several labels; each label is then predicted if
            more than half of the training rows have it.

    Shapes:
        - **train:** :math:`(N)`, or :math:`(N, C)` if ``multilabel``
        - **output:** :math:`(C)`
    """
    if multilabel:
        return torch.where(train.double().mean(0) > 0.5, 1.0, -1.0)
    return torch.eye(classes)[torch.bincount(train, minlength=classes).argmax()]


def assess(
    scores: Tensor,
    labels: Tensor,
    train: Tensor,
    rows: Tensor,
    num_rows: int,
    metric: str,
    threshold: float | None,
) -> dict[str, Any]:
    """Returns the assessment of a run as plain data.

    Args:
        scores (Tensor): Logits of the test rows.
        labels (Tensor): Their labels.
        train (Tensor): Labels of the training rows, for the baseline.
        rows (Tensor): Indices of the test rows.
        num_rows (int): Number of rows of the task.
        metric (str): Metric of the task.
        threshold (float, optional): Threshold of a task with two classes.

    Shapes:
        - **scores:** :math:`(N, C)` for :math:`N` rows and :math:`C` classes
        - **labels:** :math:`(N)`, or :math:`(N, C)` for several labels per row
        - **train:** as **labels**, for other rows
        - **rows:** :math:`(N)`

    Returns:
        dict: ``baseline`` (metrics of the most frequent class), ``confusion`` (``None`` for
        several labels) and ``counts`` (right predictions, predictions and rows of each class) of
        the predictions with the threshold, ``reliability`` (of the most probable class),
        ``replicates`` (of the metric, by bootstrap), and for two classes ``curves`` and
        ``at_threshold`` (metrics of the predictions with the threshold).
    """
    multilabel, scores = labels.dim() == 2, scores.detach().cpu()
    classes = scores.size(1)
    constant = constant_scores(train, classes, multilabel).expand_as(scores)
    found: dict[str, Any] = {
        "baseline": measure(constant, labels, multilabel),
        "confusion": None,
        "replicates": bootstrap(scores, labels, rows, num_rows, metric, multilabel),
        "curves": None,
        "at_threshold": None,
    }
    if multilabel:
        predicted, true = predicted_classes(scores, True), labels > 0.5
        cells = (predicted & true, predicted, true)
        probability = scores.double().sigmoid()
        confidence, right = torch.maximum(probability, 1 - probability), predicted == true
        found["counts"] = [one.sum(0).tolist() for one in cells]
    else:
        confidence = scores.double().softmax(1).amax(1)
        right = scores.argmax(1) == labels
        decided = predicted_classes(scores, False, threshold).float()
        counts = confusion_counts(decided, labels)
        found["confusion"] = counts.tolist()
        found["counts"] = [one.tolist() for one in (counts.diag(), counts.sum(0), counts.sum(1))]
        if classes == 2:
            found["curves"] = binary_curves(scores, labels)
        if threshold is not None:
            metrics = measure(decided, labels, False)
            found["at_threshold"] = {name: metrics[name] for name in DECIDED}
    found["reliability"] = reliability_sums(confidence, right)
    return found
