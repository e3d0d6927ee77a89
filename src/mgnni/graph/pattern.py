"""Where the non-zeros of a sparse matrix stand, in CSR order, and how to transpose them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mgnni.kernels.launches import processors
from mgnni.kernels.rows import Rows, share_out
from mgnni.kernels.terms import Lines

LARGEST = 2**31 - 2**14  # for 32 bits, as kernels count a little past the end


def csr(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a sparse CSR tensor, unchecked, and without torch's words on how new these are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(crow, col, values, size, check_invariants=False)


@dataclass(frozen=True, eq=False)
class Pattern:
    """The sparsity pattern of a square matrix in CSR order.

    Attributes:
        crow: row pointers, shape ``(num_nodes + 1,)``.
        col: column of each non-zero, shape ``(nnz,)``; sorted within a row, without repeats.
    """

    crow: Tensor
    col: Tensor

    @classmethod
    def from_sorted(cls, row: Tensor, col: Tensor, num_nodes: int) -> Pattern:
        """Build the pattern from row and column indices sorted by row, then column."""
        crow = torch.zeros(num_nodes + 1, dtype=torch.long, device=row.device)
        torch.cumsum(torch.bincount(row, minlength=num_nodes), 0, out=crow[1:])
        # 32-bit indices halve the index traffic and spare the CPU library a conversion per call.
        small = max(num_nodes, row.numel()) < LARGEST
        dtype = torch.int32 if small else torch.int64
        return cls(crow.to(dtype), col.to(dtype))

    @property
    def num_nodes(self) -> int:
        """Number of rows, and of columns."""
        return self.crow.numel() - 1

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.col.numel()

    # What is made at its first use must serve training too, so none of it in inference mode.

    @cached_property
    @torch.inference_mode(False)
    def row(self) -> Tensor:
        """The row of each non-zero, shape ``(nnz,)``, 64-bit."""
        count = self.crow.diff().long()
        return torch.arange(self.num_nodes, device=self.crow.device).repeat_interleave(count)

    @cached_property
    def longest_row(self) -> int:
        """The largest number of non-zeros in a row."""
        return int(self.lengths.max()) if self.num_nodes else 0

    @cached_property
    @torch.inference_mode(False)
    def lengths(self) -> Tensor:
        """Number of non-zeros of each row, on the CPU."""
        return self.crow.diff().cpu()

    @cached_property
    @torch.inference_mode(False)
    def rows(self) -> Rows:
        """The rows, shared out to the processors of the accelerator that they are on."""
        device = self.crow.device
        return share_out(self.lengths, processors(device), device)

    @cached_property
    def lines(self) -> Lines:
        """The rows as kernels for large graphs take them."""
        return Lines(self.crow, self.col, self.lengths)

    @cached_property
    @torch.inference_mode(False)
    def transposed(self) -> tuple[Pattern, Tensor]:
        """The pattern of the transpose, and the order that carries values over to it."""
        col = self.col.long()
        order = torch.argsort(col, stable=True)
        return Pattern.from_sorted(col[order], self.row[order], self.num_nodes), order

    def matrix(self, values: Tensor) -> Tensor:
        """Return the sparse CSR tensor with these ``values``."""
        return csr(self.crow, self.col, values, (self.num_nodes, self.num_nodes))

    def sampled_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ``left[i] . right[j]`` for every non-zero ``(i, j)``, shape ``(nnz,)``."""
        return (left[self.row] * right[self.col.long()]).sum(-1)

    def to(self, device: torch.device) -> Pattern:
        """Return the pattern on ``device``."""
        if self.crow.device == device:
            return self
        return Pattern(self.crow.to(device), self.col.to(device))
