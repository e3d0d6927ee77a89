r"""Truncated expansions of the resolvent: all coefficients and degrees of the library.

After decoupling, a column of an equation is :math:`y = (1 - \mu P^m)^{-1} c` with
:math:`\mu = \gamma \lambda`. It is expanded as :math:`y \approx \sum_k a_k t_k(P)\,c`, with powers
of :math:`P` (Neumann series) for any operator, or with Chebyshev polynomials for a symmetric one.
The degree that suffices for a tolerance is known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from mgnni.solve.equation import Equations

BLOCK = 64  # number of terms whose coefficients are computed at a time
TINY = torch.finfo(torch.float64).tiny


def recurrence(k: int, chebyshev: bool, bound: float) -> tuple[float, float]:
    """Returns ``(a, b)`` of the recurrence :math:`t_k = a P t_{k-1} + b t_{k-2}`."""
    if not chebyshev or k == 1:  # P^k c = P P^{k-1} c, and T_1(P) c = P c
        return 1 / bound, 0.0
    return 2 / bound, -1.0  # T_k(P) c = 2 P T_{k-1}(P) c - T_{k-2}(P) c


@dataclass(frozen=True, eq=False)
class Tail:
    r"""How a power series continues once its terms are multiples of one another.

    Where :math:`P t_k` is nearly :math:`t_k`, so are all later terms, and their sum is a multiple
    of :math:`t_k`. This is exact for the eigenvalue one of a normalised graph, so only the rest of
    the spectrum has to decay, which is faster. With :math:`d = \|t_k - t_{k-1}\|` and an operator
    of norm at most one, which all others are divided by, the residual is at most :math:`m d` times
    the remaining coefficients.
    """

    ratio: Tensor  # shape: (columns,), sum of the remaining coefficients over the last, float64
    tol: float  # relative residual at which to stop


@dataclass(frozen=True, eq=False)
class Expansion:
    """One truncated expansion per column of every equation.

    Args:
        coefficient (Callable): Returns :math:`a_{kj}` for a block of :math:`k`, given as a column;
            shape ``(block, columns)``, float64, on the CPU. Memory must not grow with the degree,
            so there is no table of all coefficients.
        degree (Tensor): Degree of each column, shape ``(columns,)``, on the CPU.
        chebyshev (bool): Whether :math:`t_k` are Chebyshev polynomials, else powers.
        bound (float): The operator is divided by this number, so that its norm is at most one.
        truncated (bool): Whether ``max_iter`` was too low for some column.
        tail (Tail, optional): How the series continues; it may then end before its degree.
    """

    coefficient: Callable[[Tensor], Tensor]
    degree: Tensor
    chebyshev: bool
    bound: float
    truncated: bool
    tail: Tail | None = None

    @cached_property
    def _first(self) -> Tensor:
        """The coefficients of the first block, kept because the adjoint equation reuses them."""
        return self._rows(0, min(BLOCK, int(self.degree.max()) + 1))

    def _rows(self, start: int, stop: int) -> Tensor:
        k = torch.arange(start, stop).unsqueeze(1)
        rows = self.coefficient(k)
        return torch.where(k > self.degree, torch.zeros_like(rows), rows)

    def step(self, k: int) -> tuple[float, float]:
        """Returns the factors of the recurrence for term ``k``."""
        return recurrence(k, self.chebyshev, self.bound)

    def block(self, start: int, stop: int, order: Tensor, like: Tensor) -> Tensor:
        """Returns the coefficients of terms ``start`` to ``stop - 1``, columns in this order."""
        first = self._first
        rows = first[start:stop] if stop <= first.size(0) else self._rows(start, stop)
        return rows[:, order].to(like)

    def terms(self, order: Tensor, like: Tensor) -> Callable[[int], Tensor]:
        """Returns a function from ``k`` to the coefficients of term ``k``, computed in blocks.

        It has to be called for rising ``k``, up to the highest degree of the given columns.
        """
        end = int(self.degree[order].max()) + 1
        blocks: dict[int, Sequence[Tensor]] = {}

        def term(k: int) -> Tensor:
            number, place = divmod(k, BLOCK)
            if number not in blocks:
                blocks.clear()
                start = k - place
                rows = self.block(start, min(start + BLOCK, end), order, like)
                blocks[number] = rows.unbind()
            return blocks[number][place]

        return term


def neumann(equations: Equations, tol: float, max_iter: int) -> Expansion:
    r"""Returns the truncated Neumann series :math:`y_j = \sum_i \mu_j^i P^{m i} c_j`.

    In the norm of the operator, the residual after :math:`k` terms is at most
    :math:`\ell^{k+1} \|c_j\|` with :math:`\ell = |\mu_j| \|P\|^m`. Slow columns are few, because
    :math:`\sum_j \lambda_j^2 \le 1` for the weights of MGNNI.

    The terms are powers of :math:`P / \|P\|`, and :math:`\mu_j` is multiplied by :math:`\|P\|^m`.
    Otherwise long powers would overflow or vanish.
    """
    bound = equations.operator.norm_bound
    mu = equations.gamma * equations.weights.eigenpairs.values  # shape: (equations, channels)
    scale = torch.tensor(equations.scales).unsqueeze(1).expand_as(mu)
    mu = mu * bound ** scale.double()
    terms = _neumann_terms(mu.abs(), tol).nan_to_num(posinf=max_iter + 1.0)
    truncated = bool((terms > max_iter).any())
    terms = terms.clamp(max=max_iter).long()
    mu, scale = mu.flatten(), scale.flatten()

    def coefficient(hop: Tensor) -> Tensor:
        power = mu ** (hop // scale)
        return torch.where(hop % scale == 0, power, torch.zeros_like(power))

    return Expansion(
        coefficient,
        terms.flatten() * scale,
        chebyshev=False,
        bound=bound or 1.0,
        truncated=truncated,
        tail=None if truncated else Tail(mu / (1 - mu), tol),
    )


def _neumann_terms(rate: Tensor, tol: float) -> Tensor:
    needed = torch.log(torch.tensor(tol, dtype=torch.float64)) / torch.log(rate.clamp(min=TINY))
    return torch.ceil(needed).clamp(min=0)


def resolvent(mu: Tensor, scale: int) -> tuple[Tensor, Tensor]:
    r"""Expands :math:`1 / (1 - \mu s^m)` in Chebyshev polynomials of :math:`s \in [-1, 1]`.

    By partial fractions it is the mean of :math:`1 / (1 - a s)` over the complex roots
    :math:`a^m = \mu`, and :math:`1 / (1 - a s) = (1 + 2 \sum_k \rho^k T_k(s)) / \sqrt{1 - a^2}`
    with :math:`\rho = a / (1 + \sqrt{1 - a^2})`.

    Args:
        mu (Tensor): One number per column, shape ``(columns,)``, float64.
        scale (int): The scale :math:`m`.

    Returns:
        ``(front, rho)``, complex, shape ``(columns, m)``: the coefficient of :math:`T_k` is
        the real part of :math:`\sum_r front_r\, \rho_r^k`, halved for :math:`k = 0`.
    """
    angle = 2 * torch.pi * torch.arange(scale, dtype=torch.float64) / scale
    angle = angle + (mu < 0).double().unsqueeze(1) * (torch.pi / scale)
    size = mu.abs() ** (1 / scale)
    root = torch.polar(size.unsqueeze(1).expand_as(angle).contiguous(), angle)
    square = torch.sqrt(1 - root * root)
    return 2 / (scale * square), root / (1 + square)


def _chebyshev_degree(front: Tensor, rho: Tensor, tol: float) -> Tensor:
    r"""Degree after which the remaining coefficients sum to at most ``tol / 2``.

    On :math:`[-1, 1]`, :math:`|T_k| \le 1`, so the error is at most that sum, and the residual at
    most twice as much.
    """
    slowest = rho.abs().amax(-1).clamp(max=1 - 1e-12)
    tail = (front.abs() / (1 - rho.abs()).clamp(min=1e-12)).sum(-1)  # times slowest^(k+1)
    needed = torch.log(tol / 2 / tail) / torch.log(slowest.clamp(min=TINY)) - 1
    return torch.ceil(needed).clamp(min=0)


def _powers(rho: Tensor, k: Tensor) -> Tensor:
    """Returns ``rho ** k`` for consecutive ``k``, stacked in front, with ``0 ** 0 = 1``.

    By products, because a complex power costs as much as a hundred of them.
    """
    first = rho ** k[0] if int(k[0]) else torch.ones_like(rho)
    steps = rho.expand(k.size(0) - 1, *rho.shape)
    return torch.cat([first.unsqueeze(0), steps]).cumprod(0)


def chebyshev(equations: Equations, tol: float, max_iter: int) -> Expansion:
    r"""Returns the truncated Chebyshev expansions of :math:`(1 - \mu_j s^m)^{-1}`.

    The spectrum of :math:`P / \|P\|` lies in :math:`[-1, 1]`.
    """
    bound = equations.operator.norm_bound
    mu = equations.gamma * equations.weights.eigenpairs.values  # shape: (equations, channels)
    scales = torch.tensor(equations.scales)
    degrees = torch.zeros(mu.shape, dtype=torch.long)
    parts = []
    truncated = False
    for scale in sorted(set(equations.scales)):
        where = (scales == scale).nonzero().squeeze(1)
        some = mu[where]
        front, rho = (
            part.view(*some.shape, scale)
            for part in resolvent(some.flatten() * bound**scale, scale)
        )
        degree = _chebyshev_degree(front, rho, tol).nan_to_num(posinf=max_iter + 1.0)
        truncated |= bool((degree > max_iter).any())
        degrees[where] = degree.clamp(max=max_iter).long()
        parts.append((where, front, rho))

    def coefficient(k: Tensor) -> Tensor:
        table = torch.empty(k.size(0), *mu.shape, dtype=torch.float64)
        for where, front, rho in parts:
            table[:, where] = (front * _powers(rho, k.squeeze(1))).real.sum(-1)
        if int(k[0]) == 0:
            table[0] /= 2
        return table.flatten(1)

    return Expansion(
        coefficient,
        degrees.flatten(),
        chebyshev=True,
        bound=bound or 1.0,
        truncated=truncated,
    )


@lru_cache(maxsize=64)
def sufficient_terms(
    scales: tuple[int, ...], gamma: float, bound: float, tol: float, chebyshev: bool
) -> int:
    """Returns a number of terms that suffices for every eigenvalue of the weight up to one."""
    most = 0
    for scale in set(scales):
        rate = torch.tensor([gamma * bound**scale], dtype=torch.float64)
        if not rate > 0:
            continue
        if chebyshev:
            most = max(most, int(_chebyshev_degree(*resolvent(rate, scale), tol)) + 1)
        else:
            most = max(most, scale * int(_neumann_terms(rate, tol)))
    return most + max(scales) + 1  # some more, because the norm of W is one up to rounding


def interval_expansion(
    mu: Tensor, low: float, high: float, tol: float, max_iter: int
) -> tuple[Tensor, Tensor]:
    r"""Expands :math:`1 / (1 - \mu\lambda)` in Chebyshev polynomials of an interval.

    Args:
        mu (Tensor): One number per row, in the last dimension falling in size.
        low (float): Lower end of the interval of :math:`\lambda`.
        high (float): Upper end of the interval.
        tol (float): Residual that the truncation may leave.
        max_iter (int): Largest degree.

    Returns:
        The coefficients, shape ``(terms, *mu.shape)``, zero past the degree; and the degree that
        each row needs, at most ``max_iter + 1``. Both on the CPU.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    below = 1 - mu * middle
    pair = resolvent((mu * half / below).flatten(), 1)
    front, rho = (part.squeeze(1).real.view(mu.shape) for part in pair)
    size, tail = rho.abs(), front.abs() / below.abs()
    # The residual is at most 1 + |mu| half times the error.
    target = tol * (1 - size) / ((1 + (mu * half).abs()) * tail)
    needed = torch.log(target) / torch.log(size.clamp(min=TINY)) - 1
    degree = torch.ceil(needed).clamp(min=0)
    degree = degree.nan_to_num(posinf=max_iter + 1.0).clamp(max=max_iter + 1.0)
    degree = torch.cummax(degree.flip(-1), -1).values.flip(-1)  # rows stay in order
    k = torch.arange(int(degree.max().clamp(max=max_iter)) + 1).view(-1, *[1] * mu.dim())
    table = (front / below) * rho**k
    table[0] /= 2
    return torch.where(k > degree, torch.zeros_like(table), table), degree.long()
