"""Fusion of the states of several scales."""

from __future__ import annotations

from torch import Tensor, nn

from mgnni.errors import check_choice, check_int

FUSIONS = ("attention", "mean", "concat")


class Fusion(nn.Module):
    """Combines several states per node; base class of all fusions."""

    def width(self, channels: int, members: int) -> int:
        """Return the number of channels of the result.

        Args:
            channels (int): Number of channels of each state.
            members (int): Number of states per node.
        """
        return channels

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module, if there are any."""


class ScaleAttention(Fusion):
    r"""Attention over scales, computed per node.

    .. math::
        \beta_m = \mathbf{q}^{\top} \tanh(\mathbf{W}_a \mathbf{z}_m + \mathbf{b}_a), \qquad
        \mathbf{z} = \sum_m \operatorname{softmax}(\beta)_m\, \mathbf{z}_m

    Args:
        channels (int): Size of each input sample.
        attention_channels (int, optional): Size of the hidden layer. (default: :obj:`16`)

    Shapes:
        - **input:** states :math:`(M, |\mathcal{V}|, F)` of :math:`M` scales
        - **output:** fused states :math:`(|\mathcal{V}|, F)`, attention weights
          :math:`(|\mathcal{V}|, M)`
    """

    def __init__(self, channels: int, attention_channels: int = 16) -> None:
        super().__init__()
        self.project = nn.Linear(channels, attention_channels)
        self.query = nn.Linear(attention_channels, 1, bias=False)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        self.project.reset_parameters()
        self.query.reset_parameters()

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the fused states and the attention weights."""
        # A matrix product with a single column may round differently for vmapped runs.
        score = (self.project(z).tanh() * self.query.weight).sum(-1, keepdim=True)
        weight = score.softmax(dim=0)
        return (weight * z).sum(dim=0), weight.squeeze(-1).mT


class ScaleMean(Fusion):
    r"""The mean over scales, an ablation of :class:`ScaleAttention`.

    Shapes:
        - **input:** states :math:`(M, |\mathcal{V}|, F)` of :math:`M` scales
        - **output:** fused states :math:`(|\mathcal{V}|, F)`, equal weights
          :math:`(|\mathcal{V}|, M)`
    """

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean and equal weights."""
        return z.mean(dim=0), _equal_weights(z)


class ScaleConcat(Fusion):
    r"""The states of all scales side by side.

    Shapes:
        - **input:** states :math:`(M, |\mathcal{V}|, F)` of :math:`M` scales
        - **output:** fused states :math:`(|\mathcal{V}|, M F)`, equal weights
          :math:`(|\mathcal{V}|, M)`
    """

    def width(self, channels: int, members: int) -> int:
        """Return the number of channels of the result."""
        return channels * members

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the states side by side, and equal weights."""
        return z.transpose(0, 1).flatten(1), _equal_weights(z)


def _equal_weights(z: Tensor) -> Tensor:
    return z.new_full((z.size(1), z.size(0)), 1 / z.size(0))


def make_fusion(name: str, channels: int, attention_channels: int) -> Fusion:
    """Return a fusion by name.

    Args:
        name (str): One of :data:`FUSIONS`.
        channels (int): Number of channels of each state.
        attention_channels (int): Size of the hidden layer of the attention.
    """
    check_choice("fusion", name, FUSIONS)
    check_int("attention_channels", attention_channels)
    if name == "attention":
        return ScaleAttention(channels, attention_channels)
    return ScaleMean() if name == "mean" else ScaleConcat()
