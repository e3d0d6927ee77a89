"""From the nodes of a graph, put into an order, to its logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import SortAggregation

from mgnni.layers.dropout import Dropout


class SortReadout(nn.Module):
    """The ``k`` nodes of a graph that are largest in the last channel, read as a sequence.

    ``sort, linear, ReLU, largest of two, convolution, ReLU, linear, ReLU, dropout, linear``.

    Args:
        channels: width of the rows.
        out_channels: classes.
        k: nodes that are kept; a smaller graph is filled up with zeros.
        conv_channels: width of the first and of the second convolution.
        kernel_size: that of the second convolution.
        dense_channels: width of the dense layer.
        dropout: probability, after the dense layer.
    """

    def __init__(
        self,
        channels: int,
        out_channels: int,
        *,
        k: int,
        conv_channels: tuple[int, int],
        kernel_size: int,
        dense_channels: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.channels = channels
        self.sort = SortAggregation(k)
        # A convolution whose kernel and stride are one node: a linear map of each.
        self.node = nn.Linear(channels, conv_channels[0])
        self.halve = nn.MaxPool1d(2)
        self.conv = nn.Conv1d(*conv_channels, kernel_size)
        length = k // 2 - kernel_size + 1
        self.first = nn.Linear(length * conv_channels[1], dense_channels)
        self.dropout = Dropout(dropout)
        self.last = nn.Linear(dense_channels, out_channels)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in (self.node, self.conv, self.first, self.last):
            part.reset_parameters()

    def kept(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Return the nodes that are kept, in order, shape ``(num_graphs, k, channels)``."""
        shape = (num_graphs, self.sort.k, self.channels)
        if x.size(0) == 0:  # of which PyG would look for the smallest number
            return x.new_zeros(shape)
        order = torch.argsort(batch, stable=True)  # PyG wants the nodes of a graph side by side
        kept: Tensor = self.sort(x[order], batch[order], dim_size=num_graphs)
        return kept.view(shape)

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Return one row a graph."""
        sequence = self.node(self.kept(x, batch, num_graphs)).relu().transpose(1, 2)
        sequence = self.conv(self.halve(sequence)).relu()
        logits: Tensor = self.last(self.dropout(self.first(sequence.flatten(1)).relu()))
        return logits
