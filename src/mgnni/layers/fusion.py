"""From the states of all scales to one state a node."""

from __future__ import annotations

from torch import Tensor, nn

FUSIONS = ("attention", "mean")


class ScaleAttention(nn.Module):
    r"""Attention over scales, node by node.

    .. math::  \beta_m = q^{\top} \tanh(W_a z_m + b_a), \qquad
               z = \sum_m \operatorname{softmax}(\beta)_m\, z_m.

    Shapes:
        - **input:** ``(scales, num_nodes, channels)``
        - **output:** ``(num_nodes, channels)``, and the weights, ``(num_nodes, scales)``
    """

    def __init__(self, channels: int, attention_channels: int = 16) -> None:
        super().__init__()
        self.project = nn.Linear(channels, attention_channels)
        self.query = nn.Linear(attention_channels, 1, bias=False)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        self.project.reset_parameters()
        self.query.reset_parameters()

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the fused states and the weight of each scale at each node."""
        # Not by a matrix product: with one column it may round otherwise for runs together.
        score = (self.project(z).tanh() * self.query.weight).sum(-1, keepdim=True)
        weight = score.softmax(dim=0)
        return (weight * z).sum(dim=0), weight.squeeze(-1).mT


class ScaleMean(nn.Module):
    """The plain mean over scales; the ablation of :class:`ScaleAttention`, same shapes."""

    def reset_parameters(self) -> None:
        """Nothing to draw."""

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and equal weights."""
        return z.mean(dim=0), z.new_full((z.size(1), z.size(0)), 1 / z.size(0))
