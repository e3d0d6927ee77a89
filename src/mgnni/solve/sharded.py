r"""Expansions over several processes.

The decoupled columns :math:`C = B Q` are shared out among the processes of a column axis, which
hold all rows of their part for some of the columns. There the expansion is that of one process,
with products that exchange the borders of the parts and nothing else: no sums over processes, and
no communication at all between columns.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from mgnni.distributed.propagation import ShardedPropagation
from mgnni.solve.equation import one_if_shared
from mgnni.solve.expansion import Expansion
from mgnni.solve.scratch import scratch
from mgnni.solve.sweep import Chebyshev, Series, evaluate


class ShardedSeries(Series):
    """Truncated Neumann series over several processes."""

    def together(self, bias: Tensor, expansion: Expansion) -> tuple[Tensor, list[int]]:
        """Returns the states of this process, and the number of products of each equation."""
        operator = cast(ShardedPropagation, self.equations.operator)
        vectors = self.equations.weights.eigenpairs.vectors
        count, nodes, channels = bias.shape
        degrees = expansion.degree
        # Every process of the column axis takes columns of high and of low degree.
        order = torch.argsort(degrees, descending=True, stable=True)
        place = order.to(vectors.device)
        own, rows = operator.columns.own(order), operator.rows
        width = count * channels
        columns = torch.matmul(one_if_shared(bias), vectors).permute(1, 0, 2).reshape(nodes, width)
        part = operator.columns.to_columns(columns.index_select(1, place))
        with scratch(vectors) as take:
            memory = [take(rows.num_nodes * own.numel()) for _ in range(4)]
            total, c = (one.view(rows.num_nodes, own.numel()) for one in memory[:2])
            c.copy_(part)
            if own.numel():
                evaluate(rows, expansion, own, memory)
            change = operator.columns.to_rows(total, width)
            ordered = change.index_select(1, torch.argsort(place)).view(nodes, count, channels)
        z = torch.baddbmm(bias, ordered.permute(1, 0, 2), vectors.mT)
        return z, degrees.view(count, -1).amax(1).tolist()

    in_panels = together  # every process has few columns already


class ShardedChebyshev(ShardedSeries, Chebyshev):
    """Truncated Chebyshev expansion over several processes."""
