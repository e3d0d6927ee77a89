"""Predicted numbers in the units of the data."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TargetScale(nn.Module):
    r"""Brings standardised predictions to the units of the targets, in double precision.

    .. math::
        \mathbf{y} = \sigma \odot \mathbf{z} + \mu

    Mean :math:`\mu` and deviation :math:`\sigma` are buffers, those of the training rows, so a
    model is trained on numbers of one size and predicts numbers of the data. Double precision keeps
    small deviations from a large mean.

    Args:
        channels (int): Number of targets.

    Shapes:
        - **input:** :math:`(*, F_{out})`
        - **output:** :math:`(*, F_{out})`, double
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels, dtype=torch.double))
        self.register_buffer("deviation", torch.ones(channels, dtype=torch.double))

    def forward(self, out: Tensor) -> Tensor:
        """Return the numbers in the units of the targets."""
        return out.double() * self.deviation + self.mean
