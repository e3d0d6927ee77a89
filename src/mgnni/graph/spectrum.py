"""Eigenpairs of a symmetric operator, graph by graph, in stacks of like size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mgnni.graph.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Block:
    """Eigenpairs of some graphs, each padded to one common size.

    Attributes:
        nodes: node of each row, shape ``(graphs, size)``; padding points at the graph's first.
        eigenvalues: shape ``(graphs, size)``, float64.
        eigenvectors: shape ``(graphs, size, size)``, in the type of the operator, one in each
            column; their rows of padding are zero, so that what stands there does not matter.
    """

    nodes: Tensor
    eigenvalues: Tensor
    eigenvectors: Tensor


@dataclass(frozen=True, eq=False)
class Blocks:
    """Eigenpairs of all graphs.

    Attributes:
        blocks: stacks of graphs of like size.
        place: row of each node among those of all blocks, shape ``(num_nodes,)``.
    """

    blocks: tuple[Block, ...]
    place: Tensor


class Spectrum:
    """Eigenpairs of all graphs of a symmetric operator, found when first asked for."""

    def __init__(self, find: Callable[[], Blocks]) -> None:
        self._find = find

    @cached_property
    def all(self) -> Blocks:
        """The eigenpairs, and where each node stands in them."""
        with torch.inference_mode(False), torch.no_grad():  # what is kept must serve training too
            return self._find()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Stacks of graphs of like size."""
        return self.all.blocks

    @classmethod
    def of(
        cls, pattern: Pattern, values: Tensor, batch: Tensor | None, num_graphs: int
    ) -> Spectrum:
        """The spectrum of the operator with these entries."""
        return cls(lambda: decompose(pattern, values.detach(), batch, num_graphs))


def sides(count: Tensor) -> Tensor:
    """Choose the size to which each graph is padded; zero for one without nodes.

    A side at first doubles at most, so that no graph pays for a much larger one. Stacks are then
    joined where that does not double the work: few large ones are faster than many small ones.
    """
    power = torch.where(count > 0, 2 ** torch.ceil(torch.log2(count.clamp(min=1).double())), 0)
    side = torch.zeros_like(count)
    members, area = torch.zeros_like(count, dtype=torch.bool), 0
    for value in torch.unique(power[power > 0]).tolist():
        new = power == value
        size = int(count[new].max())
        apart = area + int(new.sum()) * size**2
        joined = members | new
        if int(joined.sum()) * size**2 <= 2 * apart:
            members, area = joined, int(joined.sum()) * size**2
        else:
            members, area = new, int(new.sum()) * size**2
        side[members] = size
    return side


def decompose(pattern: Pattern, values: Tensor, batch: Tensor | None, num_graphs: int) -> Blocks:
    """Find the eigenpairs in float64, and round the vectors to the type of the entries."""
    n, device = pattern.num_nodes, values.device
    if batch is None:
        batch, num_graphs = torch.zeros(n, dtype=torch.long, device=device), 1
    count = torch.bincount(batch, minlength=num_graphs)
    order = torch.argsort(batch, stable=True)
    first = torch.cumsum(count, 0) - count
    inside = torch.empty_like(order)  # place of a node in its graph
    inside[order] = torch.arange(n, device=device) - first[batch[order]]
    side = sides(count.cpu()).to(device)
    row, col = pattern.row, pattern.col.long()
    slot = torch.zeros_like(count)
    place = torch.empty_like(order)
    blocks, rows = [], 0
    for size in torch.unique(side).tolist():
        if size == 0:
            continue
        graphs = (side == size).nonzero().squeeze(1)
        slot[graphs] = torch.arange(graphs.numel(), device=device)
        mine = (side[batch] == size).nonzero().squeeze(1)
        nodes = order[first[graphs]].unsqueeze(1).repeat(1, size)
        nodes[slot[batch[mine]], inside[mine]] = mine
        dense = torch.zeros(graphs.numel(), size, size, dtype=torch.float64, device=device)
        entry = (side[batch[row]] == size).nonzero().squeeze(1)
        i, j = row[entry], col[entry]
        dense[slot[batch[i]], inside[i], inside[j]] = values[entry].double()
        eigenvalues, eigenvectors = torch.linalg.eigh(dense)
        real = torch.arange(size, device=device) < count[graphs].unsqueeze(1)
        eigenvectors = (eigenvectors * real.unsqueeze(-1)).to(values.dtype)
        blocks.append(Block(nodes, eigenvalues, eigenvectors))
        place[mine] = rows + slot[batch[mine]] * size + inside[mine]
        rows += graphs.numel() * size
    return Blocks(tuple(blocks), place)
