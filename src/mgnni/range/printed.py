r"""The bounds on the range as printed in the MGNNI paper, to compare with.

They are *not* used by the library. Theorems 1 and 3 are false as printed, and the corollaries need
assumptions that the paper does not state: see ``docs/math.md`` and :mod:`mgnni.range.bounds`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_int, check_number
from mgnni.implicit.check import check_gamma


def printed_bound(
    change: Tensor,
    weight: Tensor,
    entry: float,
    distance: int,
    gamma: float = 0.8,
    scale: int = 1,
) -> float:
    r"""Returns the right-hand side of Theorem 1 (``scale=1``) and Theorem 3 of the MGNNI paper.

    In the notation of this library, with :math:`h` hops from :math:`p` to :math:`q`,

    .. math::  \|\Delta z_q\| \le \frac{\gamma^{h/m}}{1 - \gamma}
               \,\|\Delta b_p\, W^{h/m}\|\, |(P^h)_{qp}|.

    **The inequality is false.** Its proof assumes that :math:`|(P^i)_{qp}|` does not grow for
    :math:`i \ge h`, which fails on most graphs, for example on chains with self-loops.

    Args:
        change (Tensor): The perturbation :math:`\Delta b_p` of the bias of node :math:`p`.
        weight (Tensor): The weight :math:`W = g(F)`; symmetric, positive semidefinite.
        entry (float): The entry :math:`(P^h)_{qp}`, see :func:`mgnni.range.bounds.walks`.
        distance (int): The number of hops :math:`h`.
        gamma (float, optional): The factor :math:`\gamma`. (default: :obj:`0.8`)
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)

    Shapes:
        - **change:** ``(channels,)``
        - **weight:** ``(channels, channels)``
    """
    check_gamma(gamma)
    exponent = check_int("distance", distance, least=0) / check_int("scale", scale)
    values, vectors = torch.linalg.eigh(weight.double())
    # A fractional power of a positive semidefinite matrix, where the scale does not divide h.
    moved = (change.double() @ vectors) * values.clamp(min=0) ** exponent
    return float(gamma**exponent / (1 - gamma) * torch.linalg.vector_norm(moved) * abs(entry))


def printed_range(theta: float, gamma: float = 0.8, scale: int = 1) -> float:
    r"""Returns the bound on the θ-effective range of Corollaries 1 (``scale=1``) and 2.

    .. math::  h < m \ln(\theta (1 - \gamma)) / \ln \gamma

    It does hold if :math:`\|\Delta b_p\| \le 1`, :math:`\|W\|_2 \le 1` and :math:`\|P\|_2 \le 1`,
    by another proof than the printed one. It fails for larger perturbations, and for the
    normalisation ``"out"`` of the authors' code on directed graphs. It is an upper bound: nothing
    is said about how far a perturbation does reach, although Corollary 2 is read that way.

    Args:
        theta (float): The threshold :math:`\theta > 0`.
        gamma (float, optional): The factor :math:`\gamma`, positive. (default: :obj:`0.8`)
        scale (int, optional): The scale :math:`m`. (default: :obj:`1`)
    """
    check_threshold(theta)
    if not check_gamma(gamma) > 0:
        raise ArgumentError(f"'gamma' must be above 0 (got {gamma!r}); at 0 the range is 0")
    return check_int("scale", scale) * math.log(theta * (1 - gamma)) / math.log(gamma)


def check_threshold(theta: float) -> float:
    """Returns ``theta`` if it is positive and finite; else raises."""
    return check_number("theta", theta, "(0, inf)", "1e-6 is the default tolerance")
