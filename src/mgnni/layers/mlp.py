"""An MLP with dropout that accepts sparse features."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from mgnni.graph.csr import csr
from mgnni.graph.memo import uncompiled
from mgnni.implicit.vmap import folded
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
        self._cache: tuple[Tensor, SparseMatrix] | None = None  # of the last sparse x

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
        return sparse_linear(self._sparse(x), dropout, linear.weight, linear.bias)

    def _sparse(self, x: Tensor) -> SparseMatrix:
        """Cache the transpose of ``x`` between passes."""
        if self._cache is None or self._cache[0] is not x:
            self._cache = (x, SparseMatrix.from_csr(x))
        return self._cache[1]

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
class SparseMatrix:
    r"""A constant sparse matrix in CSR format that is multiplied with many weights.

    Args:
        crow (torch.Tensor): Compressed row indices.
        col (torch.Tensor): Column indices.
        values (torch.Tensor): Values of the entries.
        num_columns (int): Number of columns.

    Shapes:
        - **crow:** :math:`(|\mathcal{V}| + 1)`
        - **col**, **values:** :math:`(nnz)`
    """

    crow: Tensor
    col: Tensor
    values: Tensor
    num_columns: int

    @classmethod
    def from_csr(cls, x: Tensor) -> SparseMatrix:
        """Wrap a sparse CSR tensor."""
        return cls(x.crow_indices(), x.col_indices(), x.values(), x.size(1))

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.crow.numel() - 1

    # Cached tensors may be created in inference mode and used in training later, so they must be
    # no inference tensors.

    @cached_property
    @torch.inference_mode(False)
    def row(self) -> Tensor:
        """Row index of each entry."""
        rows = torch.arange(self.num_rows, device=self.crow.device)
        return rows.repeat_interleave(self.crow.diff())

    @cached_property
    @torch.inference_mode(False)
    def place(self) -> Tensor:
        """Index of each entry in the flattened dense matrix, as wrapping 32-bit integers."""
        return (self.row * self.num_columns + self.col).to(torch.int32)

    def place_for(self, dropout: Dropout) -> Tensor:
        """As :attr:`place`, in the whole matrix if this process has only some of its rows.

        Args:
            dropout (Dropout): Knows which rows these are.

        Shapes:
            - **output:** :math:`(nnz)`
        """
        if not dropout.rows:
            return self.place
        rows = dropout.rows_of(self.num_rows)[self.row]
        return (rows * self.num_columns + self.col).to(torch.int32)

    @cached_property
    @torch.inference_mode(False)
    def transposed(self) -> tuple[SparseMatrix, Tensor]:
        """The transpose, and the permutation that maps the entries to it."""
        order = torch.argsort(self.col, stable=True)
        crow = torch.zeros(self.num_columns + 1, dtype=self.crow.dtype, device=self.crow.device)
        torch.cumsum(torch.bincount(self.col, minlength=self.num_columns), 0, out=crow[1:])
        return SparseMatrix(crow, self.row[order], self.values[order], self.num_rows), order

    def multiply(self, values: Tensor, right: Tensor) -> Tensor:
        """Return the product of the matrix with these values and a dense matrix."""
        return csr(self.crow, self.col, values, (self.num_rows, self.num_columns)) @ right


class _Multiply(torch.autograd.Function):
    """A stack of products with the same pattern; the backward pass multiplies by the transpose."""

    @staticmethod
    def forward(values: Tensor, right: Tensor, matrix: SparseMatrix) -> Tensor:
        return torch.stack([matrix.multiply(v, r) for v, r in zip(values, right, strict=True)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values, _, ctx.matrix = inputs
        ctx.save_for_backward(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        (values,) = ctx.saved_tensors
        (grad,) = grads
        transposed, order = ctx.matrix.transposed
        result: Tensor = _Multiply.apply(values[:, order], grad, transposed)  # type: ignore[no-untyped-call]
        return None, result, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], values: Tensor, right: Tensor, matrix: SparseMatrix
    ) -> tuple[Tensor, int]:
        size = info.batch_size
        stacks = [folded(values, in_dims[0], size), folded(right, in_dims[1], size)]
        product: Tensor = _Multiply.apply(*stacks, matrix)  # type: ignore[no-untyped-call]
        return product.view(size, -1, *product.shape[1:]), 0


def sparse_linear(matrix: SparseMatrix, dropout: Dropout, weight: Tensor, bias: Tensor) -> Tensor:
    r"""Return ``dropout(x) @ weight.T + bias`` for sparse features.

    Args:
        matrix (SparseMatrix): The features.
        dropout (Dropout): Applied to the non-zero entries.
        weight (torch.Tensor): Weight of the linear map.
        bias (torch.Tensor): Bias of the linear map.

    Shapes:
        - **weight:** :math:`(F_{out}, F_{in})`
        - **bias:** :math:`(F_{out})`
        - **output:** :math:`(|\mathcal{V}|, F_{out})`
    """
    values = dropout(matrix.values.to(weight.dtype), matrix.place_for(dropout))
    product: Tensor = _Multiply.apply(  # type: ignore[no-untyped-call]
        values.unsqueeze(0), weight.mT.unsqueeze(0), matrix
    )
    return product.squeeze(0) + bias
