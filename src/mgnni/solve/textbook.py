r"""The equilibrium equation and its plain solution.

For a graph operator :math:`P`, a scale :math:`m`, a factor :math:`\gamma` and a weight :math:`W`,
the equilibrium :math:`Z` is the fixed point of

.. math::  Z \leftarrow \gamma P^m Z W + B.

Picard iteration applies this map until the states stop changing. The gradients follow from the
implicit function theorem: for a cotangent :math:`G`, the adjoint equation

.. math::  U = \gamma (P^{\top})^m U W^{\top} + G

has the same form, and :math:`\partial B = U`, :math:`\partial W = \gamma (P^m Z)^{\top} U`.

This module is the readable reference. All other solvers of the library return the same states and
gradients, faster and with a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgnni.graph.propagation import Propagation


@dataclass(frozen=True)
class Stopping:
    """When Picard iteration stops.

    Args:
        tol (float, optional): Stops when a step changes the states by at most this much, in the
            Frobenius norm. (default: :obj:`1e-6`)
        relative (bool, optional): If set to :obj:`True`, ``tol`` is relative to the norm of the
            states. (default: :obj:`False`)
        max_iter (int, optional): Largest number of steps. (default: :obj:`300`)
    """

    tol: float = 1e-6
    relative: bool = False
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
    r"""Iterates one equation from zero. Not differentiable.

    Args:
        propagation (Propagation): The operator :math:`P`.
        weight (Tensor): The weight :math:`W`.
        bias (Tensor): The bias :math:`B`.
        scale (int): The scale :math:`m`.
        gamma (float): The contraction factor :math:`\gamma`.
        stopping (Stopping): When to stop.

    Shapes:
        - **weight:** ``(channels, channels)``
        - **bias:** ``(num_nodes, channels)``
        - **output:** ``(num_nodes, channels)``
    """
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
    weight: Tensor,
    bias: Tensor,
    scales: tuple[int, ...],
    gamma: float,
    stopping: Stopping = AUTHORS,
) -> Tensor:
    r"""Solves the equations of all scales, differentiably.

    Args:
        propagation (Propagation): The operator :math:`P`.
        weight (Tensor): The weight of each scale.
        bias (Tensor): The bias :math:`B`.
        scales (tuple[int, ...]): The scales :math:`m`.
        gamma (float): The contraction factor :math:`\gamma`.
        stopping (Stopping, optional): When to stop. (default: that of the authors)

    Shapes:
        - **weight:** ``(scales, channels, channels)``
        - **bias:** ``(num_nodes, channels)``
        - **output:** ``(scales, num_nodes, channels)``
    """
    found = [
        _Textbook.apply(bias, weight[i], propagation, scale, gamma, stopping)  # type: ignore[no-untyped-call]
        for i, scale in enumerate(scales)
    ]
    return torch.stack(found)
