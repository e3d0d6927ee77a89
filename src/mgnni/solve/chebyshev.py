r"""Chebyshev expansion of the resolvent, for a symmetric operator and symmetric weights."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.solve.equation import Equations
from mgnni.solve.polynomials import Polynomials


def _roots(mu: Tensor, scale: int) -> Tensor:
    r"""The :math:`m` complex roots :math:`a` of :math:`a^m = \mu`, shape ``(columns, m)``."""
    turn = 2 * torch.pi * torch.arange(scale, dtype=torch.float64) / scale
    angle = turn + (mu < 0).double().unsqueeze(1) * (torch.pi / scale)
    size = mu.abs() ** (1 / scale)
    return torch.polar(size.unsqueeze(1).expand_as(angle).contiguous(), angle)


def expansion(mu: Tensor, scale: int) -> tuple[Tensor, Tensor]:
    r"""Expand :math:`1 / (1 - \mu s^m)` in Chebyshev polynomials of :math:`s \in [-1, 1]`.

    By partial fractions it is the mean of :math:`1 / (1 - a s)` over the roots
    :math:`a^m = \mu`, and :math:`1 / (1 - a s) = (1 + 2 \sum_k \rho^k T_k(s)) / \sqrt{1 - a^2}`
    with :math:`\rho = a / (1 + \sqrt{1 - a^2})`.

    Returns:
        ``(front, rho)``, complex, shape ``(columns, m)``: the coefficient of :math:`T_k` is
        the real part of :math:`\sum_r front_r\, \rho_r^k`, halved for :math:`k = 0`.
    """
    root = _roots(mu, scale)
    square = torch.sqrt(1 - root * root)
    return 2 / (scale * square), root / (1 + square)


def _powers(rho: Tensor, k: Tensor) -> Tensor:
    """Return ``rho ** k`` for consecutive ``k``, stacked in front, with ``0 ** 0 = 1``.

    By products, because a complex power costs a hundred of them.
    """
    first = rho ** k[0] if int(k[0]) else torch.ones_like(rho)
    steps = rho.expand(k.size(0) - 1, *rho.shape)
    return torch.cat([first.unsqueeze(0), steps]).cumprod(0)


def chebyshev(equations: Equations, tol: float, max_iter: int) -> tuple[Polynomials, bool]:
    r"""Return the truncated expansions of :math:`(1 - \mu_j s^m)^{-1}` for every column.

    The spectrum of :math:`P / \|P\|` lies in :math:`[-1, 1]`, where :math:`|T_k| \le 1`, so the
    error of a column is at most the sum of the coefficients left out, and its residual at most
    twice that.

    Returns:
        The polynomials, and whether degree ``max_iter`` was too low for some column.
    """
    bound = equations.operator.norm_bound
    values = equations.gamma * equations.weights.decoupling.eigenvalues
    scales = torch.tensor(equations.scales)
    degrees = torch.zeros(values.shape, dtype=torch.long)
    parts = []
    short = False
    for scale in sorted(set(equations.scales)):
        where = (scales == scale).nonzero().squeeze(1)
        mu = values[where]
        front, rho = (
            part.view(*mu.shape, scale) for part in expansion(mu.flatten() * bound**scale, scale)
        )
        slowest = rho.abs().amax(-1).clamp(max=1 - 1e-12)
        tail = (front.abs() / (1 - rho.abs()).clamp(min=1e-12)).sum(-1)  # times slowest^(k+1)
        tiny = torch.finfo(torch.float64).tiny
        needed = torch.log(tol / 2 / tail) / torch.log(slowest.clamp(min=tiny)) - 1
        degree = torch.ceil(needed).clamp(min=0).nan_to_num(posinf=max_iter + 1.0)
        short |= bool((degree > max_iter).any())
        degrees[where] = degree.clamp(max=max_iter).long()
        parts.append((where, front, rho))

    def coefficient(k: Tensor) -> Tensor:
        table = torch.empty(k.size(0), *values.shape, dtype=torch.float64)
        for where, front, rho in parts:
            table[:, where] = (front * _powers(rho, k.squeeze(1))).real.sum(-1)
        if int(k[0]) == 0:
            table[0] /= 2
        return table.flatten(1)

    return Polynomials(coefficient, degrees.flatten(), chebyshev=True, bound=bound or 1.0), short
