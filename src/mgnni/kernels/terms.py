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
_COLUMNS = 4  # of a lane, in one load
_TILE = 8  # lanes over the columns of a long row: others take other columns


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
            and columns.dtype is values.dtype is torch.float32
            and self.crow.dtype is torch.int32
            and columns.dim() == 2
            and columns.size(1) % _COLUMNS == 0
            and columns.numel() > 0
            and columns.is_contiguous()
            and columns.data_ptr() % 16 == 0
            and why_not() is None
            and self.even
        )


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
    width = pitch if width is None else min(-(-width // _COLUMNS) * _COLUMNS, pitch)
    lanes = 1
    while lanes < 32 and _COLUMNS * lanes < width:
        lanes *= 2
    null = ctypes.c_void_p(None)
    few = min(lanes, _TILE)
    rows, many = lines.crow.numel() - 1, lines.long.numel()
    launches: list[tuple[Any, ...]] = [(null, rows, 1, -(-rows // _ROWS), _ROWS, lanes, 1)]
    if many:
        tiles = -(-width // (_COLUMNS * few))
        launches.append((lines.long, many, _WARPS, many, _WARPS, few, tiles))
    for chosen, count, team, blocks, warps, beside, tiles in launches:
        launch(
            "term",
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
            ctypes.c_float(factor),
            ctypes.c_float(keep),
            team,
            beside,
            tiles=tiles,
        )
    return following
