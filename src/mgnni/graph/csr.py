"""Sparse matrices in CSR format: sparsity pattern and products."""

from __future__ import annotations

import warnings
from functools import cached_property

import torch
from torch import Tensor

from mgnni.kernels.launches import processors
from mgnni.kernels.rows import Rows, share_out
from mgnni.kernels.terms import Lines, add_term

LARGEST = 2**31 - 2**14  # for 32-bit indices; kernels count slightly past the end


def csr(crow: Tensor, col: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a sparse CSR tensor without invariant checks and without PyTorch's beta warning.

    Args:
        crow (Tensor): Row pointers.
        col (Tensor): Column of each entry.
        values (Tensor): The entries.
        size (tuple[int, int]): Numbers of rows and columns.

    Shapes:
        - **crow:** ``(num_rows + 1,)``
        - **col, values:** ``(nnz,)``
        - **output:** ``(num_rows, num_columns)``, sparse
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)")
        return torch.sparse_csr_tensor(crow, col, values, size, check_invariants=False)


class Pattern:
    r"""The sparsity pattern of a matrix in CSR format, square unless a width is given.

    Tensors that follow from the pattern are computed at first use and cached. Copies and pickles
    leave them out.

    Args:
        crow (Tensor): Row pointers.
        col (Tensor): Column of each non-zero, sorted within each row, without duplicates.
        num_columns (int, optional): Number of columns; that of the rows if :obj:`None`.
            (default: :obj:`None`)

    Shapes:
        - **crow:** :math:`(|\mathcal{V}| + 1)`
        - **col:** :math:`(\mathrm{nnz})`
    """

    def __init__(self, crow: Tensor, col: Tensor, num_columns: int | None = None) -> None:
        self.crow, self.col = crow, col
        self.num_columns = self.num_nodes if num_columns is None else num_columns

    @classmethod
    def from_sorted(
        cls, row: Tensor, col: Tensor, num_nodes: int, num_columns: int | None = None
    ) -> Pattern:
        """Build the pattern from row and column indices sorted by row, then by column."""
        crow = torch.zeros(num_nodes + 1, dtype=torch.long, device=row.device)
        torch.cumsum(torch.bincount(row, minlength=num_nodes), 0, out=crow[1:])
        # 32-bit indices halve the index traffic and save MKL a conversion per call.
        small = max(num_nodes, num_columns or 0, row.numel()) < LARGEST
        dtype = torch.int32 if small else torch.int64
        return cls(crow.to(dtype), col.to(dtype), num_columns)

    @property
    def num_nodes(self) -> int:
        """Number of rows."""
        return self.crow.numel() - 1

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return self.col.numel()

    # Cached tensors are also used in training, so none of them may be an inference tensor.

    @cached_property
    @torch.inference_mode(False)
    def row(self) -> Tensor:
        """Row of each non-zero, shape ``(nnz,)``, 64-bit."""
        count = self.crow.diff().long()
        return torch.arange(self.num_nodes, device=self.crow.device).repeat_interleave(count)

    @cached_property
    def longest_row(self) -> int:
        """Largest number of non-zeros in a row."""
        return int(self.lengths.max()) if self.num_nodes else 0

    @cached_property
    @torch.inference_mode(False)
    def lengths(self) -> Tensor:
        """Number of non-zeros per row, on the CPU."""
        return self.crow.diff().cpu()

    @cached_property
    @torch.inference_mode(False)
    def rows(self) -> Rows:
        """The rows, partitioned among the multiprocessors of the pattern's device."""
        device = self.crow.device
        return share_out(self.lengths, processors(device), device)

    @cached_property
    def lines(self) -> Lines:
        """The rows in the form that the kernels for large graphs take."""
        return Lines(self.crow, self.col, self.lengths)

    @cached_property
    @torch.inference_mode(False)
    def transposed(self) -> tuple[Pattern, Tensor]:
        """The pattern of the transpose, and the permutation that carries values over to it."""
        col = self.col.long()
        order = torch.argsort(col, stable=True)
        shape = self.num_columns, self.num_nodes
        return Pattern.from_sorted(col[order], self.row[order], *shape), order

    def matrix(self, values: Tensor) -> Tensor:
        """Return the sparse CSR tensor with these ``values``."""
        return csr(self.crow, self.col, values, (self.num_nodes, self.num_columns))

    def sampled_product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return ``left[i] @ right[j]`` for every non-zero ``(i, j)``, shape ``(nnz,)``."""
        return (left[self.row] * right[self.col.long()]).sum(-1)

    def to(self, device: torch.device) -> Pattern:
        """Return the pattern on ``device``."""
        if self.crow.device == device:
            return self
        return Pattern(self.crow.to(device), self.col.to(device), self.num_columns)

    def __getstate__(self) -> dict[str, object]:
        return {"crow": self.crow, "col": self.col, "num_columns": self.num_columns}


class SparseMatrix:
    """A sparse matrix that multiplies node features, outside of autograd.

    Args:
        pattern (Pattern): The sparsity pattern.
        values (Tensor): The non-zeros, in CSR order.

    Shapes:
        - **values:** ``(nnz,)``
        - **input of products:** ``(num_columns, channels)``
        - **output of products:** ``(num_nodes, channels)``
    """

    is_sharded: bool = False  # whether other processes hold other rows, see mgnni.distributed

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        self.pattern, self.values = pattern, values

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all graphs; of a sharded matrix, those of this process."""
        return self.pattern.num_nodes

    @property
    def total_nodes(self) -> int:
        """Number of nodes of all processes."""
        return self.num_nodes

    @property
    def lengths(self) -> Tensor:
        """Number of entries of each row, on the CPU."""
        return self.pattern.lengths

    @property
    def longest_row(self) -> int:
        """Largest number of entries in a row."""
        return self.pattern.longest_row

    def sum_over_processes(self, x: Tensor) -> Tensor:
        """Return the sum of ``x`` over the processes that hold rows; here there is only one."""
        return x

    def max_over_processes(self, x: Tensor) -> Tensor:
        """Return the largest ``x`` of the processes that hold rows; here there is only one."""
        return x

    def agreed(self, x: Tensor) -> Tensor:
        """Return ``x`` of the first of the processes that hold rows; here there is only one."""
        return x

    def magnitudes(self) -> tuple[SparseMatrix, SparseMatrix]:
        """Return the matrix of absolute values and its transpose, in float64."""
        values = self.values.detach().abs().double()
        transposed, order = self.pattern.transposed
        return SparseMatrix(self.pattern, values), SparseMatrix(transposed, values[order])

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the entries, which that of the features must match."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """The device of the entries."""
        return self.values.device

    @cached_property
    @torch.inference_mode(False)
    def matrix(self) -> Tensor:
        """The matrix as a sparse CSR tensor, outside of autograd."""
        return self.pattern.matrix(self.values.detach())

    def multiply(self, x: Tensor) -> Tensor:
        """Return ``P x``, outside of autograd."""
        empty = self.pattern.nnz == 0 or x.numel() == 0
        if empty or self.pattern.lines.fit(self.values, x):
            return self.multiply_into(x.new_empty(self.num_nodes, x.size(1)), x)
        return self.matrix @ x

    def multiply_into(
        self, out: Tensor, x: Tensor, factor: float = 1.0, beta: float = 0.0
    ) -> Tensor:
        """Overwrite ``out`` with ``factor * P x + beta * out`` and return it."""
        if self.pattern.nnz == 0 or x.numel() == 0:
            return out.mul_(beta) if beta else out.zero_()
        if self.pattern.lines.fit(self.values, x):
            return add_term(self.pattern.lines, self.values, x, out, factor=factor, keep=beta)
        if x.size(1) == 1 and x.device.type == "cpu":  # twice as fast as a matrix of one column
            out.view(-1).addmv_(self.matrix, x.view(-1), beta=beta, alpha=factor)
            return out
        return out.addmm_(self.matrix, x, beta=beta, alpha=factor)

    def to_dense(self) -> Tensor:
        """Return the dense matrix, for small graphs and for tests; differentiable."""
        dense = self.values.new_zeros(self.num_nodes, self.pattern.num_columns)
        index = (self.pattern.row, self.pattern.col.long())
        return dense.index_put(index, self.values)
