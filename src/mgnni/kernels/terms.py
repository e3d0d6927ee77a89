"""One term of a sweep, or a product alone, in one pass over memory; and all terms of a sweep."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from mgnni.kernels.nvrtc import launch, why_not

LONG = 1024  # entries past which whole blocks share a row
HUB = 256  # part of all entries past which one row would keep the others waiting
NARROW = 16  # columns: where no more are left in wide rows, they are moved together
_ROWS, _WARPS = 8, 32  # rows of a block, and warps of one that shares a row
_FEW, _SPARSE = 4, 64  # lanes over the columns, and entries of a row, for eight lanes to take it
_TILE = 8  # lanes over the columns of a long row: other blocks take other columns
_KINDS = {torch.float32: ("float", 4), torch.float64: ("double", 2)}  # in one load of a lane


@dataclass(frozen=True, eq=False)
class Lines:
    """The rows of a matrix in CSR, and which of them are long.

    Attributes:
        crow: row pointers.
        col: column of each entry.
        lengths: number of entries of each row, on the CPU, where they are looked at.
    """

    crow: Tensor
    col: Tensor
    lengths: Tensor

    @cached_property
    @torch.inference_mode(False)
    def long(self) -> Tensor:
        """Rows with many entries, 32-bit."""
        return (self.lengths > LONG).nonzero().flatten().int().to(self.crow.device)

    @cached_property
    def even(self) -> bool:
        """Whether no row holds so much of the matrix that all would wait for it."""
        longest = int(self.lengths.max()) if self.lengths.numel() else 0
        return longest <= max(LONG, self.col.numel() // HUB)

    @property
    def usable(self) -> bool:
        """Whether the kernels are there, and suit the matrix."""
        return (
            self.crow.device.type == "cuda"
            and self.crow.dtype is torch.int32
            and why_not() is None
            and self.even
        )

    def fit(self, values: Tensor, columns: Tensor) -> bool:
        """Whether the matrix with these entries can be multiplied so by these columns."""
        return (
            columns.is_cuda
            and columns.device == self.crow.device
            and columns.dtype is values.dtype
            and columns.dtype in _KINDS
            and columns.dim() == 2
            and columns.numel() > 0
            and columns.is_contiguous()
            and not any(map(_wrapped, (values, columns)))  # by a transform, which has no memory
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
    """Overwrite ``following`` with ``factor * P now + keep * following`` and return it.

    Args:
        lines: the rows of the operator.
        values: its entries.
        now: the term before, shape ``(num_nodes, columns)`` as all of these, without gaps.
        following: the term before that one.
        total: to which the new term is added.
        coefficient: by which it is multiplied for that, one a column.
        width: columns to touch, from the first one; all by default. Some more may be touched.
        factor: of the product.
        keep: of the term before that one; it is not read if this is zero.
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
    """Add all terms but the first to ``total``.

    The last columns left are few, and most terms are theirs alone. Wherever they stand apart, a
    cache fetches more from between them than of them; so they are moved together.

    Args:
        lines: the rows of the operator.
        values: its entries.
        now: the first term, which is lost.
        before: memory for another one.
        total: what the terms are added to, in the same shape.
        widths: how many columns a term is needed by, from the first one; falling.
        coefficient: returns those of a term, one a column.
        step: returns the factors of the product with a term, and of the term before it.
    """
    left: list[Tensor] = []  # sums, of which some columns go on elsewhere
    for k in range(1, len(widths)):
        pitch = 1 << (widths[k] - 1).bit_length()
        if pitch <= NARROW and 2 * pitch <= now.size(1):
            left.append(total)
            now, before, total = (one[:, :pitch].contiguous() for one in (now, before, total))
        factor, keep = step(k)
        # Those that were moved are all touched, in every term: what was not written is not read.
        width = now.size(1) if left else widths[k]
        options: dict[str, Any] = {"width": width, "factor": factor, "keep": keep}
        add_term(lines, values, now, before, total, coefficient(k), **options)
        now, before = before, now
    for whole in reversed(left):
        whole[:, : total.size(1)] = total
        total = whole
