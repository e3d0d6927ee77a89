"""A sample of the attention over scales of a trained model, for its report."""

from __future__ import annotations

from typing import Any

import torch
from torch_geometric.data import Data

from mgnni.errors import ConvergenceError
from mgnni.train.fitted import Fitted

NODES = 100  # in the sample
DIGITS = 4


def attention_sample(fitted: Fitted, graph: Data) -> dict[str, Any] | None:
    """Return the weight of each scale for some nodes, and its mean for each predicted class.

    The nodes are evenly spaced in the order of the data. The weights are those of the best run.

    Args:
        fitted (Fitted): A trained model.
        graph (Data): The graph of the training.

    Returns:
        dict, optional: ``split`` and ``seed`` of the run, ``scales`` (see
        :attr:`Fitted.states <mgnni.train.fitted.Fitted.states>`), ``nodes`` (indices),
        ``predicted`` (their classes), ``weights`` (one row per node), and ``means`` (class, number
        of nodes that are predicted to have it, mean weights). ``None`` if the model has no
        attention over several scales.
    """
    scales = fitted.states
    if fitted.regression:  # no classes to take means over
        return None
    if len(scales) < 2 or getattr(fitted.config.model, "fusion", "") != "attention":
        return None
    try:
        found = fitted.predictions([graph])
    except ConvergenceError:  # another device may round differently; the training itself is fine
        return None
    if found.attention is None or fitted.multilabel:
        return None
    weights, predicted = found.attention.double(), found.chosen.int().argmax(1)
    count = weights.size(0)
    nodes = torch.linspace(0, count - 1, min(count, NODES), dtype=torch.double).round().long()
    run = fitted.runs[fitted.best]
    means = [
        {
            "class": name,
            "nodes": int((predicted == index).sum()),
            "weights": _rounded(weights[predicted == index].mean(0)),
        }
        for index, name in enumerate(fitted.classes)
        if bool((predicted == index).any())
    ]
    return {
        "split": run.split,
        "seed": run.seed,
        "scales": list(scales),
        "nodes": nodes.tolist(),
        "predicted": [fitted.classes[index] for index in predicted[nodes].tolist()],
        "weights": [_rounded(row) for row in weights[nodes]],
        "means": means,
    }


def _rounded(row: torch.Tensor) -> list[float]:
    return [round(value, DIGITS) for value in row.tolist()]
