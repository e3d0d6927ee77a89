"""How the rows of a sparse matrix are shared out to the blocks of a persistent kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

TEAMS = 128  # of a block, each of which takes a part at a time
FINE, COARSE = 16, 64  # entries of a part at most, with few columns to work on and with many
FIXED = 8  # what a row costs besides its entries, in entries
ENTRIES = 512  # that a block should have at least: fewer blocks wait less for one another


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in ranges of about equal work, one a block, and cut into parts, in two ways.

    Attributes:
        row_of: first row of each block, shape ``(blocks + 1,)``, 32-bit as all of these.
        entry_of: first entry of each block, shape ``(blocks + 1,)``.
        part: first entry of each part, shape ``(2, parts + 1)``: of short ones, then of long ones,
            as many as there are, padded to equal length.
        first: first part of each row, shape ``(2, rows + 1)``; a row without entries has none.
        parts: parts of the block that has most, short ones and long ones.
        entries: entries of the block that has most.
        rows: rows of the block that has most.
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
    """Share rows with so many entries out, given on the CPU, and send them with one transfer."""
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
        number = np.arange(len(row)) - first[row]  # of a part in its row
        # Parts of one row are of like length, so that no team is left with a crumb.
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
