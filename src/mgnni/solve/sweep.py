r"""All equations of a stack by one sweep of products with :math:`P`, finished columns dropped.

After decoupling, every column of every equation is a polynomial in :math:`P` applied to its right
hand side, :math:`y_j = \sum_k a_{kj}\, t_k(P)\, c_j`, with a degree that is known in advance.
Columns are ordered by degree, so those still needed always stand in front.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mgnni.solve.equation import Equations
from mgnni.solve.scratch import scratch

LANES = 8  # columns are dropped in groups of this size
BLOCK = 64  # terms whose coefficients are at hand at one time


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
    """

    coefficient: Callable[[Tensor], Tensor]
    degree: Tensor
    chebyshev: bool
    bound: float

    @cached_property
    def _first(self) -> Tensor:
        """The coefficients of the first block, which the adjoint equation needs again."""
        return self._rows(0, min(BLOCK, int(self.degree.max()) + 1))

    def _rows(self, start: int, stop: int) -> Tensor:
        k = torch.arange(start, stop).unsqueeze(1)
        rows = self.coefficient(k)
        return torch.where(k > self.degree, torch.zeros_like(rows), rows)

    def block(self, start: int, stop: int, order: Tensor, like: Tensor) -> Tensor:
        """Coefficients of :math:`t_k`, ``start <= k < stop``, for the columns in this order."""
        kept = self._first if start == 0 else self.degree.new_empty(0)
        rows = kept[:stop] if stop <= kept.size(0) else self._rows(start, stop)
        return rows[:, order].to(like)


def sweep(equations: Equations, polynomials: Polynomials) -> Tensor:
    """Apply the polynomials; returns the states, shape ``(equations, nodes, channels)``."""
    count, (nodes, channels) = len(equations), equations.bias.shape[1:]
    vectors = equations.weights.decoupling.eigenvectors
    order = torch.argsort(polynomials.degree, descending=True, stable=True)
    degree = polynomials.degree[order]
    place = order.to(vectors.device)
    back = torch.argsort(place)
    # How many columns the k-th term still touches, for every k, counted once.
    highest = int(degree[0]) if degree.numel() else 0
    active = degree.numel() - torch.searchsorted(degree.flip(0), torch.arange(highest + 1))
    # Kernels like whole vectors; columns kept a little too long have zero coefficients.
    widths = (-(-active // LANES) * LANES).clamp(max=count * channels).tolist()

    with scratch(vectors) as take:
        width = count * channels
        total, term, previous, spare = (take(nodes * width) for _ in range(4))
        columns = total.view(nodes, width)
        t, t_before = term.view(nodes, width), previous.view(nodes, width)
        if equations.shared_bias:
            basis = vectors.permute(1, 0, 2).reshape(channels, width)
            torch.mm(equations.bias[0], basis.index_select(1, place), out=t)
        else:
            if vectors.device.type == "cuda":  # one launch for all, at the price of a copy
                side_by_side = torch.bmm(equations.bias, vectors).permute(1, 0, 2)
                columns.view(nodes, count, channels).copy_(side_by_side)
            else:
                for index, part in enumerate(torch.split(columns, channels, dim=1)):
                    torch.mm(equations.bias[index], vectors[index], out=part)
            torch.index_select(columns, 1, place, out=t)
        coefficient = polynomials.block(0, min(BLOCK, highest + 1), order, vectors)
        torch.mul(t, coefficient[0], out=columns)
        for k in range(1, highest + 1):
            if k % BLOCK == 0:
                stop = min(k + BLOCK, highest + 1)
                coefficient = polynomials.block(k, stop, order, vectors)
            if widths[k] < width:
                width = widths[k]
                t, term, spare = _narrow(t, width, spare), spare, term
                if k > 1:
                    t_before, previous, spare = _narrow(t_before, width, spare), spare, previous
                else:
                    t_before = previous[: nodes * width].view(nodes, width)
            if not polynomials.chebyshev:  # P^k c = P P^{k-1} c
                factor, beta = 1.0, 0.0
            elif k == 1:  # T_1(P) c = P c
                factor, beta = 1 / polynomials.bound, 0.0
            else:  # T_k(P) c = 2 P T_{k-1}(P) c - T_{k-2}(P) c
                factor, beta = 2 / polynomials.bound, -1.0
            new = equations.operator.multiply_into(t_before, t, factor, beta)
            t, t_before, term, previous = new, t, previous, term
            columns[:, :width].addcmul_(t, coefficient[k % BLOCK, :width])
        # The columns go back to their equations in the order of the eigenvectors.
        size = nodes * count * channels
        ordered = torch.index_select(columns, 1, back, out=spare[:size].view(nodes, -1))
        if vectors.device.type == "cuda":
            return torch.bmm(ordered.view(nodes, count, channels).permute(1, 0, 2), vectors.mT)
        states = ordered.new_empty(count, nodes, channels)
        for index, part in enumerate(torch.split(ordered, channels, dim=1)):
            torch.mm(part, vectors[index].mT, out=states[index])
        return states


def _narrow(columns: Tensor, width: int, into: Tensor) -> Tensor:
    """Copy the first columns into other memory, where they lie without gaps."""
    rows = columns.size(0)
    return into[: rows * width].view(rows, width).copy_(columns[:, :width])
