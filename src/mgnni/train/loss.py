"""The loss of every row, of classes or of numbers, and its weight."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def row_weights(labels: Tensor, class_weight: str) -> Tensor:
    r"""Return the weight of every training row in the loss; their mean is 1.

    Balanced weights are :math:`n / (c\,n_k)` for a row of class :math:`k`, with :math:`n` rows,
    :math:`c` classes among them, and :math:`n_k` rows of the class.

    Args:
        labels (Tensor): Classes of the training rows, or 0/1 per label.
        class_weight (str): ``"none"`` or ``"balanced"``.

    Shapes:
        - **labels:** ``(rows,)``, or ``(rows, classes)`` for several labels per row
        - **output:** ``(rows,)``
    """
    if class_weight == "none":
        return torch.ones(labels.size(0), dtype=torch.double)
    counts = torch.bincount(labels)
    return labels.numel() / (int((counts > 0).sum()) * counts[labels].double())


def row_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of every row: cross-entropy, or its mean over several labels.

    Args:
        logits (Tensor): The logits.
        labels (Tensor): Classes, or 0/1 per label. -1 counts as class 0; its weight must be zero.

    Shapes:
        - **logits:** ``(*, rows, classes)``
        - **labels:** ``(*, rows)``, or ``(*, rows, classes)`` for several labels per row
        - **output:** ``(*, rows)``
    """
    logits = logits.float() if logits.dtype is torch.bfloat16 else logits
    if labels.dim() == logits.dim():
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, labels.to(logits.dtype), reduction="none"
        )
        return losses.mean(-1)
    log = logits.log_softmax(-1)
    return -log.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def number_losses(predicted: Tensor, targets: Tensor, deviation: Tensor, absolute: bool) -> Tensor:
    r"""Return the loss of every row: squared or absolute errors in units of the deviation.

    .. math::
        \ell_i = \frac{1}{T} \sum_t \left( \frac{p_{it} - y_{it}}{\sigma_t} \right)^2
        \quad \text{or} \quad \frac{1}{T} \sum_t \frac{|p_{it} - y_{it}|}{\sigma_t}.

    Args:
        predicted (Tensor): Predicted numbers.
        targets (Tensor): True numbers.
        deviation (Tensor): Standard deviation :math:`\sigma` of each target.
        absolute (bool): Whether to return absolute errors.

    Shapes:
        - **predicted**, **targets:** ``(*, rows, targets)``
        - **deviation:** ``(*, 1, targets)``, or ``(targets,)``
        - **output:** ``(*, rows)``
    """
    error = (predicted - targets) / deviation
    return (error.abs() if absolute else error.square()).mean(-1)
