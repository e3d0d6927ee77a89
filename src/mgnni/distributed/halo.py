r"""Some rows of a sparse matrix, and the exchange of states at their borders.

A process holds the rows :math:`r` of :math:`P`. Their columns are nodes of its own, or nodes of
other processes that they read, the *halo*:

.. math::  (P X)_r = P_{rr} X_r + P_{r,halo} X_{halo}.

Which rows to send and to receive follows from the pattern and never changes. The first product
needs no other process, and is computed while the rows of the halo are on their way.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from mgnni.distributed.collectives import Exchange
from mgnni.distributed.partition import Layout
from mgnni.graph.csr import Pattern, SparseMatrix, csr


class RowShard(SparseMatrix):
    """The rows of a square matrix that belong to one part of the nodes.

    Args:
        pattern (Pattern): The entries between nodes of this part.
        values (Tensor): Their values.
        halo (Tensor): The entries that read nodes of other parts, sparse CSR; one column for each
            of these nodes, sorted by part.
        sent (Tensor): The nodes of this part that others read, sorted by reader.
        sent_counts (list[int]): Number of nodes that each part reads.
        halo_counts (list[int]): Number of nodes that are read of each part.
        group (ProcessGroup): The processes that hold the parts, in order.

    Shapes:
        - **values:** ``(nnz,)``
        - **halo:** ``(num_nodes, halo_nodes)``
        - **sent:** ``(sent_nodes,)``
    """

    batch: Tensor | None = None
    num_graphs = 1

    def __init__(
        self,
        pattern: Pattern,
        values: Tensor,
        halo: Tensor,
        sent: Tensor,
        sent_counts: list[int],
        halo_counts: list[int],
        group: dist.ProcessGroup,
    ) -> None:
        super().__init__(pattern, values)
        self.halo, self.sent, self.group = halo, sent, group
        self.sent_counts, self.halo_counts = sent_counts, halo_counts

    @classmethod
    @torch.inference_mode(False)
    def from_whole(
        cls, whole: SparseMatrix, layout: Layout, row: int, group: dist.ProcessGroup
    ) -> RowShard:
        """Take the rows of a part out of the whole matrix.

        Args:
            whole (SparseMatrix): The whole matrix.
            layout (Layout): The nodes of each part.
            row (int): The part.
            group (ProcessGroup): The processes that hold the parts, in order.
        """
        part, place = layout.part.to(whole.device), layout.place.to(whole.device)
        reader, read = whole.pattern.row, whole.pattern.col.long()
        # What crosses the border of a part: its number, and the place of the node that it reads.
        # Sorting by place also sorts by the part of that node.
        crossing = part[reader] != part[read]
        pairs = torch.unique((part[reader] * layout.num_nodes + place[read])[crossing])
        by, of = pairs // max(layout.num_nodes, 1), pairs % max(layout.num_nodes, 1)
        owner = part[layout.order.to(whole.device)][of]
        start, size, parts = layout.start(row), layout.sizes[row], len(layout.sizes)
        mine = by == row
        halo, sent = of[mine], of[owner == row] - start
        halo_counts: list[int] = torch.bincount(owner[mine], minlength=parts).tolist()
        sent_counts: list[int] = torch.bincount(by[owner == row], minlength=parts).tolist()

        inside = (part[reader] == row) & ~crossing
        outside = (part[reader] == row) & crossing
        values = whole.values.detach()
        rows, cols = place[reader[inside]] - start, place[read[inside]] - start
        order = torch.argsort(rows * max(size, 1) + cols)
        pattern = Pattern.from_sorted(rows[order], cols[order], size)
        border = place[reader[outside]] - start
        cols = torch.searchsorted(halo, place[read[outside]])
        by_row = torch.argsort(border * max(halo.numel(), 1) + cols)
        crow = torch.nn.functional.pad(torch.bincount(border, minlength=size).cumsum(0), (1, 0))
        matrix = csr(
            crow.to(pattern.crow.dtype),
            cols[by_row].to(pattern.crow.dtype),
            values[outside][by_row],
            (size, halo.numel()),
        )
        return cls(pattern, values[inside][order], matrix, sent, sent_counts, halo_counts, group)

    def on(self, device: torch.device) -> RowShard:
        """Return the rows on a device."""
        plan = self.sent_counts, self.halo_counts, self.group
        return RowShard(
            self.pattern.to(device),
            self.values.to(device),
            self.halo.to(device),
            self.sent.to(device),
            *plan,
        )

    def to(self, dtype: torch.dtype) -> RowShard:
        """Return the rows in another dtype."""
        return self._with(self.values.to(dtype), self.halo.values().to(dtype))

    def magnitude(self) -> RowShard:
        """Return the rows with the absolute values, in float64."""
        return self._with(self.values.abs().double(), self.halo.values().abs().double())

    @torch.inference_mode(False)
    def _with(self, values: Tensor, halo: Tensor) -> RowShard:
        """Return the rows with other values, inside of the part and in the halo."""
        count, width = self.halo.shape
        matrix = csr(self.halo.crow_indices(), self.halo.col_indices(), halo, (count, width))
        plan = self.sent, self.sent_counts, self.halo_counts, self.group
        return RowShard(self.pattern, values, matrix, *plan)

    def multiply(self, x: Tensor) -> Tensor:
        """Return ``P x``, outside of autograd."""
        return self.multiply_into(torch.empty_like(x), x)

    def multiply_into(
        self, out: Tensor, x: Tensor, factor: float = 1.0, beta: float = 0.0
    ) -> Tensor:
        """Overwrite ``out`` with ``factor * P x + beta * out`` and return it."""
        width = x.size(1)
        if len(self.halo_counts) == 1 or width == 0:
            return super().multiply_into(out, x, factor, beta)
        arriving = x.new_empty(self.halo.size(1), width)
        leaving = x.index_select(0, self.sent)
        exchange = Exchange(arriving, leaving, self.halo_counts, self.sent_counts, self.group)
        super().multiply_into(out, x, factor, beta)
        arrived = exchange.wait()
        if arrived.numel():
            out.addmm_(self.halo, arrived, beta=1.0, alpha=factor)
        return out
