"""Sparse features, and their product with a weight: a bag of words is nearly all zeros."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from mgnni.graph.csr import csr
from mgnni.implicit.vmap import folded
from mgnni.layers.dropout import Dropout


def sparse_features(x: Tensor) -> Tensor:
    """Return features as a sparse CSR tensor."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
        return x.to_sparse_csr()


@dataclass(frozen=True, eq=False)
class Features:
    """A constant sparse matrix in CSR order that is multiplied with many weights."""

    crow: Tensor
    col: Tensor
    values: Tensor
    num_columns: int

    @classmethod
    def of(cls, x: Tensor) -> Features:
        """Take a sparse CSR tensor."""
        return cls(x.crow_indices(), x.col_indices(), x.values(), x.size(1))

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.crow.numel() - 1

    # What is made at its first use must serve training too, so none of it in inference mode.

    @cached_property
    @torch.inference_mode(False)
    def row(self) -> Tensor:
        """The row of each entry."""
        rows = torch.arange(self.num_rows, device=self.crow.device)
        return rows.repeat_interleave(self.crow.diff())

    @cached_property
    @torch.inference_mode(False)
    def place(self) -> Tensor:
        """Where each entry stands in the dense matrix, row after row; 32 bits, wrapping around."""
        return (self.row * self.num_columns + self.col).to(torch.int32)

    @cached_property
    @torch.inference_mode(False)
    def transposed(self) -> tuple[Features, Tensor]:
        """The transpose, and the order that carries values over to it."""
        order = torch.argsort(self.col, stable=True)
        crow = torch.zeros(self.num_columns + 1, dtype=self.crow.dtype, device=self.crow.device)
        torch.cumsum(torch.bincount(self.col, minlength=self.num_columns), 0, out=crow[1:])
        return Features(crow, self.row[order], self.values[order], self.num_rows), order

    def multiply(self, values: Tensor, right: Tensor) -> Tensor:
        """Return the product of the matrix with these values and a dense matrix."""
        return csr(self.crow, self.col, values, (self.num_rows, self.num_columns)) @ right


class _Multiply(torch.autograd.Function):
    """A stack of products with one pattern; its derivative is a product with the transpose."""

    @staticmethod
    def forward(values: Tensor, right: Tensor, features: Features) -> Tensor:
        products = [features.multiply(v, r) for v, r in zip(values, right, strict=True)]
        return torch.stack(products)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        values, _, ctx.features = inputs
        ctx.save_for_backward(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        (values,) = ctx.saved_tensors
        (grad,) = grads
        transposed, order = ctx.features.transposed
        result: Tensor = _Multiply.apply(values[:, order], grad, transposed)  # type: ignore[no-untyped-call]
        return None, result, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], values: Tensor, right: Tensor, features: Features
    ) -> tuple[Tensor, int]:
        size = info.batch_size
        stacks = [folded(values, in_dims[0], size), folded(right, in_dims[1], size)]
        product: Tensor = _Multiply.apply(*stacks, features)  # type: ignore[no-untyped-call]
        return product.view(size, -1, *product.shape[1:]), 0


def sparse_linear(features: Features, dropout: Dropout, weight: Tensor, bias: Tensor) -> Tensor:
    """Return ``dropout(x) @ weight.T + bias`` for sparse features, in their number of entries.

    Shapes:
        - **weight:** ``(out_channels, in_channels)``
        - **output:** ``(num_nodes, out_channels)``
    """
    values = dropout.drop(features.values.to(weight.dtype), features.place)
    product: Tensor = _Multiply.apply(  # type: ignore[no-untyped-call]
        values.unsqueeze(0), weight.mT.unsqueeze(0), features
    )
    return product.squeeze(0) + bias
