r"""All equations of a stack by sweeps of products with :math:`P`, finished columns dropped.

After decoupling, every column of every equation is a polynomial in :math:`P` applied to its right
hand side, :math:`y_j = \sum_k a_{kj}\, t_k(P)\, c_j`, with a degree that is known in advance.
Columns are ordered by degree, so those still needed always stand in front. On a CPU they are
swept in panels that stay in its caches; an accelerator, and a small problem, takes all at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from mgnni.kernels.terms import add_terms
from mgnni.solve.certify import frobenius
from mgnni.solve.equation import PANEL, Equations
from mgnni.solve.operator import Operator
from mgnni.solve.polynomials import BLOCK, Polynomials
from mgnni.solve.scratch import scratch

LANES = 8  # columns are dropped in groups of this size, but for the last one
SMALL = 2**18  # numbers in a state, up to which more calls cost more than panels save
EARLY = 4  # the first term after which to look whether the others are known


def sweep(equations: Equations, polynomials: Polynomials) -> tuple[Tensor, list[int]]:
    """Apply the polynomials.

    Returns:
        The states, shape ``(equations, nodes, channels)``, and the products taken by the slowest
        column of each equation.
    """
    # By the size of one equation: whoever else is solved for decides nothing.
    if equations.bias.device.type == "cpu" and equations.bias[0].numel() > SMALL:
        return _in_panels(equations, polynomials)
    degrees: list[int] = polynomials.degree.view(len(equations), -1).amax(1).tolist()
    return _together(equations, polynomials), degrees


def _in_panels(equations: Equations, polynomials: Polynomials) -> tuple[Tensor, list[int]]:
    """Every equation by itself, some columns at a time."""
    count, nodes, channels = equations.bias.shape
    vectors = equations.weights.decoupling.eigenvectors
    degree = polynomials.degree.view(count, channels)
    steps = [0] * count
    with scratch(vectors) as take:
        memory = [take(nodes * PANEL) for _ in range(4)]
        states = equations.bias.clone(memory_format=torch.contiguous_format)
        for index in range(count):
            for panel in _panels(degree[index], polynomials.tail is not None):
                # Kernels like whole vectors: columns of zeros fill the last one up.
                extra = -panel.numel() % LANES if panel.numel() > 1 else 0
                basis = pad(vectors[index][:, panel], (0, extra))
                columns = index * channels + pad(panel, (0, extra), value=int(panel[-1]))
                total, c = (_shaped(one, nodes, basis.size(1)) for one in memory[:2])
                torch.mm(equations.bias[index], basis, out=c)
                scale = equations.scales[index]
                taken = _evaluate(equations.operator, polynomials, columns, memory, scale)
                steps[index] = max(steps[index], taken)
                states[index].addmm_(total, basis.mT)
        return states, steps


def _panels(degree: Tensor, apart: bool) -> list[Tensor]:
    """The columns of one equation by falling degree; few slow ones apart, if others end early."""
    order = torch.argsort(degree, descending=True, stable=True)
    slow = int((degree > 2 * degree.median()).sum()) if apart else 0
    slow = slow if slow <= LANES else 0
    parts = [order[:slow], *torch.split(order[slow:], PANEL)]
    return [part for part in parts if part.numel()]


def _together(equations: Equations, polynomials: Polynomials) -> Tensor:
    """All columns of all equations side by side: few calls, each of much work."""
    count, nodes, channels = equations.bias.shape
    vectors = equations.weights.decoupling.eigenvectors
    order = torch.argsort(polynomials.degree, descending=True, stable=True)
    place = order.to(vectors.device)
    back = torch.argsort(place)
    width = count * channels
    with scratch(vectors) as take:
        memory = [take(nodes * width) for _ in range(4)]
        columns, c, before, spare = (one.view(nodes, width) for one in memory)
        if equations.shared_bias:
            basis = vectors.permute(1, 0, 2).reshape(channels, width)
            torch.mm(equations.bias[0], basis.index_select(1, place), out=c)
        else:  # one call for all, at the price of a copy
            side_by_side = torch.bmm(equations.bias, vectors).permute(1, 0, 2)
            columns.view(nodes, count, channels).copy_(side_by_side)
            torch.index_select(columns, 1, place, out=c)
        operator = equations.operator
        if operator.pattern.lines.fit(operator.values, c):
            _add_terms(operator, polynomials, order, (columns, c, before))
        else:
            _evaluate(operator, polynomials, order, memory)
        # The columns go back to their equations in the order of the eigenvectors.
        ordered = torch.index_select(columns, 1, back, out=spare)
        change = ordered.view(nodes, count, channels).permute(1, 0, 2)
        return torch.baddbmm(equations.bias, change, vectors.mT)


def _add_terms(
    operator: Operator, polynomials: Polynomials, order: Tensor, memory: tuple[Tensor, ...]
) -> None:
    """As :func:`_evaluate`, by a kernel that passes over memory once a term."""
    total, t, t_before = memory
    widths = _widths(polynomials.degree[order], 1)
    blocks: dict[int, Tensor] = {}

    def coefficient(k: int) -> Tensor:
        start = k - k % BLOCK
        if start not in blocks:
            blocks.clear()
            stop = min(start + BLOCK, len(widths))
            blocks[start] = polynomials.block(start, stop, order, total)
        return blocks[start][k - start]

    torch.mul(t, coefficient(0) - 1, out=total)
    matrix = operator.pattern.lines, operator.values.detach()
    add_terms(*matrix, t, t_before, total, widths, coefficient, polynomials.step)


def _widths(degree: Tensor, lanes: int) -> list[int]:
    """How many columns the k-th term still touches, for every k; degrees are falling."""
    highest = int(degree[0]) if degree.numel() else 0
    active = degree.numel() - torch.searchsorted(degree.flip(0), torch.arange(highest + 1))
    # Columns kept a little too long have zero coefficients.
    whole = torch.where(active > 1, -(-active // lanes) * lanes, active)
    widths: list[int] = whole.clamp(max=degree.numel()).tolist()
    return widths


def _evaluate(
    operator: Operator,
    polynomials: Polynomials,
    order: Tensor,
    memory: Sequence[Tensor],
    scale: int = 0,
) -> int:
    """Apply the polynomials of some columns, less one: what is to be added to the bias.

    That is smaller than the states, and so is its rounding. Returns the products taken.

    Args:
        operator: the operator.
        polynomials: those of all columns.
        order: the columns to take, their degrees falling.
        memory: of four matrices, at least: for the result, with the right hand sides, which are
            lost, and for more terms.
        scale: that of all these columns, if a series may end before its degree.
    """
    nodes, width = operator.num_nodes, order.numel()
    total, t, t_before, spare = (_shaped(one, nodes, width) for one in memory)
    widths = _widths(polynomials.degree[order], LANES)
    highest = len(widths) - 1
    rows = polynomials.block(0, min(BLOCK, highest + 1), order, total).unbind()
    torch.mul(t, rows[0] - 1, out=total)
    part = total  # of the columns left
    # Graphs of a batch would wait for one another, and so depend on their company.
    tail = polynomials.tail if scale and operator.batch is None else None
    size = t if tail is None else frobenius(operator, t)
    for k in range(1, highest + 1):
        if k % BLOCK == 0:
            rows = polynomials.block(k, min(k + BLOCK, highest + 1), order, total).unbind()
        if widths[k] < width:
            width = widths[k]
            part = total[:, :width]
            t, spare = _narrow(t, width, spare), t
            if k > 1:
                t_before, spare = _narrow(t_before, width, spare), t_before
            else:
                t_before = _shaped(t_before, nodes, width)
        if width == 1 and not polynomials.chebyshev and memory[1].numel() >= LANES * nodes:
            known = (scale, tail.tol * float(size) * total.size(1) ** -0.5) if tail else (0, 0.0)
            column, t = int(order[0]), t.clone()
            return _alone(operator, polynomials, column, k, t, total[:, 0], memory[1], *known)
        factor, beta = polynomials.step(k)
        t, t_before = operator.multiply_into(t_before, t, factor, beta), t
        row = rows[k % BLOCK][:width]
        part.addcmul_(t, row)
        if tail is None or k % scale or k < EARLY * scale or k == highest:
            continue
        if width > LANES or k % (EARLY * scale) == 0:  # a look costs a pass or two
            rest = tail.ratio[order[:width]].to(row) * row
            change = torch.sub(t, t_before, out=_shaped(spare, nodes, width)).mul_(rest)
            # The columns left are held to their share, as if all were alike.
            share = tail.tol * (width / total.size(1)) ** 0.5
            if bool((scale * frobenius(operator, change) <= share * size).all()):
                part.addcmul_(t, rest)
                return k
    return highest


def _alone(
    operator: Operator,
    polynomials: Polynomials,
    column: int,
    k: int,
    t: Tensor,
    total: Tensor,
    room: Tensor,
    scale: int,
    limit: float,
) -> int:
    """Go on with the series of one column: terms are kept, and added up by one product.

    A product with one column takes hardly longer than a call, so it is calls that count.

    Args:
        operator: the operator.
        polynomials: those of all columns.
        column: which one it is.
        k: number of the next term.
        t: the term before.
        total: what terms are added to.
        room: memory for them.
        scale: that of the column, if the series may end before its degree.
        limit: residual at which it may.
    """
    nodes, tail = t.numel(), polynomials.tail
    highest = int(polynomials.degree[column])
    ratio = 0.0 if tail is None else float(tail.ratio[column])
    terms = _shaped(room, min(room.numel() // nodes, BLOCK), nodes)
    rows = terms.unsqueeze(-1).unbind()
    while k <= highest:
        count = min(len(rows), highest + 1 - k)
        weight = polynomials.block(k, k + count, torch.tensor([column]), total).squeeze(1)
        size = weight.abs().tolist()
        for place in range(count):
            t = operator.multiply_into(rows[place], t)
            if not scale or (k + place) % (EARLY * scale) or place < scale or k + place == highest:
                continue
            # Terms that have become alike go on so; terms that are small enough may be left out.
            change = size[place] * abs(ratio) * float(torch.dist(t, rows[place - scale]))
            left = size[place] * abs(ratio / (1 + ratio)) * float(t.norm())
            if min(change, left) <= limit:
                weight[place] *= 1 + ratio if change < left else 1
                total.addmv_(terms[: place + 1].T, weight[: place + 1])
                return k + place
        total.addmv_(terms[:count].T, weight)
        t = t.clone()  # its memory is needed again
        k += count
    return highest


def _shaped(memory: Tensor, rows: int, width: int) -> Tensor:
    """The beginning of other memory as a matrix without gaps."""
    return memory.view(-1)[: rows * width].view(rows, width)


def _narrow(columns: Tensor, width: int, into: Tensor) -> Tensor:
    """Copy the first columns into other memory, where they lie without gaps."""
    return _shaped(into, columns.size(0), width).copy_(columns[:, :width])
