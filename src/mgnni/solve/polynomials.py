"""Truncated polynomials of the operator, one for every column of every equation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

BLOCK = 64  # terms whose coefficients are at hand at one time


def recurrence(k: int, chebyshev: bool, bound: float) -> tuple[float, float]:
    """Factors of the product with the last term, and of the term before, in the k-th one."""
    if not chebyshev:  # P^k c = P P^{k-1} c
        return 1.0, 0.0
    if k == 1:  # T_1(P) c = P c
        return 1 / bound, 0.0
    return 2 / bound, -1.0  # T_k(P) c = 2 P T_{k-1}(P) c - T_{k-2}(P) c


@dataclass(frozen=True, eq=False)
class Tail:
    r"""How a power series goes on, once its terms have become one another's multiples.

    Where :math:`P t_k` is nearly :math:`t_k`, so are all later terms, and their sum is a multiple
    of it. That is exact on the eigenvalue one of a normalised graph, so what is left to wait for
    is the rest of the spectrum, which falls faster. With :math:`d = \|t_k - t_{k-1}\|` and an
    operator of norm one at most, the residual is at most :math:`m d` times the coefficients left
    out.
    """

    ratio: Tensor  # sum of the coefficients left out over the last one, one a column, float64
    tol: float  # relative residual at which to stop


@dataclass(frozen=True, eq=False)
class Polynomials:
    """One truncated polynomial for every column of every equation.

    Attributes:
        coefficient: returns :math:`a_{kj}` for a block of :math:`k`, given as a column: shape
            ``(block, columns)``, float64, on the CPU. A table of them all would grow with the
            degree, and memory must not.
        degree: degree of each column, shape ``(columns,)``, on the CPU.
        chebyshev: whether :math:`t_k` are Chebyshev polynomials, else powers.
        bound: the operator is divided by this number, so that its norm is at most one.
        tail: how the series goes on, if that is known; then it may end before its degree.
    """

    coefficient: Callable[[Tensor], Tensor]
    degree: Tensor
    chebyshev: bool
    bound: float
    tail: Tail | None = None

    @cached_property
    def _first(self) -> Tensor:
        """The coefficients of the first block, which the adjoint equation needs again."""
        return self._rows(0, min(BLOCK, int(self.degree.max()) + 1))

    def _rows(self, start: int, stop: int) -> Tensor:
        k = torch.arange(start, stop).unsqueeze(1)
        rows = self.coefficient(k)
        return torch.where(k > self.degree, torch.zeros_like(rows), rows)

    def step(self, k: int) -> tuple[float, float]:
        """Factors of the product with the last term, and of the term before, in the k-th one."""
        return recurrence(k, self.chebyshev, self.bound)

    def block(self, start: int, stop: int, order: Tensor, like: Tensor) -> Tensor:
        """Coefficients of :math:`t_k`, ``start <= k < stop``, for the columns in this order."""
        kept = self._first
        rows = kept[start:stop] if stop <= kept.size(0) else self._rows(start, stop)
        return rows[:, order].to(like)
