"""Sweeps over large graphs: one look at the degrees of all columns, and then term by term.

A launch is nothing here beside its work, so that no more is moved than has to be: columns stand by
falling degree, and those that are left after the first terms are moved together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mgnni.kernels.launches import Table
from mgnni.kernels.terms import add_terms
from mgnni.solve.polynomials import recurrence

if TYPE_CHECKING:
    from mgnni.solve.equation import Equations


@dataclass(frozen=True, eq=False)
class Order:
    """The polynomials of a table by falling degree."""

    coefficient: Tensor  # shape: (terms, width)
    place: Tensor  # columns that stand equation by equation, in this order
    back: Tensor
    widths: list[int]  # how many columns a term is needed by


def by_degree(table: Table) -> Order:
    """Look at the degrees, and order the columns by them."""
    width, equations = table.columns.numel(), table.needed.numel()
    ranked = torch.arange(width).view(-1, equations).T.flatten()  # equation by equation
    degrees = table.columns.cpu()[ranked]
    place = torch.argsort(degrees, descending=True, stable=True)
    widths: list[int] = torch.bincount(degrees).flip(0).cumsum(0).flip(0).tolist()
    sent = torch.stack([place, torch.argsort(place), ranked[place]]).to(table.columns.device)
    return Order(table.coefficient.index_select(1, sent[2]), sent[0], sent[1], widths)


def sweep_by_terms(
    equations: Equations, bias: Tensor, vectors: Tensor, order: Order, bound: float
) -> Tensor:
    """Return the states.

    Shapes:
        - **bias:** ``(1 or equations, num_nodes, channels)``
        - **vectors:** ``(equations, channels, padded)``
    """
    operator = equations.operator
    count, h, wide = vectors.shape
    nodes = bias.size(1)
    if len(bias) == 1:
        basis = vectors.permute(1, 0, 2).reshape(h, -1)
        columns = bias[0] @ basis.index_select(1, order.place)
    else:
        side_by_side = bias.new_empty(nodes, count, wide)
        for i in range(count):
            torch.mm(bias[i], vectors[i], out=side_by_side[:, i])
        columns = side_by_side.view(nodes, -1).index_select(1, order.place)
        del side_by_side  # as large as the states
    total = order.coefficient[0] * columns
    add_terms(
        operator.pattern.lines,
        operator.values.detach(),
        columns,
        torch.empty_like(columns),
        total,
        order.widths,
        order.coefficient.__getitem__,
        partial(recurrence, chebyshev=operator.symmetric, bound=bound),
    )
    del columns
    ordered = total.index_select(1, order.back).view(nodes, count, wide)
    return torch.bmm(ordered.permute(1, 0, 2), vectors.mT)
