"""Which process holds which nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, MgnniError, check_choice
from mgnni.graph.csr import Pattern

PARTITIONS = ("order", "metis")


def partition(pattern: Pattern, parts: int, method: str = "order") -> Tensor:
    """Divide the nodes of a graph into parts of about equal size.

    Args:
        pattern (Pattern): The edges of the graph.
        parts (int): Number of parts.
        method (str, optional): ``"order"`` takes the nodes in their order, ``"metis"`` looks for
            parts with few edges between them, and needs pymetis. (default: :obj:`"order"`)

    Shapes:
        - **output:** ``(num_nodes,)``, the part of each node
    """
    check_choice("partition", method, PARTITIONS)
    if method == "metis" and parts > 1 and pattern.num_nodes:
        return _metis(pattern, parts)
    return torch.arange(pattern.num_nodes) * parts // max(pattern.num_nodes, 1)


def _metis(pattern: Pattern, parts: int) -> Tensor:
    try:
        import pymetis
    except ImportError as error:
        raise MgnniError(
            "'partition' metis needs pymetis (got an environment without it); run: pip install "
            "'mgnni[metis]', or use partition='order'"
        ) from error
    # METIS wants undirected graphs without self-loops.
    row, col = pattern.row.cpu(), pattern.col.long().cpu()
    size = pattern.num_nodes
    both = torch.cat([row * size + col, col * size + row])
    ends = torch.unique(both[torch.cat([row != col] * 2)])
    count = torch.bincount(ends // size, minlength=size)
    crow = torch.nn.functional.pad(count.cumsum(0), (1, 0))
    graph = pymetis.CSRAdjacency(crow.numpy(), (ends % size).numpy())
    _, found = pymetis.part_graph(parts, graph, options=pymetis.Options(seed=0))
    return torch.tensor(found)


class Layout:
    """The nodes sorted by part, and within a part shared out to the processes that hold it.

    Args:
        part (Tensor): The part of each node.
        rows (int): Number of parts.
        columns (int): Number of processes that hold a part; each has a block of its nodes.

    Attributes:
        order (Tensor): The nodes, sorted by part.
        place (Tensor): The place of each node in this order.
        sizes (list[int]): Number of nodes of each part.

    Shapes:
        - **part, order, place:** ``(num_nodes,)``
    """

    def __init__(self, part: Tensor, rows: int, columns: int) -> None:
        if part.dim() != 1 or part.is_floating_point():
            raise ArgumentError(
                f"'partition' must hold one integer per node (got {part.dtype}, shape "
                f"{tuple(part.shape)}); pass the part of each node, or the name of a method"
            )
        if part.numel() and not 0 <= int(part.min()) <= int(part.max()) < rows:
            raise ArgumentError(
                f"'partition' must hold numbers from 0 to {rows - 1}, one part for each row of "
                f"the mesh (got {int(part.min())} to {int(part.max())})"
            )
        self.part, self.columns = part.cpu().long(), columns
        self.order = torch.argsort(self.part, stable=True)
        self.place = torch.argsort(self.order)
        self.sizes: list[int] = torch.bincount(self.part, minlength=rows).tolist()

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all parts."""
        return self.part.numel()

    def start(self, row: int) -> int:
        """Return the first place of a part."""
        return sum(self.sizes[:row])

    def blocks(self, row: int) -> list[int]:
        """Return the number of nodes of each process that holds a part."""
        size, count = self.sizes[row], self.columns
        return [size * (i + 1) // count - size * i // count for i in range(count)]

    def nodes(self, row: int, column: int) -> Tensor:
        """Return the nodes of a process, shape ``(num_local_nodes,)``."""
        blocks = self.blocks(row)
        start = self.start(row) + sum(blocks[:column])
        return self.order[start : start + blocks[column]]
