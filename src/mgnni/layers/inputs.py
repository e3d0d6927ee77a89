"""The input map f that turns features into the bias of the equilibrium equations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from mgnni.layers.dropout import Dropout
from mgnni.layers.features import Features, sparse_linear

INPUT_MAPS = ("identity", "mlp", "mlp-relu")


class MLP(nn.Module):
    r"""A perceptron: ``[dropout, linear, ReLU] x (k - 1), dropout, linear[, ReLU]``.

    Features may be sparse (CSR), which costs as much as they have entries.

    Args:
        widths: channels from input to output, ``k + 1`` of them.
        dropout: probability, before every linear map.
        activate_last: end with a ReLU, as the paper writes it; the authors' code does not.
    """

    def __init__(self, widths: Sequence[int], dropout: float, activate_last: bool) -> None:
        super().__init__()
        self.linear = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in self.linear])
        self.activate_last = activate_last
        self._features: tuple[Tensor, Features] | None = None  # of the last sparse x

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for linear in self.linear:
            linear.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        """Return the bias, shape ``(num_nodes, widths[-1])``."""
        for index, (dropout, linear) in enumerate(zip(self.dropout, self.linear, strict=True)):
            if x.layout is torch.sparse_csr:
                x = sparse_linear(self._sparse(x), dropout, linear.weight, linear.bias)  # type: ignore[arg-type]
            else:
                x = linear(dropout(x))
            if self.activate_last or index + 1 < len(self.linear):
                x = x.relu()
        return x

    def _sparse(self, x: Tensor) -> Features:
        """Keep the transpose and the like from one epoch to the next."""
        if self._features is None or self._features[0] is not x:
            self._features = (x, Features.of(x))
        return self._features[1]

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_features": None}
