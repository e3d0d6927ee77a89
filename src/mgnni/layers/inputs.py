"""The input map f that turns features into the bias of the equilibrium equations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

INPUT_MAPS = ("identity", "mlp", "mlp-relu")


class MLP(nn.Module):
    r"""A perceptron: ``[dropout, linear, ReLU] x (k - 1), dropout, linear[, ReLU]``.

    Args:
        widths: channels from input to output, ``k + 1`` of them.
        dropout: probability, before every linear map.
        activate_last: end with a ReLU, as the paper writes it; the authors' code does not.
    """

    def __init__(self, widths: Sequence[int], dropout: float, activate_last: bool) -> None:
        super().__init__()
        self.linear = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        self.dropout = nn.Dropout(dropout)
        self.activate_last = activate_last

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for linear in self.linear:
            linear.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        """Return the bias, shape ``(num_nodes, widths[-1])``."""
        for index, linear in enumerate(self.linear):
            x = linear(self.dropout(x))
            if self.activate_last or index + 1 < len(self.linear):
                x = x.relu()
        return x
