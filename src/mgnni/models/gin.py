"""GIN: sums over neighbours, perceptrons, and a readout of every layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import global_mean_pool

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GINConv
from mgnni.layers.jumping import JumpingReadout
from mgnni.layers.norm import BatchNorm
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width

POOLINGS = ("sum", "mean")


class GIN(GraphModel):
    r"""GIN of `Xu et al., ICLR 2019`.

    .. math::  h^{(0)}_v = x_v, \qquad
               h^{(k)}_v = \mathrm{MLP}_k\big((1 + \epsilon_k)\, h^{(k-1)}_v
               + \textstyle\sum_{u \to v} h^{(k-1)}_u\big), \qquad
               \text{logits} = \sum_k W_k \sum_v h^{(k)}_v + b_k.

    A perceptron is ``linear, batch norm, ReLU``, twice. For nodes, the sum over them is left out.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        num_layers: layers that are read out, of which the features are the first.
        train_eps: learn how much a node counts itself, starting as one of its neighbours.
        pooling: ``"sum"`` over the nodes of a graph, or their ``"mean"``.
        dropout: probability, of the scores of each layer.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
    """

    own_readout = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 5,
        train_eps: bool = False,
        pooling: str = "sum",
        dropout: float = 0.5,
        level: str = "auto",
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization="none",
            self_loops=False,
        )
        check_width("num_layers", num_layers)
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        widths = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.convs = nn.ModuleList(
            [
                GINConv(perceptron(width, hidden_channels), train_eps=train_eps)
                for width in widths[:-1]
            ]
        )
        self.row_channels = sum(widths)
        # Linear, so that rows may be pooled before they are read out, as the authors do.
        self.readout = JumpingReadout(widths, out_channels, dropout)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states of all layers side by side."""
        states = [x]
        for conv in self.convs:
            states.append(conv(states[-1], propagation))
        return torch.cat(states, dim=1)

    def pool(self, rows: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return the sum or the mean over each graph, if there is a batch."""
        if self.pooling == "sum" or batch is None:
            return super().pool(rows, batch, num_graphs)
        mean: Tensor = global_mean_pool(rows, batch, num_graphs)
        return mean


def perceptron(in_channels: int, channels: int) -> nn.Sequential:
    """Return ``linear, batch norm, ReLU`` twice."""
    return nn.Sequential(
        nn.Linear(in_channels, channels),
        BatchNorm(channels),
        nn.ReLU(),
        nn.Linear(channels, channels),
        BatchNorm(channels),
        nn.ReLU(),
    )
