"""The CUDA kernels as functions of tensors.

All of them are asynchronous: none synchronises host and device. Tests compare them with plain
torch.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from mgnni.kernels.nvrtc import launch, shared_memory, why_not
from mgnni.kernels.rows import Rows

COLUMNS = 8  # columns per group; a group is processed, and left out, as a whole
_FEW = 4  # number of groups up to which rows are split into short parts, if memory allows
CLOSE = 1e-8  # largest off-diagonal entry that the eigenvalue kernel may leave
MOST_CHANNELS = 128  # largest matrix for the eigenvalue kernel
MOST_ROOTS = 16  # largest scale for which there is a Chebyshev table


def padded(channels: int) -> int:
    """Number of columns of an equation, rounded up to whole groups."""
    return -(-channels // COLUMNS) * COLUMNS


@lru_cache
def processors(device: torch.device) -> int:
    """Number of multiprocessors."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@lru_cache
def _widest(device: torch.device, copies: int) -> int:
    """The widest matrix of which a block can hold this many float64 copies."""
    return int(((shared_memory(device) - 4096) / (8 * copies)) ** 0.5) - 3


def widest(device: torch.device) -> int:
    """The widest matrix that fits into a block and is faster there than in a library."""
    return min(_widest(device, 1), MOST_CHANNELS)


def has_eigenpairs(weight: Tensor) -> bool:
    """Whether :func:`eigenpairs` supports these matrices.

    Args:
        weight (Tensor): The matrices, shape ``(matrices, channels, channels)``.
    """
    return (
        weight.device.type == "cuda"
        and weight.dtype is torch.float32
        and why_not() is None
        and weight.size(-1) <= widest(weight.device)
    )


def basis_for(weight: Tensor, before: Tensor | None = None) -> Tensor:
    """Returns memory for the initial vectors of :func:`eigenpairs`.

    Args:
        weight (Tensor): The matrices, shape ``(matrices, channels, channels)``.
        before (Tensor, optional): Memory of an earlier call, returned if it is of the same size.
    """
    count, h, _ = weight.shape
    shape = (count, h * h + 1)
    if before is not None and (before.shape, before.device) == (shape, weight.device):
        return before
    with torch.inference_mode(False):
        return weight.new_zeros(shape, dtype=torch.float64)


def eigenpairs(weight: Tensor, basis: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns eigenvalues and eigenvectors of symmetric positive semidefinite matrices.

    Args:
        weight (Tensor): The matrices.
        basis (Tensor, optional): Memory from :func:`basis_for` with the eigenvectors of an earlier
            call, from which the kernel starts. They are overwritten.

    Shapes:
        - **weight:** ``(matrices, channels, channels)``, float32
        - **output:** ``(matrices, padded)`` in float64, falling, and ``(matrices, channels,
          padded)`` in float32; both padded with zeros
    """
    count, h, _ = weight.shape
    wide = padded(h)
    vectors = weight.new_empty(count, h, wide)
    values = weight.new_empty(count, wide, dtype=torch.float64)
    apart = h > _widest(weight.device, 2)
    even = h + h % 2
    threads = even // 2 * min(1024 // even, h)  # each thread takes one pair of columns
    launch(
        "eigen_wide" if apart else "eigen",
        count,
        threads,
        weight.contiguous(),
        vectors,
        values,
        basis_for(weight, basis),
        values.new_empty(count, 2, even, even),
        h,
        wide,
        ctypes.c_double(CLOSE),
        shared=8 * ((1 if apart else 2) * even * even + 2 * even),
    )
    return values, vectors


@dataclass(frozen=True, eq=False)
class Table:
    """Expansions of all columns: coefficients of every term, and degrees."""

    coefficient: Tensor  # shape: (terms, width)
    degree: Tensor  # shape: (groups,), 32-bit
    columns: Tensor  # degrees of the columns, shape: (width,), 32-bit
    needed: Tensor  # largest degree per equation, shape: (equations,), 32-bit


def table(
    values: Tensor,
    scales: Tensor,
    terms: int,
    *,
    chebyshev: bool,
    gamma: float,
    bound: float,
    tol: float,
) -> Table:
    """Returns the truncated expansion of ``1 / (1 - gamma lambda s^m)`` for every eigenvalue.

    Args:
        values (Tensor): Eigenvalues, shape ``(equations, padded)``, float64.
        scales (Tensor): Scales, shape ``(equations,)``, 32-bit.
        terms (int): Number of terms of the table.
        chebyshev (bool): Whether to expand in Chebyshev polynomials, else in powers.
        gamma (float): The contraction factor.
        bound (float): Bound on the norm of the operator.
        tol (float): Residual that the truncation may leave.
    """
    equations, wide = values.shape
    width = equations * wide
    coefficient = values.new_empty(terms, width, dtype=torch.float32)
    degree = values.new_empty(width // COLUMNS, dtype=torch.int32)
    columns = values.new_empty(width, dtype=torch.int32)
    needed = values.new_zeros(equations, dtype=torch.int32)
    numbers = [ctypes.c_double(number) for number in (gamma, bound, tol)]
    launch(
        "table",
        -(-width // 128),
        128,
        values,
        scales,
        coefficient,
        degree,
        columns,
        needed,
        equations,
        wide,
        terms,
        int(chebyshev),
        *numbers,
    )
    return Table(coefficient, degree, columns, needed)


def has_room(rows: Rows, width: int, device: torch.device) -> bool:
    """Whether a block can hold the partial sums of its rows for one group of columns."""
    needed = 4 * COLUMNS * rows.parts[1] + 4 * (width // COLUMNS)
    return needed <= shared_memory(device) - 2048


def sweep(
    rows: Rows,
    col: Tensor,  # shape: (nnz,), 32-bit
    value: Tensor,  # shape: (nnz,)
    columns: Tensor,  # shape: (num_nodes, width), overwritten
    coefficient: Tensor,  # shape: (terms, width)
    degree: Tensor,  # shape: (groups,), 32-bit
    *,
    chebyshev: bool = False,
    bound: float = 1.0,
) -> Tensor:
    """Applies the expansions in ``P / bound`` to every column; overwrites ``columns``."""
    width = columns.size(1)
    groups, room = width // COLUMNS, shared_memory(columns.device) - 2048
    fine, coarse = rows.parts
    kept = 8 * rows.entries + 4 * (fine + coarse + 2 + 2 * (rows.rows + 1)) + 4 * groups
    few = _FEW if 4 * COLUMNS * _FEW * fine <= room // 2 else 0
    least = 4 * COLUMNS * max(few * fine, coarse)  # bytes of partial sums
    resident = kept + least <= room
    if not resident:
        kept = 4 * groups
    entries, most_rows = (rows.entries, rows.rows + 1) if resident else (0, 0)
    together = max(1, min(groups, (room - kept) // (4 * COLUMNS * max(coarse, 1))))
    sums = 4 * COLUMNS * max(few * fine, together * coarse)
    spare, total = torch.empty_like(columns), torch.empty_like(columns)
    arrived = torch.zeros(1, dtype=torch.int32, device=columns.device)
    launch(
        "sweep",
        rows.blocks,
        1024,
        rows.row_of,
        rows.entry_of,
        rows.part,
        rows.first,
        col,
        value,
        columns,
        spare,
        total,
        coefficient,
        degree,
        arrived,
        width,
        few,
        together,
        fine,
        coarse,
        rows.part.size(1) - 1,
        rows.first.size(1) - 1,
        entries,
        most_rows,
        int(chebyshev),
        ctypes.c_float(1 / bound),
        shared=kept + sums,
        cooperative=True,
    )
    return total


def certificates(
    residual: Tensor,  # shape: (equations, num_nodes, channels)
    z: Tensor,  # shape: (equations, num_nodes, channels)
    bias: Tensor,  # shape: (equations or 1, num_nodes, channels)
    values: Tensor,  # shape: (equations, padded), eigenvalues, float64
    needed: Tensor,  # shape: (equations,), iterations, 32-bit
    *,
    batch: Tensor | None,  # shape: (num_nodes,)
    num_graphs: int,
    weight: Tensor | None,  # shape: (num_nodes,), of a norm other than Frobenius', float64
    largest: bool,  # whether that norm is a maximum, else a sum
    to_frobenius: Tensor | None,  # shape: (num_graphs,), from that norm to the Frobenius norm
    steps: Tensor,  # shape: (equations,), gamma ||P||^m, float64
    factors: Tensor,  # shape: (equations,), rounding factors, float64
) -> Tensor:
    """Returns residual, reference, error bound, contraction and iterations.

    Shapes:
        - **output:** ``(5, equations, num_graphs)``, float64
    """
    equations, nodes, h = residual.shape
    found = residual.new_zeros(6, equations, num_graphs, dtype=torch.float64)
    blocks = max(1, min(-(-nodes // 128), 2 * processors(z.device)))  # per equation
    null = ctypes.c_void_p(None)
    launch(
        "norms",
        equations * blocks,
        256,
        residual.contiguous(),
        z.contiguous(),
        bias.contiguous(),
        null if batch is None else batch,
        null if weight is None else weight,
        found,
        equations,
        nodes,
        h,
        num_graphs,
        int(bias.size(0) == 1),
        int(largest),
        blocks,
    )
    numbers = torch.empty_like(found[:5])
    launch(
        "conclude",
        -(-equations * num_graphs // 128),
        128,
        found,
        values,
        steps,
        factors,
        null if to_frobenius is None else to_frobenius,
        needed,
        numbers,
        equations,
        num_graphs,
        values.size(1),
        int(weight is not None),
        ctypes.c_double(torch.finfo(z.dtype).eps / 2),
        ctypes.c_double(CLOSE * values.size(1)),
    )
    return numbers
