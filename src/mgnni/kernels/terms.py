"""Terms of a sweep, each in one pass over memory, and single products."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from mgnni.kernels.nvrtc import launch, why_not

LONG = 1024  # entries past which a row is shared by whole blocks
HUB = 256  # a row with more than this fraction of all entries would delay the others
NARROW = 16  # number of columns up to which the remaining ones are moved together
_ROWS, _WARPS = 8, 32  # rows per block, and warps per block that shares a row
_FEW, _SPARSE = 4, 64  # lanes over columns and entries per row up to which 8 lanes take a row
_TILE = 8  # lanes over the columns of a long row; other blocks take other columns
_KINDS = {torch.float32: ("float", 4), torch.float64: ("double", 2)}  # type and numbers per load


@dataclass(frozen=True, eq=False)
class Lines:
    """The rows of a CSR matrix, and which of them are long.

    Attributes:
        crow: row pointers.
        col: column of each entry.
        lengths: number of entries of each row, on the CPU.

    Shapes:
        - **crow:** ``(rows + 1,)``
        - **col:** ``(nnz,)``
        - **lengths:** ``(rows,)``
    """

    crow: Tensor
    col: Tensor
    lengths: Tensor

    @cached_property
    @torch.inference_mode(False)
    def long(self) -> Tensor:
        """Indices of rows with many entries, 32-bit."""
        return (self.lengths > LONG).nonzero().flatten().int().to(self.crow.device)

    @cached_property
    def even(self) -> bool:
        """Whether no row is so long that all others would wait for it."""
        longest = int(self.lengths.max()) if self.lengths.numel() else 0
        return longest <= max(LONG, self.col.numel() // HUB)

    @property
    def usable(self) -> bool:
        """Whether the kernels are available and suit the matrix."""
        return (
            self.crow.device.type == "cuda"
            and self.crow.dtype is torch.int32
            and why_not() is None
            and self.even
        )

    def fit(self, values: Tensor, columns: Tensor) -> bool:
        """Whether the kernels can multiply the matrix with these entries by these columns."""
        return (
            columns.is_cuda
            and columns.device == self.crow.device
            and columns.dtype is values.dtype
            and columns.dtype in _KINDS
            and columns.dim() == 2
            and columns.numel() > 0
            and columns.is_contiguous()
            and not any(map(_wrapped, (values, columns)))  # functorch tensors have no memory
            and self.usable
        )


def _wrapped(x: Tensor) -> bool:
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(x))


def add_term(
    lines: Lines,
    values: Tensor,
    now: Tensor,
    following: Tensor,
    total: Tensor | None = None,
    coefficient: Tensor | None = None,
    *,
    width: int | None = None,
    factor: float = 1.0,
    keep: float = 0.0,
) -> Tensor:
    """Overwrites ``following`` with ``factor * P now + keep * following`` and returns it.

    Args:
        lines (Lines): The rows of the operator.
        values (Tensor): Its entries.
        now (Tensor): The last term, contiguous, shape ``(num_nodes, columns)``.
        following (Tensor): The term before, of the same shape.
        total (Tensor, optional): The sum that the new term is added to.
        coefficient (Tensor, optional): The coefficient of each column in that sum.
        width (int, optional): Number of leading columns to process, all by default. A few more
            may be touched.
        factor (float, optional): Factor of the product. (default: :obj:`1.0`)
        keep (float, optional): Factor of ``following``, which is not read if this is zero.
            (default: :obj:`0.0`)
    """
    pitch = now.size(1)
    name, each = _KINDS[now.dtype]
    places = [one.data_ptr() for one in (now, following, total, coefficient) if one is not None]
    while pitch % each or any(place % (each * now.element_size()) for place in places):
        each //= 2
    width = pitch if width is None else min(-(-width // each) * each, pitch)
    lanes = 1
    while lanes < 32 and each * lanes < width:
        lanes *= 2
    null = ctypes.c_void_p(None)
    rows, many = lines.crow.numel() - 1, lines.long.numel()
    states = now, following, null if total is None else total
    tail = (
        null if coefficient is None else coefficient,
        width,
        ctypes.c_longlong(pitch),
        ctypes.c_double(factor),
        ctypes.c_double(keep),
    )
    matrix = lines.crow, lines.col, values
    if lanes <= _FEW and lines.col.numel() <= _SPARSE * rows:
        rest: tuple[Any, ...] = (rows, LONG, *states, *tail, lanes)
        launch(f"term_narrow_{name}{each}", -(-rows // 32), 256, *matrix, *rest)
    else:
        rest = (null, rows, LONG, *states, *tail, 1, lanes)
        launch(f"term_{name}{each}", -(-rows // _ROWS), 32 * _ROWS, *matrix, *rest)
    if many:
        few = min(lanes, _TILE)
        rest = (lines.long, many, LONG, *states, *tail, _WARPS, few)
        tiles = -(-width // (each * few))
        launch(f"term_{name}{each}", many, 32 * _WARPS, *matrix, *rest, tiles=tiles)
    return following


def add_terms(
    lines: Lines,
    values: Tensor,
    now: Tensor,
    before: Tensor,
    total: Tensor,
    widths: Sequence[int],
    coefficient: Callable[[int], Tensor],
    step: Callable[[int], tuple[float, float]],
) -> None:
    """Adds all terms but the first to ``total``.

    Most terms are needed by a few columns only. These are moved together, because otherwise the
    caches would mostly load what lies between them.

    Args:
        lines (Lines): The rows of the operator.
        values (Tensor): Its entries.
        now (Tensor): The first term; overwritten.
        before (Tensor): Memory for another term.
        total (Tensor): The sum, of the same shape.
        widths (Sequence[int]): Number of leading columns that each term is needed by; falling.
        coefficient (Callable): Returns the coefficients of a term, one per column.
        step (Callable): Returns the two factors of the recurrence for a term.
    """
    left: list[Tensor] = []  # sums whose first columns continue in other memory
    for k in range(1, len(widths)):
        pitch = 1 << (widths[k] - 1).bit_length()
        if pitch <= NARROW and 2 * pitch <= now.size(1):
            left.append(total)
            now, before, total = (one[:, :pitch].contiguous() for one in (now, before, total))
        factor, keep = step(k)
        # Columns that were moved are all processed, so that no uninitialised memory is read.
        width = now.size(1) if left else widths[k]
        options: dict[str, Any] = {"width": width, "factor": factor, "keep": keep}
        add_term(lines, values, now, before, total, coefficient(k), **options)
        now, before = before, now
    for whole in reversed(left):
        whole[:, : total.size(1)] = total
        total = whole
