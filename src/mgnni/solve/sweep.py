r"""Expansions in the operator: one sweep of products with :math:`P` for all equations.

After decoupling, every column of every equation is a polynomial in :math:`P` applied to its right
hand side, :math:`y_j = \sum_k a_{kj}\, t_k(P)\, c_j`, with a degree that is known in advance.
Columns are sorted by degree, so that the columns still needed always come first. On a CPU they
are processed in panels that fit into its caches; small problems and CUDA devices process all
columns at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from mgnni.distributed.halo import RowShard
from mgnni.graph.propagation import Propagation
from mgnni.kernels.terms import add_terms
from mgnni.solve.certify import frobenius
from mgnni.solve.equation import PANEL, one_if_shared
from mgnni.solve.expansion import BLOCK, Expansion, chebyshev, neumann
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.scratch import scratch

LANES = 8  # columns are dropped in groups of this size, except the last group
SMALL = 2**18  # numbers in a state up to which panels cost more calls than they save
KEPT = 4  # expansions kept for other tolerances
EARLY = 4  # first term after which to check whether the remaining terms are known


class Series(Method):
    """Truncated Neumann series, for any operator and symmetric weights."""

    name = "series"
    needs_symmetric_weight = True

    def expand(self, tol: float, max_iter: int) -> Expansion:
        """Returns the expansion of every column."""
        return neumann(self.equations, tol, max_iter)

    def iterations(self, degrees: Tensor) -> Tensor:
        """Returns the number of terms; each takes as many products as the scale."""
        return degrees // torch.tensor(self.equations.scales).unsqueeze(1)

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Sums as many terms as the proven bounds ask for."""
        if (tol, max_iter) not in self.expansions:
            if len(self.expansions) == KEPT:
                del self.expansions[next(iter(self.expansions))]  # the oldest
            self.expansions[tol, max_iter] = self.expand(tol, max_iter)
        expansion = self.expansions[tol, max_iter]
        # The choice depends on one equation alone, not on what is solved beside it.
        panels = bias.device.type == "cpu" and bias[0].numel() > SMALL
        z, degrees = (self.in_panels if panels else self.together)(bias, expansion)
        steps = self.iterations(torch.tensor(degrees).unsqueeze(1))
        steps = steps.expand(-1, self.equations.operator.num_graphs)
        return Proposal(z, steps, expansion.truncated)

    def in_panels(self, bias: Tensor, expansion: Expansion) -> tuple[Tensor, list[int]]:
        """Processes every equation separately, some columns at a time.

        Returns the states, and the number of products of each equation.
        """
        equations = self.equations
        count, nodes, channels = bias.shape
        vectors = equations.weights.eigenpairs.vectors
        degree = expansion.degree.view(count, channels)
        steps = [0] * count
        with scratch(vectors) as take:
            memory = [take(nodes * PANEL) for _ in range(4)]
            states = bias.clone(memory_format=torch.contiguous_format)
            for index in range(count):
                for panel in _panels(degree[index], expansion.tail is not None):
                    # Zero columns fill up the last group, because kernels prefer whole vectors.
                    extra = -panel.numel() % LANES if panel.numel() > 1 else 0
                    basis = pad(vectors[index][:, panel], (0, extra))
                    columns = index * channels + pad(panel, (0, extra), value=int(panel[-1]))
                    total, c = (shaped(one, nodes, basis.size(1)) for one in memory[:2])
                    torch.mm(bias[index], basis, out=c)
                    scale = equations.scales[index]
                    taken = evaluate(equations.operator, expansion, columns, memory, scale)
                    steps[index] = max(steps[index], taken)
                    states[index].addmm_(total, basis.mT)
            return states, steps

    def together(self, bias: Tensor, expansion: Expansion) -> tuple[Tensor, list[int]]:
        """Processes all columns of all equations side by side: few calls, each of much work.

        Returns the states, and the number of products of each equation.
        """
        operator, vectors = self.equations.operator, self.equations.weights.eigenpairs.vectors
        count, nodes, channels = bias.shape
        order = torch.argsort(expansion.degree, descending=True, stable=True)
        place = order.to(vectors.device)
        back = torch.argsort(place)
        width = count * channels
        shared = one_if_shared(bias)
        with scratch(vectors) as take:
            memory = [take(nodes * width) for _ in range(4)]
            columns, c, before, spare = (one.view(nodes, width) for one in memory)
            if len(shared) == 1:
                basis = vectors.permute(1, 0, 2).reshape(channels, width)
                torch.mm(shared[0], basis.index_select(1, place), out=c)
            else:
                side_by_side = torch.bmm(bias, vectors).permute(1, 0, 2)
                columns.view(nodes, count, channels).copy_(side_by_side)
                torch.index_select(columns, 1, place, out=c)
            if c.is_cuda and operator.pattern.lines.fit(operator.values, c):
                add_terms_of(operator, expansion, order, (columns, c, before))
            else:
                evaluate(operator, expansion, order, memory)
            # Restore the order of the eigenvectors.
            ordered = torch.index_select(columns, 1, back, out=spare)
            change = ordered.view(nodes, count, channels).permute(1, 0, 2)
            z = torch.baddbmm(bias, change, vectors.mT)
        return z, expansion.degree.view(count, -1).amax(1).tolist()


class Chebyshev(Series):
    """Truncated Chebyshev expansion, for a symmetric operator and symmetric weights."""

    name = "chebyshev"
    needs_symmetric_operator = True

    def expand(self, tol: float, max_iter: int) -> Expansion:
        """Returns the expansion of every column."""
        return chebyshev(self.equations, tol, max_iter)

    def iterations(self, degrees: Tensor) -> Tensor:
        """Returns the degrees."""
        return degrees

    def budget(self, steps: int) -> int:
        """Returns the number of products that the steps take at the largest scale."""
        return steps * max(self.equations.scales)


def _panels(degree: Tensor, separate: bool) -> list[Tensor]:
    """Columns of one equation by falling degree; few slow ones separately, if others end early."""
    order = torch.argsort(degree, descending=True, stable=True)
    slow = int((degree > 2 * degree.median()).sum()) if separate else 0
    slow = slow if slow <= LANES else 0
    parts = [order[:slow], *torch.split(order[slow:], PANEL)]
    return [part for part in parts if part.numel()]


def add_terms_of(
    operator: Propagation, expansion: Expansion, order: Tensor, memory: tuple[Tensor, ...]
) -> None:
    """As :func:`evaluate`, by one CUDA kernel per term; matrices ``(num_nodes, columns)``."""
    total, t, t_before = memory
    widths = _widths(expansion.degree[order], 1)
    coefficient = expansion.terms(order, total)
    torch.mul(t, coefficient(0) - 1, out=total)
    matrix = operator.pattern.lines, operator.values.detach()
    add_terms(*matrix, t, t_before, total, widths, coefficient, expansion.step)


def _widths(degree: Tensor, lanes: int) -> list[int]:
    """Number of columns that term ``k`` is needed by, for every ``k``; degrees are falling."""
    highest = int(degree[0]) if degree.numel() else 0
    active = degree.numel() - torch.searchsorted(degree.flip(0), torch.arange(highest + 1))
    # Columns that are kept longer than needed have zero coefficients.
    whole = torch.where(active > 1, -(-active // lanes) * lanes, active)
    widths: list[int] = whole.clamp(max=degree.numel()).tolist()
    return widths


def evaluate(
    operator: Propagation | RowShard,
    expansion: Expansion,
    order: Tensor,
    memory: Sequence[Tensor],
    scale: int = 0,
) -> int:
    """Applies the expansions of some columns, minus the identity: the change of the bias.

    The change is smaller than the states, and so is its rounding. Returns the number of products.

    Args:
        operator (Propagation or RowShard): The operator.
        expansion (Expansion): The expansions of all columns.
        order (Tensor): The columns to process, with falling degrees.
        memory (Sequence[Tensor]): Four matrices: one for the result, one with the right-hand
            sides, which is overwritten, and two for further terms.
        scale (int, optional): The scale of all these columns, if the series may end before its
            degree. (default: :obj:`0`)

    Shapes:
        - **order:** ``(columns,)``
        - **memory:** ``(num_nodes, columns)`` each, or larger
    """
    nodes, width = operator.num_nodes, order.numel()
    total, t, t_before, spare = (shaped(one, nodes, width) for one in memory)
    widths = _widths(expansion.degree[order], LANES)
    highest = len(widths) - 1
    coefficient = expansion.terms(order, total)
    torch.mul(t, coefficient(0) - 1, out=total)
    part = total  # the remaining columns
    # The graphs of a batch would wait for one another, and so depend on each other.
    tail = expansion.tail if scale and operator.batch is None else None
    size = t if tail is None else frobenius(operator, t)
    for k in range(1, highest + 1):
        if widths[k] < width:
            width = widths[k]
            part = total[:, :width]
            t, spare = _narrow(t, width, spare), t
            if k > 1:
                t_before, spare = _narrow(t_before, width, spare), t_before
            else:
                t_before = shaped(t_before, nodes, width)
        if width == 1 and not expansion.chebyshev and memory[1].numel() >= LANES * nodes > 0:
            limit = (scale, tail.tol * float(size) * total.size(1) ** -0.5) if tail else (0, 0.0)
            column, t = int(order[0]), t.clone()
            return _last_column(operator, expansion, column, k, t, total[:, 0], memory[1], *limit)
        factor, beta = expansion.step(k)
        t, t_before = operator.multiply_into(t_before, t, factor, beta), t
        row = coefficient(k)[:width]
        part.addcmul_(t, row)
        if tail is None or k % scale or k < EARLY * scale or k == highest:
            continue
        if width > LANES or k % (EARLY * scale) == 0:  # the check costs one or two passes
            rest = tail.ratio[order[:width]].to(row) * row
            change = torch.sub(t, t_before, out=shaped(spare, nodes, width)).mul_(rest)
            # The remaining columns get their share of the tolerance.
            share = tail.tol * (width / total.size(1)) ** 0.5
            if bool((scale * frobenius(operator, change) <= share * size).all()):
                part.addcmul_(t, rest)
                return k
    return highest


def _last_column(
    operator: Propagation | RowShard,
    expansion: Expansion,
    column: int,
    k: int,
    t: Tensor,
    total: Tensor,
    room: Tensor,
    scale: int,
    limit: float,
) -> int:
    """Continues the series of one column: terms are stored, and added by one product.

    A product with one column takes hardly longer than a call, so the number of calls matters.

    Args:
        operator (Propagation or RowShard): The operator.
        expansion (Expansion): The expansions of all columns.
        column (int): The column.
        k (int): Index of the next term.
        t (Tensor): The previous term.
        total (Tensor): The sum so far.
        room (Tensor): Memory for the terms.
        scale (int): The scale of the column, if the series may end before its degree.
        limit (float): Residual at which it may.
    """
    nodes, tail = t.numel(), expansion.tail
    highest, (factor, _) = int(expansion.degree[column]), expansion.step(k)
    ratio = 0.0 if tail is None else float(tail.ratio[column])
    terms = shaped(room, min(room.numel() // nodes, BLOCK), nodes)
    rows = terms.unsqueeze(-1).unbind()
    while k <= highest:
        count = min(len(rows), highest + 1 - k)
        weight = expansion.block(k, k + count, torch.tensor([column]), total).squeeze(1)
        size = weight.abs().tolist()
        for place in range(count):
            t = operator.multiply_into(rows[place], t, factor)
            if not scale or (k + place) % (EARLY * scale) or place < scale or k + place == highest:
                continue
            # Stop if the terms are multiples of one another, or if the rest is negligible.
            change = size[place] * abs(ratio) * float(torch.dist(t, rows[place - scale]))
            left = size[place] * abs(ratio / (1 + ratio)) * float(t.norm())
            if min(change, left) <= limit:
                weight[place] *= 1 + ratio if change < left else 1
                total.addmv_(terms[: place + 1].T, weight[: place + 1])
                return k + place
        total.addmv_(terms[:count].T, weight)
        k += count
    return highest


def shaped(memory: Tensor, rows: int, width: int) -> Tensor:
    """The beginning of other memory as a contiguous matrix."""
    return memory.view(-1)[: rows * width].view(rows, width)


def _narrow(columns: Tensor, width: int, into: Tensor) -> Tensor:
    """Copies the first columns into other memory, where they are contiguous."""
    return shaped(into, columns.size(0), width).copy_(columns[:, :width])
