"""Assigns the rows of a sparse matrix to the blocks of a persistent kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

FINE, COARSE = 16, 64  # largest number of entries per part, for few and for many columns
FIXED = 8  # cost of a row besides its entries, in entries
ENTRIES = 512  # fewest entries per block, because fewer blocks synchronise faster


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in ranges of about equal work per block, split into short and into long parts.

    Attributes:
        row_of: first row of each block, shape ``(blocks + 1,)``, 32-bit as all of these.
        entry_of: first entry of each block, shape ``(blocks + 1,)``.
        part: first entry of each part, shape ``(2, parts + 1)``, short parts first, padded to equal
            length.
        first: first part of each row, shape ``(2, rows + 1)``; a row without entries has none.
        parts: largest numbers of short and of long parts of a block.
        entries: largest number of entries of a block.
        rows: largest number of rows of a block.
    """

    row_of: Tensor
    entry_of: Tensor
    part: Tensor
    first: Tensor
    parts: tuple[int, int]
    entries: int
    rows: int

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return self.row_of.numel() - 1


def share_out(lengths: Tensor, processors: int, device: torch.device) -> Rows:
    """Assigns rows of these lengths, given on the CPU, and sends the result in one transfer.

    Args:
        lengths (Tensor): Number of entries of each row, on the CPU.
        processors (int): Number of multiprocessors, the largest number of blocks.
        device (torch.device): Where the result is needed.

    Shapes:
        - **lengths:** ``(rows,)``
    """
    count = lengths.numpy().astype(np.int64)
    n = len(count)
    crow = np.concatenate([[0], np.cumsum(count)])
    blocks = max(1, min(processors, -(-int(crow[-1]) // ENTRIES)))
    cost = crow[1:] + FIXED * np.arange(1, n + 1)
    goals = np.arange(1, blocks) * (int(cost[-1]) if n else 0) // blocks
    row_of = np.concatenate([[0], np.minimum(np.searchsorted(cost, goals) + 1, n), [n]])
    firsts, starts, most = [], [], []
    for longest in (FINE, COARSE):
        pieces = -(-count // longest)
        first = np.concatenate([[0], np.cumsum(pieces)])
        row = np.repeat(np.arange(n), pieces)
        number = np.arange(len(row)) - first[row]  # index of a part within its row
        # Parts of one row have about equal length, so that the teams have equal work.
        start = crow[row] + count[row] * number // pieces[row]
        firsts.append(first)
        starts.append(np.concatenate([start, crow[-1:]]))
        most.append(int(np.diff(first[row_of]).max()))
    starts[1] = np.pad(starts[1], (0, len(starts[0]) - len(starts[1])))
    made = [row_of, crow[row_of], *starts, *firsts]
    sent = torch.from_numpy(np.concatenate(made).astype(np.int32)).to(device)
    row_at, entry_at, *rest = torch.split(sent, [len(one) for one in made])
    return Rows(
        row_of=row_at,
        entry_of=entry_at,
        part=torch.cat(rest[:2]).view(2, -1),
        first=torch.cat(rest[2:]).view(2, -1),
        parts=(most[0], most[1]),
        entries=int(np.diff(crow[row_of]).max()),
        rows=int(np.diff(row_of).max()),
    )
