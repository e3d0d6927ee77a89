"""An MLP with dropout that accepts sparse features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from mgnni.layers.regularization import Dropout
from mgnni.layers.sparse_features import SparseProduct


class MLP(nn.Module):
    r"""An MLP with dropout before every linear map.

    It computes ``[dropout, linear, ReLU] x (k - 1), dropout, linear[, ReLU]``. Features may be a
    sparse CSR tensor, for example a bag of words; the cost of the first linear map is then
    proportional to the number of non-zero entries.

    Args:
        widths (Sequence[int]): Sizes of the input, of all hidden layers and of the output.
        dropout (float): Dropout probability.
        activate_last (bool): Whether to apply a ReLU to the output.

    Shapes:
        - **input:** features :math:`(|\mathcal{V}|, F_{in})`, dense or sparse CSR
        - **output:** features :math:`(|\mathcal{V}|, F_{out})`
    """

    def __init__(self, widths: Sequence[int], dropout: float, activate_last: bool) -> None:
        super().__init__()
        self.linear = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in self.linear])
        self.activate_last = activate_last
        self.product = SparseProduct()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for linear in self.linear:
            linear.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the last layer."""
        for index, (dropout, linear) in enumerate(zip(self.dropout, self.linear, strict=True)):
            if x.layout is torch.sparse_csr:
                x = self.product(x, dropout, linear.weight) + linear.bias  # type: ignore[arg-type, operator]
                continue
            # Dropout and ReLU commute. In this order, autograd saves one tensor for ReLU and the
            # linear map, and a compiled graph no mask of ReLU.
            x = dropout(x)
            x = linear(x.relu() if index > 0 else x)
        return x.relu() if self.activate_last else x
