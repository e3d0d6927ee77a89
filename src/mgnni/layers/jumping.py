"""Logits from the states of all layers, each read out by itself."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mgnni.layers.dropout import Dropout


class JumpingReadout(nn.Module):
    """``linear, dropout`` for the states of every layer, and the sum of what comes out.

    Args:
        widths: channels of each layer, as they stand side by side in the input.
        out_channels: classes, or labels.
        dropout: probability, of a score.
    """

    def __init__(self, widths: Sequence[int], out_channels: int, dropout: float) -> None:
        super().__init__()
        self.widths = list(widths)
        self.linear = nn.ModuleList([nn.Linear(width, out_channels) for width in widths])
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in widths])

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for linear in self.linear:
            linear.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        """Return one row of logits for a row of states."""
        layers = torch.split(x, self.widths, dim=1)
        parts = zip(self.dropout, self.linear, layers, strict=True)
        return torch.stack([dropout(linear(part)) for dropout, linear, part in parts]).sum(0)
