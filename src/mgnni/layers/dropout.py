"""Dropout whose masks can be a function of a key, so that a run is the same wherever it is run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mgnni.kernels.launches import dropped
from mgnni.kernels.nvrtc import why_not

_ODD = -1640531535, 2146121005, -2073254261  # odd 32-bit constants with well-mixed bits


def keep_mask(key: Tensor, place: Tensor, p: float) -> Tensor:
    """Return which places are kept: a fixed function of a 64-bit key and the place.

    A counter-based random generator: the mask of one place needs no other, so it is the same in
    any order, on any device, for one run alone and for many together.

    Args:
        key: 64-bit, of no dimension.
        place: 32-bit numbers of the places.
        p: probability not to be kept.
    """
    low, high = key.to(torch.int32), (key >> 32).to(torch.int32)
    bits = place * _ODD[0] + low
    # Shifts of signed numbers copy the sign; the masks keep them from doing so.
    bits = bits.bitwise_xor_((bits >> 16).bitwise_and_(0xFFFF)).mul_(_ODD[1]).add_(high)
    bits = bits.bitwise_xor_((bits >> 15).bitwise_and_(0x1FFFF)).mul_(_ODD[2])
    bits = bits.bitwise_xor_((bits >> 16).bitwise_and_(0xFFFF)).mul_(_ODD[1])
    return bits >= round(p * 2**32) - 2**31


class _Drop(torch.autograd.Function):
    """As below by one kernel, which makes the mask again for gradients; one key, or one a run."""

    @staticmethod
    def forward(x: Tensor, key: Tensor, place: Tensor | None, p: float) -> Tensor:
        runs = x if key.dim() else x.unsqueeze(0)
        return dropped(runs, key.view(-1), place, p).view(x.shape)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, key, place, ctx.p = inputs
        ctx.save_for_backward(key, place)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        key, place = ctx.saved_tensors
        grad: Tensor = _Drop.apply(grads[0], key, place, ctx.p)  # type: ignore[no-untyped-call]
        return grad, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: Tensor, key: Tensor, place: Tensor | None, p: float
    ) -> tuple[Tensor, int]:
        """Runs have keys of their own, and places in common."""
        size = info.batch_size
        x = x.expand(size, *x.shape) if in_dims[0] is None else x.movedim(in_dims[0], 0)
        key = key.expand(size) if in_dims[1] is None else key
        fused: Tensor = _Drop.apply(x, key, place, p)  # type: ignore[no-untyped-call]
        return fused, 0


class Dropout(nn.Module):
    """As :class:`torch.nn.Dropout`; with ``keyed`` set, the mask is decided by ``key`` alone.

    Attributes:
        keyed: take the mask from the key, and leave torch's random generator alone.
        key: a buffer, 64-bit; not part of ``state_dict``. Another key gives another mask.
    """

    key: Tensor

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p
        self.keyed = False
        self.register_buffer("key", torch.zeros((), dtype=torch.long), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x`` with entries set to zero and the rest scaled up, in training only."""
        if not self.training or self.p == 0:
            return x
        if not self.keyed:
            return nn.functional.dropout(x, self.p)
        return self._keyed(x, None)

    def drop(self, value: Tensor, place: Tensor) -> Tensor:
        """Drop values that stand at these places of a larger tensor."""
        if not self.training or self.p == 0:
            return value
        if not self.keyed:
            return nn.functional.dropout(value, self.p)
        return self._keyed(value, place)

    def _keyed(self, x: Tensor, place: Tensor | None) -> Tensor:
        if x.device.type == "cuda" and x.dtype is torch.float32 and why_not() is None:
            fused: Tensor = _Drop.apply(x, self.key, place, self.p)  # type: ignore[no-untyped-call]
            return fused
        if place is None:
            count = torch.arange(x.numel(), dtype=torch.int32, device=x.device)
            place = count.view(x.shape)
        return x * keep_mask(self.key, place, self.p) / (1 - self.p)

    def extra_repr(self) -> str:
        """The probability, and whether the masks come from a key."""
        return f"p={self.p}" + (", keyed" if self.keyed else "")
