"""Eigenpairs of a symmetric operator per graph, in blocks of graphs of similar size."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.graph.csr import Pattern


@dataclass(frozen=True, eq=False)
class Block:
    """Eigenpairs of some graphs, each padded to a common size.

    Attributes:
        nodes (Tensor): Node of each row, shape ``(graphs, size)``. Padding refers to the first
            node of the graph.
        eigenvalues (Tensor): Shape ``(graphs, count)``, float64.
        eigenvectors (Tensor): Shape ``(graphs, size, count)``, one eigenvector per column, in the
            dtype of the operator. Padded rows are zero.
    """

    nodes: Tensor
    eigenvalues: Tensor
    eigenvectors: Tensor


@dataclass(frozen=True, eq=False)
class Spectrum:
    r"""Eigenpairs of all graphs: eigenvectors :math:`Q` and their eigenvalues.

    Attributes:
        blocks (tuple[Block]): Blocks of graphs of similar size.
        place (Tensor): Row of each node in the concatenation of all blocks, shape
            ``(num_nodes,)``.
    """

    blocks: tuple[Block, ...]
    place: Tensor

    def coordinates(self, x: Tensor) -> Tensor:
        r"""Return :math:`Q^{\top} X`, one row per eigenvector."""
        rows = [(block.eigenvectors.mT @ x[block.nodes]).flatten(0, 1) for block in self.blocks]
        return torch.cat(rows) if rows else x[:0]

    def states(self, y: Tensor) -> Tensor:
        """Return :math:`Q Y`, one row per node."""
        parts = torch.split(y, [block.eigenvalues.numel() for block in self.blocks])
        rows = [
            (block.eigenvectors @ part.view(*block.eigenvalues.shape, y.size(1))).flatten(0, 1)
            for block, part in zip(self.blocks, parts, strict=True)
        ]
        return torch.cat(rows)[self.place] if rows else y


def padded_sizes(count: Tensor) -> Tensor:
    """Return the size to which each graph is padded; zero for graphs without nodes.

    Sizes are first grouped by powers of two, so that no graph is padded to that of a much larger
    one. Neighbouring groups are then merged unless this doubles the number of entries, because a
    few large batches are faster than many small ones.

    Args:
        count (Tensor): Number of nodes per graph, on the CPU.

    Shapes:
        - **count, output:** ``(num_graphs,)``
    """
    power = torch.where(count > 0, 2 ** torch.ceil(torch.log2(count.clamp(min=1).double())), 0)
    padded = torch.zeros_like(count)
    members, area = torch.zeros_like(count, dtype=torch.bool), 0
    for value in torch.unique(power[power > 0]).tolist():
        new = power == value
        size = int(count[new].max())
        separate = area + int(new.sum()) * size**2
        merged = members | new
        if int(merged.sum()) * size**2 <= 2 * separate:
            members = merged
        else:
            members = new
        area = int(members.sum()) * size**2
        padded[members] = size
    return padded


def decompose(pattern: Pattern, values: Tensor, batch: Tensor | None, num_graphs: int) -> Spectrum:
    """Compute the eigenpairs in float64, and round the eigenvectors to the dtype of the entries.

    Args:
        pattern (Pattern): The pattern of a symmetric operator.
        values (Tensor): Its entries.
        batch (Tensor, optional): Graph of each node; :obj:`None` for a single graph.
        num_graphs (int): Number of graphs.

    Shapes:
        - **values:** ``(nnz,)``
        - **batch:** ``(num_nodes,)``
    """
    n, device = pattern.num_nodes, values.device
    if batch is None:
        batch, num_graphs = torch.zeros(n, dtype=torch.long, device=device), 1
    count = torch.bincount(batch, minlength=num_graphs)
    order = torch.argsort(batch, stable=True)
    first = torch.cumsum(count, 0) - count
    position = torch.empty_like(order)  # of each node in its graph
    position[order] = torch.arange(n, device=device) - first[batch[order]]
    padded = padded_sizes(count.cpu()).to(device)
    row, col = pattern.row, pattern.col.long()
    slot = torch.zeros_like(count)  # of each graph in its block
    place = torch.empty_like(order)
    blocks, rows = [], 0
    for size in torch.unique(padded).tolist():
        if size == 0:
            continue
        graphs = (padded == size).nonzero().squeeze(1)
        slot[graphs] = torch.arange(graphs.numel(), device=device)
        members = (padded[batch] == size).nonzero().squeeze(1)
        nodes = order[first[graphs]].unsqueeze(1).repeat(1, size)
        nodes[slot[batch[members]], position[members]] = members
        dense = torch.zeros(graphs.numel(), size, size, dtype=torch.float64, device=device)
        entry = (padded[batch[row]] == size).nonzero().squeeze(1)
        i, j = row[entry], col[entry]
        dense[slot[batch[i]], position[i], position[j]] = values[entry].double()
        eigenvalues, eigenvectors = torch.linalg.eigh(dense)
        real = torch.arange(size, device=device) < count[graphs].unsqueeze(1)
        eigenvectors = (eigenvectors * real.unsqueeze(-1)).to(values.dtype)
        blocks.append(Block(nodes, eigenvalues, eigenvectors))
        place[members] = rows + slot[batch[members]] * size + position[members]
        rows += graphs.numel() * size
    return Spectrum(tuple(blocks), place)
