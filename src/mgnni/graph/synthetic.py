r"""Large random graphs, made in blocks of rows, so that no list of all edges is ever held.

The graph is undirected: pairs of nodes are drawn uniformly, each is an edge in both directions,
repeated edges are dropped, and every node gets a self-loop. Pairs are drawn in chunks, each with
its own seed, and drawn again for every block of rows; drawing is much faster than sorting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_int
from mgnni.graph.csr import LARGEST, Pattern
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.propagation import Propagation

PAIRS = 2**24  # pairs that are drawn at a time
ENTRIES = 2**26  # entries of a block of rows, about


class RowBlock(NamedTuple):
    """Some consecutive rows of a sparse matrix."""

    first: int  # the first row
    lengths: Tensor  # shape: (rows,), number of entries of each row
    col: Tensor  # shape: (entries,), sorted within each row, 64-bit


def random_rows(
    num_nodes: int,
    num_edges: int,
    seed: int = 0,
    device: torch.device | None = None,
) -> Iterator[RowBlock]:
    """Yield the rows of a random undirected graph with self-loops.

    Args:
        num_nodes (int): Number of nodes.
        num_edges (int): Number of edges to draw, counted in both directions, as in PyG.
        seed (int, optional): Random seed. The graph also depends on the type of the device.
            (default: :obj:`0`)
        device (torch.device, optional): Where to create them; the CPU if :obj:`None`.
            (default: :obj:`None`)
    """
    check_int("num_nodes", num_nodes)
    if check_int("num_edges", num_edges, least=0) % 2:
        raise ArgumentError(
            f"'num_edges' must be even (got {num_edges}), as every edge has two directions; add one"
        )
    device = device or torch.device("cpu")
    blocks = max(1, -(-(num_nodes + num_edges) // ENTRIES))
    step = -(-num_nodes // blocks)
    for low in range(0, num_nodes, step):
        high = min(low + step, num_nodes)
        loop = torch.arange(low, high, device=device)
        keys = [(loop - low) * num_nodes + loop]
        for number, begin in enumerate(range(0, num_edges // 2, PAIRS)):
            generator = torch.Generator(device).manual_seed((seed << 32) + number)
            count = min(PAIRS, num_edges // 2 - begin)
            pair = torch.randint(num_nodes, (2, count), generator=generator, device=device)
            for row, col in (pair, pair.flip(0)):
                inside = (row >= low) & (row < high)
                keys.append((row[inside] - low) * num_nodes + col[inside])
        key = torch.unique(torch.cat(keys))
        lengths = torch.bincount(key // num_nodes, minlength=high - low)
        yield RowBlock(low, lengths, key % num_nodes)


@torch.inference_mode(False)
def random_propagation(
    num_nodes: int, num_edges: int, seed: int = 0, device: torch.device | None = None
) -> Propagation:
    """Return the operator of :func:`random_rows` with symmetric normalisation, in float32.

    Args:
        num_nodes (int): Number of nodes.
        num_edges (int): Number of edges to draw, counted in both directions.
        seed (int, optional): Random seed. (default: :obj:`0`)
        device (torch.device, optional): Where to create it; the CPU if :obj:`None`.
            (default: :obj:`None`)
    """
    parts = []
    lengths = []
    for block in random_rows(num_nodes, num_edges, seed, device):
        lengths.append(block.lengths)
        parts.append(block.col.int())
    length = torch.cat(lengths)
    small = int(length.sum()) < LARGEST
    crow = torch.nn.functional.pad(length.cumsum(0), (1, 0))
    col = torch.cat(parts)
    del parts
    inverse = length.double().rsqrt()
    values = torch.empty(col.numel(), device=col.device)
    first = place = 0
    for some in lengths:  # in blocks, because float64 entries would need twice the memory
        row = inverse[first : first + some.numel()].repeat_interleave(some)
        part = slice(place, place + row.numel())
        values[part] = row.mul_(inverse[col[part].long()]).float()
        first, place = first + some.numel(), part.stop
    return Propagation(
        Pattern(crow.int() if small else crow, col if small else col.long()),
        values,
        symmetric=True,
        bound=Bound(
            1.0, NodeNorm("frobenius"), "S is symmetric and similar to a stochastic matrix"
        ),
        normalization="sym",
    )
