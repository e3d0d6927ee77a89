"""Outputs of a trained model for graphs, in batches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

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
