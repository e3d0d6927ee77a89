"""Eigenpairs of a symmetric operator, graph by graph, in stacks of equal size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.graph.pattern import Pattern


@dataclass(frozen=True, eq=False)
class Block:
    """Eigenpairs of some graphs, each padded with zeros to one common size.

    Attributes:
        nodes: node of each row, shape ``(graphs, size)``; padding points at ``num_nodes``.
        eigenvalues: shape ``(graphs, size)``, float64.
        eigenvectors: shape ``(graphs, size, size)``, float64, one in each column.
    """

    nodes: Tensor
    eigenvalues: Tensor
    eigenvectors: Tensor


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenpairs of all graphs of a symmetric operator."""

    blocks: tuple[Block, ...]
    num_nodes: int

    @classmethod
    def of(
        cls, pattern: Pattern, values: Tensor, batch: Tensor | None, num_graphs: int
    ) -> Spectrum:
        """Decompose the operator with these entries; graphs of like size go together."""
        n, device = pattern.num_nodes, values.device
        if batch is None:
            batch, num_graphs = torch.zeros(n, dtype=torch.long, device=device), 1
        count = torch.bincount(batch, minlength=num_graphs)
        first = torch.cumsum(count, 0) - count
        place = torch.empty(n, dtype=torch.long, device=device)  # of a node inside its graph
        order = torch.argsort(batch, stable=True)
        place[order] = torch.arange(n, device=device) - first[batch[order]]
        # Padding at most doubles a side, so no graph pays for a much larger one.
        side = torch.where(count > 0, 2 ** torch.ceil(torch.log2(count.clamp(min=1).double())), 0)
        blocks = []
        for power in torch.unique(side).tolist():
            if power == 0:
                continue
            graphs = (side == power).nonzero().squeeze(1)
            size = int(count[graphs].max())
            slot = torch.full((num_graphs,), -1, dtype=torch.long, device=device)
            slot[graphs] = torch.arange(graphs.numel(), device=device)
            nodes = torch.full((graphs.numel(), size), n, dtype=torch.long, device=device)
            mine = (slot[batch] >= 0).nonzero().squeeze(1)
            nodes[slot[batch[mine]], place[mine]] = mine
            dense = torch.zeros(graphs.numel(), size, size, dtype=torch.float64, device=device)
            row, col = pattern.row, pattern.col.long()
            entry = slot[batch[row]] >= 0
            row, col = row[entry], col[entry]
            dense[slot[batch[row]], place[row], place[col]] = values.detach()[entry].double()
            eigenvalues, eigenvectors = torch.linalg.eigh(dense)
            blocks.append(Block(nodes, eigenvalues, eigenvectors))
        return cls(tuple(blocks), n)
