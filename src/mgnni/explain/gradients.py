"""Integrated gradients: how much each input changes an output on the way from a baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mgnni.errors import ArgumentError

STEPS = 64  # points of the quadrature


def quadrature(steps: int) -> Iterator[tuple[float, float]]:
    """Yield points in (0, 1) and weights of the Gauss-Legendre rule, exact for polynomials.

    Args:
        steps (int): Number of points.
    """
    points, weights = np.polynomial.legendre.leggauss(steps)
    yield from zip(((points + 1) / 2).tolist(), (weights / 2).tolist(), strict=True)


def mean_gradients(
    function: Callable[..., Tensor], start: Sequence[Tensor], end: Sequence[Tensor], steps: int
) -> list[Tensor]:
    r"""Return the mean gradients of a function on the line from ``start`` to ``end``.

    They are :math:`\int_0^1 \nabla f(a + t (b - a))\, dt`. Their inner product with
    :math:`b - a` is :math:`f(b) - f(a)`, up to the error of the quadrature.

    Args:
        function (Callable): Takes one tensor for each of ``start``, and returns one number, or
            several, whose gradients are then returned one after the other.
        start (Sequence[Tensor]): The arguments at the baseline.
        end (Sequence[Tensor]): The arguments of interest.
        steps (int): Number of points on the line.

    Shapes:
        - **output:** for each argument ``(numbers, *argument.shape)``
    """
    total: list[Tensor] = []
    for place, weight in quadrature(steps):
        pairs = zip(start, end, strict=True)
        point = [torch.lerp(a, b, place).requires_grad_() for a, b in pairs]
        with torch.enable_grad():
            values = function(*point).reshape(-1)
        if not values.requires_grad:
            raise ArgumentError(
                "'model' must be differentiable in its node features (got one that is not, such "
                "as FDGNN, whose states are computed outside of autograd); change features one at "
                "a time with mgnni.range.perturbation_response"
            )
        if not total:
            total = [one.new_zeros(len(values), *one.shape) for one in point]
        for sums, grads in zip(total, _gradients(values, point), strict=True):
            sums.add_(grads, alpha=weight)
    return total


def _gradients(values: Tensor, point: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the gradients of several numbers, stacked."""
    units = torch.eye(len(values), dtype=values.dtype, device=values.device)
    options = {"allow_unused": True, "materialize_grads": True}
    if len(values) > 1:
        return torch.autograd.grad(values, point, units, is_grads_batched=True, **options)
    return [grad.unsqueeze(0) for grad in torch.autograd.grad(values, point, units[0], **options)]
