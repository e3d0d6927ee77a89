"""Logits from random features, of which only the last map learns."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.layers.dropout import Dropout
from mgnni.layers.reservoir import random_weight


class RandomReadout(nn.Module):
    r"""``random linear, tanh, dropout, linear``; the first is a buffer, and stays as it was drawn.

    Args:
        in_channels: width of the input.
        channels: random features; none: the input itself.
        out_channels: classes, or labels.
        dropout: probability, of the features.
    """

    project: Tensor | None

    def __init__(
        self, in_channels: int, channels: int | None, out_channels: int, dropout: float
    ) -> None:
        super().__init__()
        project = None if channels is None else torch.empty(channels, in_channels)
        self.register_buffer("project", project)
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(in_channels if channels is None else channels, out_channels)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw the features and the last map anew."""
        if self.project is not None:
            channels, in_channels = self.project.shape
            self.project.copy_(random_weight(channels, in_channels, norm=1.0))
        self.linear.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return one row of logits for a row of states."""
        if self.project is not None:
            x = (x @ self.project.T).tanh()
        logits: Tensor = self.linear(self.dropout(x))
        return logits
