"""Gradients of the weight and of the entries of the operator, given the adjoint states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.solve.columns import COLUMNS
from mgnni.solve.products import tall_product


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
