"""From the sum over a graph to its logits."""

from __future__ import annotations

from torch import Tensor, nn

from mgnni.layers.dropout import Dropout


class Readout(nn.Module):
    """``linear, ReLU, dropout, linear``: what baselines end with where whole graphs are classified.

    Args:
        in_channels: width of the sum.
        channels: width of the hidden layer.
        out_channels: classes.
        dropout: probability.
    """

    def __init__(self, in_channels: int, channels: int, out_channels: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, channels)
        self.dropout = Dropout(dropout)
        self.last = nn.Linear(channels, out_channels)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        self.first.reset_parameters()
        self.last.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return one row a graph."""
        logits: Tensor = self.last(self.dropout(self.first(x).relu()))
        return logits
