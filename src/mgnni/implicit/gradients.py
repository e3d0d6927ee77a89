"""Gradients of an equilibrium: of its bias, its weight and the entries of the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.solve.columns import COLUMNS
from mgnni.solve.products import tall_product

if TYPE_CHECKING:
    from mgnni.implicit.linear import Request


def gradients(
    solve: Callable[..., Tensor],
    request: Request,
    z: Tensor,
    weight: Tensor,
    hop: Tensor | None,
    wanted: Sequence[bool],
    grad: Tensor,
) -> tuple[Tensor | None, ...]:
    r"""Solves the adjoint equation and returns the gradients of values, weight and bias.

    Args:
        solve (Callable): ``Equilibrium.apply``, or ``Equilibrium.forward`` in a custom op, which
            is not differentiated further.
        request (Request): How the equations were solved.
        z (Tensor): The states.
        weight (Tensor): The weights.
        hop (Tensor, optional): :math:`P^m Z`, if it was kept.
        wanted (Sequence[bool]): Which of the three gradients are needed.
        grad (Tensor): The cotangent of the states.

    Shapes:
        - **z, hop, grad:** ``(equations, num_nodes, channels)``
        - **weight:** ``(equations, channels, channels)``
    """
    wants_values, wants_weight, wants_bias = wanted
    adjoint = request.adjoint()
    values = adjoint.propagation.values
    u = solve(values if values.requires_grad else None, weight.mT, grad, adjoint)
    grad_values = grad_weight = None
    if wants_weight:
        if hop is None or torch.is_grad_enabled():  # second derivatives need its graph
            grad_weight = grad_weight_of(request.propagation, request.scales, request.gamma, z, u)
        else:
            grad_weight = request.gamma * tall_product(hop, u)
    if wants_values:
        cotangent = request.gamma * (u @ weight.mT)
        grad_values = grad_values_of(request.propagation, request.scales, z, cotangent)
    return grad_values, grad_weight, u if wants_bias else None


def grad_weight_of(
    propagation: Propagation, scales: Sequence[int], gamma: float, z: Tensor, u: Tensor
) -> Tensor:
    r"""Returns :math:`\gamma (P^m Z)^{\top} U` of every equation, a few columns at a time.

    Args:
        propagation (Propagation): The operator :math:`P`.
        scales (Sequence[int]): The scales :math:`m`.
        gamma (float): The factor :math:`\gamma`.
        z (Tensor): The states.
        u (Tensor): The adjoint states.

    Shapes:
        - **z, u:** ``(equations, num_nodes, channels)``
        - **output:** ``(equations, channels, channels)``
    """
    width = max(z.size(-1), 1) if torch.is_grad_enabled() else COLUMNS
    found = []
    for index, scale in enumerate(scales):
        parts = (one.contiguous() for one in torch.split(z[index], width, 1))
        hops = (propagation.apply(part, scale) for part in parts)
        found.append(torch.cat([tall_product(hop, u[index]) for hop in hops]))
    return gamma * torch.stack(found)


def grad_values_of(
    propagation: Propagation, scales: Sequence[int], z: Tensor, cotangent: Tensor
) -> Tensor:
    r"""Differentiates :math:`P^m Z` with respect to the entries of ``P``, for fixed :math:`Z`.

    The result is :math:`\sum_k ((P^{\top})^k V) (P^{m-1-k} Z)^{\top}` at the entries of ``P``.

    Args:
        propagation (Propagation): The operator :math:`P`.
        scales (Sequence[int]): The scales :math:`m`.
        z (Tensor): The states.
        cotangent (Tensor): The cotangent :math:`V` of :math:`P^m Z`.

    Shapes:
        - **z, cotangent:** ``(equations, num_nodes, channels)``
        - **output:** ``(nnz,)``
    """
    total = torch.zeros_like(propagation.values)
    for index, scale in enumerate(scales):
        states = [z[index]]
        for _ in range(scale - 1):
            states.append(propagation.apply(states[-1]))
        v = cotangent[index]
        for state in reversed(states):
            total = total + propagation.pattern.sampled_product(v, state)
            v = propagation.adjoint().apply(v)
    return total
