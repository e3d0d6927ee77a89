"""Outputs of a trained model, and the classes that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from mgnni.data.assessment.threshold import predicted_classes
from mgnni.errors import ArgumentError
from mgnni.layers.fusion import ScaleConcat
from mgnni.models.base import GraphModel
from mgnni.models.mgnni import MGNNI


@torch.no_grad()
def model_outputs(
    model: GraphModel, graphs: Sequence[Data], batch_size: int, level: str
) -> tuple[Tensor, Tensor | None]:
    """Return logits, or predicted numbers, and the weight of each scale.

    Args:
        model (GraphModel): A model in evaluation mode.
        graphs (Sequence[Data]): What :func:`~mgnni.train.inputs.input_graphs` returns.
        batch_size (int): Number of graphs in a batch.
        level (str): ``"node"`` or ``"graph"``.

    Shapes:
        - **output:** ``(rows, classes)``, and ``(rows, states)`` if the model weighs scales; for
          graphs the mean over their nodes
    """
    dtype = next(model.parameters()).dtype
    scores, attentions = [], []
    size = len(graphs) if len(graphs) == 1 else batch_size
    for start in range(0, len(graphs), size):
        batch = Batch.from_data_list(list(graphs[start : start + size]))
        several = batch.batch if len(graphs) > 1 or level == "graph" else None
        inputs = (batch.x.to(dtype), batch.edge_index, batch.edge_weight, several)
        if isinstance(model, MGNNI) and not isinstance(model.fusion, ScaleConcat):
            logits, weight = model(*inputs, return_attention=True)
        else:
            logits, weight = model(*inputs), None
        if level == "graph" and weight is not None:
            total = weight.new_zeros(batch.num_graphs, weight.size(1))
            count = torch.bincount(batch.batch, minlength=batch.num_graphs).clamp(min=1)
            weight = total.index_add_(0, batch.batch, weight) / count.unsqueeze(1)
        scores.append(logits)
        attentions += [] if weight is None else [weight]
    return torch.cat(scores), torch.cat(attentions) if attentions else None


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
