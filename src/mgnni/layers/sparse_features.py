"""Sparse node features, for example bags of words, and their product with a weight."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from mgnni.graph.csr import Pattern
from mgnni.graph.memo import uncompiled
from mgnni.graph.weighted import weighted_sum
from mgnni.layers.regularization import Dropout


class SparseProduct:
    r"""Multiplies sparse features with a weight, after dropout of their entries.

    The cost is proportional to the number of non-zero entries. What follows from their pattern is
    cached between passes, for example the transpose. Copies and pickles start without it.

    Shapes:
        - **input:** features :math:`(|\mathcal{V}|, F_{in})`, sparse CSR, and the weight
          :math:`(F_{out}, F_{in})`
        - **output:** features :math:`(|\mathcal{V}|, F_{out})`
    """

    def __init__(self) -> None:
        self._cache: tuple[Tensor, SparseFeatures] | None = None  # of the last x

    @uncompiled  # torch.compile supports no sparse CSR tensors
    def __call__(self, x: Tensor, dropout: Dropout | None, weight: Tensor) -> Tensor:
        """Return the product with the transposed weight, like :class:`torch.nn.Linear`."""
        if self._cache is None or self._cache[0] is not x:
            pattern = Pattern(x.crow_indices(), x.col_indices(), x.size(1))
            self._cache = (x, SparseFeatures(pattern))
        features = self._cache[1]
        # Read in every pass: the values of features that require grad have a graph.
        values = x.values().to(weight.dtype)
        if dropout is not None:
            values = dropout(values, features.place_for(dropout))
        product = weighted_sum(values.unsqueeze(1), weight.mT.unsqueeze(1), features.pattern)
        return product.squeeze(1)

    def convolve(self, x: Tensor, dropout: nn.Module, conv: nn.Module, graph: object) -> Tensor:
        """Return a convolution of features after dropout, dense or sparse.

        Of sparse features, the convolution gets the product with its ``input_weight``.
        """
        if x.layout is torch.sparse_csr:
            product = self(x, dropout, conv.input_weight)  # type: ignore[arg-type]
            out: Tensor = conv.after_product(product, graph)  # type: ignore[operator]
        else:
            out = conv(dropout(x), graph)
        return out

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
        if dropout.rows is None:
            return self.place
        return self._place(dropout.rows[self.pattern.row])

    def _place(self, row: Tensor) -> Tensor:
        return (row * self.pattern.num_columns + self.pattern.col).to(torch.int32)
