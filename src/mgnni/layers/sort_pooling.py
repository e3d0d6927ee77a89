"""From the nodes of a graph, put into an order, to its logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import SortAggregation

from mgnni.layers.readout import Readout


class SortPooling(nn.Module):
    """The ``k`` nodes of each graph that are largest in the last channel, the largest first.

    Args:
        k: nodes that are kept; a smaller graph is filled up with zeros.
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.sort = SortAggregation(k)

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Return the nodes that are kept, shape ``(num_graphs, k, channels)``."""
        shape = (num_graphs, self.sort.k, x.size(1))
        if x.size(0) == 0:  # of which PyG would look for the smallest number
            return x.new_zeros(shape)
        order = torch.argsort(batch, stable=True)  # PyG wants the nodes of a graph side by side
        kept: Tensor = self.sort(x[order], batch[order], dim_size=num_graphs)
        return kept.view(shape)


class SequenceReadout(nn.Module):
    """``linear, ReLU, largest of two, convolution, ReLU`` over nodes in order, and a perceptron.

    Args:
        channels: width of the rows.
        out_channels: classes.
        length: rows of a graph.
        conv_channels: width of the first and of the second convolution.
        kernel_size: that of the second convolution.
        dense_channels: width of the perceptron.
        dropout: probability, in the perceptron.
    """

    def __init__(
        self,
        channels: int,
        out_channels: int,
        *,
        length: int,
        conv_channels: tuple[int, int],
        kernel_size: int,
        dense_channels: int,
        dropout: float,
    ) -> None:
        super().__init__()
        # A convolution whose kernel and stride are one node: a linear map of each.
        self.node = nn.Linear(channels, conv_channels[0])
        self.halve = nn.MaxPool1d(2)
        self.conv = nn.Conv1d(*conv_channels, kernel_size)
        width = (length // 2 - kernel_size + 1) * conv_channels[1]
        self.dense = Readout(width, dense_channels, out_channels, dropout)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in (self.node, self.conv, self.dense):
            part.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return one row a graph, from ``(num_graphs, length, channels)``."""
        sequence = self.node(x).relu().transpose(1, 2)
        sequence = self.conv(self.halve(sequence)).relu()
        logits: Tensor = self.dense(sequence.flatten(1))
        return logits
