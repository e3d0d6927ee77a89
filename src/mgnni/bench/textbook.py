r"""The paper's algorithm in its simplest form.

Picard's iteration :math:`Z \leftarrow \gamma P^m Z\, g(F) + B` from zero, one scale after another,
with :math:`g(F)` computed once and :math:`P` in CSR format, until the states change by less than a
tolerance. The gradient follows from the implicit function theorem; its equation is solved likewise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgnni.graph.propagation import Propagation


@dataclass(frozen=True)
class Stopping:
    """Stop when the states change by at most ``tol``, or after ``max_iter`` iterations."""

    tol: float = 1e-6
    relative: bool = False  # to the norm of the states
    max_iter: int = 300


AUTHORS = Stopping()


def picard(
    propagation: Propagation,
    weight: Tensor,
    bias: Tensor,
    scale: int,
    gamma: float,
    stopping: Stopping,
) -> Tensor:
    """Solve one equation, without autograd."""
    z = torch.zeros_like(bias)
    for _ in range(stopping.max_iter):
        new = torch.addmm(bias, propagation.apply(z, scale), weight, alpha=gamma)
        change = (new - z).norm()
        z = new
        if bool(change <= stopping.tol * (z.norm() if stopping.relative else 1.0)):
            break
    return z


class _Textbook(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bias: Tensor, weight: Tensor, *constants: Any) -> Tensor:
        propagation, *rest = ctx.constants = constants
        z = picard(propagation, weight, bias, *rest)
        ctx.save_for_backward(z, weight)
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, weight = ctx.saved_tensors
        propagation, scale, gamma, stopping = ctx.constants
        transposed = weight.mT.contiguous()
        u = picard(propagation.adjoint(), transposed, grads[0], scale, gamma, stopping)
        grad_weight = gamma * (propagation.apply(z, scale).mT @ u)
        return u, grad_weight, None, None, None, None


def equilibria(
    propagation: Propagation,
    weight: Tensor,  # shape: (scales, channels, channels)
    bias: Tensor,  # shape: (num_nodes, channels)
    scales: tuple[int, ...],
    gamma: float,
    stopping: Stopping = AUTHORS,
) -> Tensor:
    """Return the differentiable states of all scales, ``(scales, num_nodes, channels)``."""
    found = [
        _Textbook.apply(bias, weight[i], propagation, scale, gamma, stopping)  # type: ignore[no-untyped-call]
        for i, scale in enumerate(scales)
    ]
    return torch.stack(found)
