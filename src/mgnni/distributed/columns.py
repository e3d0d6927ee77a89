"""Two layouts of a matrix: some rows with all columns, or more rows with some of the columns.

Outside of a solve, a process holds all columns at its own nodes. Inside, the processes of a column
axis hold all nodes of their part, each for other columns. The columns are independent there, so
the change of the layout is all they communicate.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from mgnni.distributed.collectives import Exchange


@dataclass(frozen=True, eq=False)
class ColumnAxis:
    """The processes that hold the nodes of a part together.

    Args:
        blocks (list[int]): Number of nodes of each process.
        place (int): Which of them is this process.
        group (ProcessGroup): The processes.
    """

    blocks: list[int]
    place: int
    group: dist.ProcessGroup

    @property
    def size(self) -> int:
        """Number of processes."""
        return len(self.blocks)

    def own(self, columns: Tensor) -> Tensor:
        """Return which of some columns belong to this process: it takes every ``size``-th.

        Shapes:
            - **columns:** ``(columns,)``
        """
        return columns[self.place :: self.size]

    def to_columns(self, x: Tensor) -> Tensor:
        """Exchange the own rows with all columns for all rows with the own columns.

        Args:
            x (Tensor): The rows of this process.

        Shapes:
            - **x:** ``(own_rows, columns)``
            - **output:** ``(rows, own_columns)``
        """
        if self.size == 1:
            return x
        parts = [x[:, place :: self.size].reshape(-1) for place in range(self.size)]
        width = len(range(self.place, x.size(1), self.size))
        received = [count * width for count in self.blocks]
        flat = x.new_empty(sum(received))
        sent = [part.numel() for part in parts]
        Exchange(flat, torch.cat(parts), received, sent, self.group).wait()
        return flat.view(sum(self.blocks), width)

    def to_rows(self, x: Tensor, columns: int) -> Tensor:
        """Undo :meth:`to_columns`.

        Args:
            x (Tensor): All rows, with the columns of this process.
            columns (int): Number of all columns.

        Shapes:
            - **x:** ``(rows, own_columns)``
            - **output:** ``(own_rows, columns)``
        """
        if self.size == 1:
            return x
        rows = self.blocks[self.place]
        widths = [len(range(place, columns, self.size)) for place in range(self.size)]
        received = [rows * width for width in widths]
        flat = x.new_empty(sum(received))
        sent = [count * x.size(1) for count in self.blocks]
        Exchange(flat, x.reshape(-1), received, sent, self.group).wait()
        out = x.new_empty(rows, columns)
        for place, part in enumerate(torch.split(flat, received)):
            out[:, place :: self.size] = part.view(rows, widths[place])
        return out
