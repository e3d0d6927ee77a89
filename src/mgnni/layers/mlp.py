"""An MLP with dropout that accepts sparse features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor, nn

from mgnni.graph.csr import Pattern
from mgnni.graph.memo import uncompiled
from mgnni.graph.weighted import weighted_sum
from mgnni.layers.regularization import Dropout


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
        self._cache: tuple[Tensor, SparseFeatures] | None = None  # of the last sparse x

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for linear in self.linear:
            linear.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        """Return the output of the last layer."""
        for index, (dropout, linear) in enumerate(zip(self.dropout, self.linear, strict=True)):
            if x.layout is torch.sparse_csr:
                x = self._first(x, dropout, linear)  # type: ignore[arg-type]
                continue
            # Dropout and ReLU commute. In this order, autograd saves one tensor for ReLU and the
            # linear map, and a compiled graph no mask of ReLU.
            x = dropout(x)
            x = linear(x.relu() if index > 0 else x)
        return x.relu() if self.activate_last else x

    @uncompiled  # torch.compile supports no sparse CSR tensors
    def _first(self, x: Tensor, dropout: Dropout, linear: nn.Linear) -> Tensor:
        """Return the first linear map of sparse features, with dropout of their entries."""
        if self._cache is None or self._cache[0] is not x:  # keeps the transpose between passes
            pattern = Pattern(x.crow_indices(), x.col_indices(), x.size(1))
            self._cache = (x, SparseFeatures(pattern))
        features, weight = self._cache[1], linear.weight
        # Read in every pass: the values of features that require grad have a graph.
        values = dropout(x.values().to(weight.dtype), features.place_for(dropout))
        product = weighted_sum(values.unsqueeze(1), weight.mT.unsqueeze(1), features.pattern)
        return product.squeeze(1) + linear.bias

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_cache": None}


def sparse_features(x: Tensor) -> Tensor:
    r"""Return features as a sparse CSR tensor, without PyTorch's warning about its beta state.

    Args:
        x (torch.Tensor): Dense features.

    Shapes:
        - **input:** :math:`(|\mathcal{V}|, F)`
        - **output:** :math:`(|\mathcal{V}|, F)`
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
        return x.to_sparse_csr()


@dataclass(frozen=True, eq=False)
class SparseFeatures:
    """What follows from the pattern of sparse features.

    Args:
        pattern (Pattern): Sparsity pattern, with one row per node.
    """

    pattern: Pattern

    @cached_property
    @torch.inference_mode(False)  # cached tensors are also used in training
    def place(self) -> Tensor:
        """Index of each entry in the flattened dense matrix, as wrapping 32-bit integers."""
        return self._place(self.pattern.row)

    def place_for(self, dropout: Dropout) -> Tensor:
        """As :attr:`place`, in the whole matrix if this process has only some of its rows.

        Args:
            dropout (Dropout): Knows which rows these are.

        Shapes:
            - **output:** :math:`(nnz)`
        """
        if not dropout.rows:
            return self.place
        return self._place(dropout.rows_of(self.pattern.num_nodes)[self.pattern.row])

    def _place(self, row: Tensor) -> Tensor:
        return (row * self.pattern.num_columns + self.pattern.col).to(torch.int32)
