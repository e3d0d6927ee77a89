"""One term of a sweep, or a product alone, in one pass over memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from mgnni.kernels.nvrtc import launch, why_not

LONG = 1024  # entries past which whole blocks share a row
HUB = 256  # part of all entries past which one row would keep the others waiting
_ROWS, _WARPS = 8, 32  # rows of a block, and warps of one that shares a row
_TILE = 8  # lanes over the columns of a long row: other blocks take other columns
_KINDS = {torch.float32: ("float", 4), torch.float64: ("double", 2)}  # in one load of a lane


@dataclass(frozen=True, eq=False)
class Lines:
    """The rows of a matrix in CSR, and which of them are long.

    Attributes:
        crow: row pointers.
        col: column of each entry.
    """

    crow: Tensor
    col: Tensor

    @cached_property
    @torch.inference_mode(False)
    def long(self) -> Tensor:
        """Rows with many entries, 32-bit."""
        return (self.crow.diff() > LONG).nonzero().flatten().int()

    @cached_property
    def even(self) -> bool:
        """Whether no row holds so much of the matrix that all would wait for it."""
        longest = int(self.crow.diff().max()) if self.crow.numel() > 1 else 0
        return longest <= max(LONG, self.col.numel() // HUB)

    def fit(self, values: Tensor, columns: Tensor) -> bool:
        """Whether the matrix with these entries can be multiplied so by these columns."""
        return (
            columns.device.type == "cuda"
            and columns.dtype is values.dtype
            and columns.dtype in _KINDS
            and self.crow.dtype is torch.int32
            and columns.dim() == 2
            and columns.numel() > 0
            and columns.is_contiguous()
            and not any(map(_wrapped, (values, columns)))  # by a transform, which has no memory
            and why_not() is None
            and self.even
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
    few = min(lanes, _TILE)
    rows, many = lines.crow.numel() - 1, lines.long.numel()
    launches: list[tuple[Any, ...]] = [(null, rows, 1, -(-rows // _ROWS), _ROWS, lanes, 1)]
    if many:
        tiles = -(-width // (each * few))
        launches.append((lines.long, many, _WARPS, many, _WARPS, few, tiles))
    for chosen, count, team, blocks, warps, beside, tiles in launches:
        launch(
            f"term_{name}{each}",
            blocks,
            32 * warps,
            lines.crow,
            lines.col,
            values,
            chosen,
            count,
            LONG,
            now,
            following,
            null if total is None else total,
            null if coefficient is None else coefficient,
            width,
            ctypes.c_longlong(pitch),
            ctypes.c_double(factor),
            ctypes.c_double(keep),
            team,
            beside,
            tiles=tiles,
        )
    return following
