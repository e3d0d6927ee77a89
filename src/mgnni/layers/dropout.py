"""Dropout whose masks can be a function of a key, so that a run is the same wherever it is run."""

from __future__ import annotations

import torch
from torch import Tensor, nn

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
        place = torch.arange(x.numel(), dtype=torch.int32, device=x.device)
        return self.drop(x, place.view(x.shape))

    def drop(self, value: Tensor, place: Tensor) -> Tensor:
        """Drop values that stand at these places of a larger tensor."""
        if not self.training or self.p == 0:
            return value
        if not self.keyed:
            return nn.functional.dropout(value, self.p)
        return value * keep_mask(self.key, place, self.p) / (1 - self.p)

    def extra_repr(self) -> str:
        """The probability, and whether the masks come from a key."""
        return f"p={self.p}" + (", keyed" if self.keyed else "")
