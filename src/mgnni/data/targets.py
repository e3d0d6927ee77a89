"""What rows are labelled with: a class, several labels, or numbers to predict."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import DataError


def is_labeled(labels: Tensor) -> Tensor:
    """Returns a mask of the rows with a label.

    Args:
        labels (Tensor): Classes with -1 for unlabelled rows, a 0/1 matrix with nan, or numbers
            with nan.

    Shapes:
        - **labels:** ``(rows,)``, or ``(rows, labels)`` for several labels or numbers per row
        - **output:** ``(rows,)``, boolean
    """
    return labels >= 0 if labels.dim() == 1 else ~torch.isnan(labels[:, 0])


def without_labels(labels: Tensor, rows: Tensor) -> Tensor:
    """Returns a copy of the labels in which some rows are unlabelled.

    Args:
        labels (Tensor): Labels, as in :func:`is_labeled`.
        rows (Tensor): Boolean mask of these rows.

    Shapes:
        - **labels:** ``(rows,)``, or ``(rows, labels)``
        - **rows:** ``(rows,)``
    """
    found = labels.clone()
    found[rows] = -1 if labels.dim() == 1 else float("nan")
    return found


def check_labels(labels: Tensor, outputs: int, name: str, regression: bool) -> None:
    """Checks that labels are valid classes, 0/1 matrices or numbers.

    Args:
        labels (Tensor): The labels.
        outputs (int): Number of classes, labels or targets.
        name (str): Name of the task, for messages.
        regression (bool): Whether the labels are numbers to predict.

    Shapes:
        - **labels:** ``(rows,)``, or ``(rows, outputs)`` for several labels or numbers per row
    """
    known = labels[is_labeled(labels)]
    if regression:
        fits = labels.dim() == 2 and labels.size(1) == outputs and labels.is_floating_point()
        fits = fits and bool(torch.isfinite(known).all())
        expected = f"{outputs} columns of finite numbers, or a whole row of nan"
    elif labels.dim() == 2:
        fits = labels.size(1) == outputs and bool(((known == 0) | (known == 1)).all())
        expected = f"{outputs} columns of 0 and 1, or a whole row of nan"
    else:
        whole = not labels.is_floating_point()
        fits = whole and (known.numel() == 0 or int(known.max()) < outputs)
        expected = f"integers below {outputs}, the number of classes, or -1"
    if not fits:
        raise DataError(
            f"{name}: labels must be {expected} (got {labels.dtype}, shape {tuple(labels.shape)}, "
            f"largest {float(known.max()) if known.numel() else None}); check labels and classes"
        )


def target_scale(targets: Tensor) -> tuple[Tensor, Tensor]:
    """Returns mean and standard deviation of each target; 1 for a target that does not vary.

    Args:
        targets (Tensor): Numbers of the training rows.

    Shapes:
        - **targets:** ``(rows, targets)``
        - **output:** ``(targets,)`` each
    """
    exact = targets.double()
    mean, deviation = exact.mean(0), exact.std(0, correction=0)
    # A spread of rounding errors is none: dividing by it would magnify them.
    varies = deviation > 1e-9 * exact.abs().amax(0)
    return mean, torch.where(varies, deviation, 1.0)
