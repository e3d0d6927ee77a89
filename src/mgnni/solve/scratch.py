"""Scratch memory that is reused between solves on a CPU.

The operating system hands out large blocks page by page and zeroed, which costs as much as a
sparse product. CUDA devices have caching allocators already.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

LIMIT = 2**28  # largest number of bytes kept per thread


class Take(Protocol):
    """Returns an uninitialised tensor of the given shape, valid until the end of the block."""

    def __call__(self, *shape: int) -> Tensor: ...  # noqa: D102


class _Pool(threading.local):
    def __init__(self) -> None:
        self.free: dict[torch.dtype, list[Tensor]] = {}


_pool = _Pool()


@contextmanager
def scratch(like: Tensor) -> Iterator[Take]:
    """Context manager that lends tensors with the device and dtype of ``like``.

    No tensor may be used after the block.

    Args:
        like (Tensor): A tensor of any shape.
    """
    if like.device.type != "cpu":
        yield lambda *shape: like.new_empty(shape)
        return
    free = _pool.free.setdefault(like.dtype, [])
    used: list[Tensor] = []

    def take(*shape: int) -> Tensor:
        size = 1
        for length in shape:
            size *= length
        fitting = [block for block in free if block.numel() >= size]
        if fitting:
            block = min(fitting, key=torch.Tensor.numel)
            free[:] = [other for other in free if other is not block]
        else:
            with torch.inference_mode(False):  # inference tensors cannot be used in training
                block = torch.empty(size, dtype=like.dtype)
        used.append(block)
        return block[:size].view(shape)

    try:
        yield take
    finally:
        kept = sorted([*free, *used], key=torch.Tensor.numel)
        while sum(block.numel() * block.element_size() for block in kept) > LIMIT:
            kept.pop()
        free[:] = kept
