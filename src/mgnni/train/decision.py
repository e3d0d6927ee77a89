"""From logits to predicted classes and probabilities."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from mgnni.data.assessment.threshold import predicted_classes
from mgnni.errors import ArgumentError


class Prediction(NamedTuple):
    """Predicted classes and their probabilities, one row per node or per graph.

    Attributes:
        chosen: Predicted classes, boolean, shape ``(rows, classes)``.
        probability: Probability of each class, shape ``(rows, classes)``.
        attention: Weight of each state of the model, shape ``(rows, states)``, if it weighs scales;
            for graphs the mean over their nodes.
    """

    chosen: Tensor
    probability: Tensor
    attention: Tensor | None


def decide(
    logits: Tensor, attention: Tensor | None, multilabel: bool, threshold: float | None
) -> Prediction:
    """Return the predicted classes: the most probable one, or all labels that are more than likely.

    Args:
        logits (Tensor): Logits of a model.
        attention (Tensor, optional): Its attention over scales.
        multilabel (bool): Whether a row may have several labels.
        threshold (float, optional): Probability above which the second of two classes is
            predicted; ``None`` predicts the most probable class.

    Shapes:
        - **logits:** ``(rows, classes)``
        - **attention:** ``(rows, states)``
    """
    if threshold is not None and (multilabel or logits.size(1) != 2):
        raise ArgumentError(
            f"'threshold' is for two classes (got a model of {logits.size(1)} "
            f"{'labels' if multilabel else 'classes'}); leave it out"
        )
    if threshold is not None and not 0 <= threshold <= 1:
        raise ArgumentError(f"'threshold' must lie between 0 and 1 (got {threshold:g})")
    chosen = predicted_classes(logits, multilabel, threshold)
    return Prediction(chosen, logits.sigmoid() if multilabel else logits.softmax(1), attention)
