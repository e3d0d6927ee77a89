"""Collectives of :mod:`torch.distributed`, which name the problem if another process is gone.

Groups of one process communicate nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from mgnni.errors import LostProcessError


@contextmanager
def lost_process() -> Iterator[None]:
    """Context manager that turns an error of the communication into one that says what to do."""
    try:
        yield
    except RuntimeError as error:  # gloo and NCCL have no common class of errors
        # Without the line of its source code, and what it says about bugs of its own.
        reason = re.sub(r"^\[[^\]]*\] ", "", " ".join(str(error).split())).split(". ")[0]
        rank, size = dist.get_rank(), dist.get_world_size()
        raise LostProcessError(
            f"process {rank} of {size} (from 0): another process has ended or does not answer "
            f"({reason[:120]}); look for its error above, and start again (mgnni train with "
            "--resume), also with fewer processes"
        ) from error


class Exchange:
    """An all-to-all exchange of rows that is under way.

    Args:
        out (Tensor): Memory for the rows that arrive, sorted by sender.
        x (Tensor): The rows to send, sorted by receiver.
        received (Sequence[int]): Number of rows from each process.
        sent (Sequence[int]): Number of rows for each process.
        group (ProcessGroup): The processes.

    Shapes:
        - **out:** ``(sum(received), channels)``
        - **x:** ``(sum(sent), channels)``
    """

    def __init__(
        self,
        out: Tensor,
        x: Tensor,
        received: Sequence[int],
        sent: Sequence[int],
        group: dist.ProcessGroup,
    ) -> None:
        self.kept = out, x  # until the exchange is over
        with lost_process():
            self.work = dist.all_to_all_single(
                out, x, list(received), list(sent), group=group, async_op=True
            )

    def wait(self) -> Tensor:
        """Wait for the rows, and return them."""
        if self.work is not None:
            with lost_process():
                self.work.wait()
        return self.kept[0]


def summed(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the sum of ``x`` over all processes of a group."""
    return _reduced(x, group, dist.ReduceOp.SUM)


def largest(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return the largest entries of ``x`` over all processes of a group."""
    return _reduced(x, group, dist.ReduceOp.MAX)


def _reduced(x: Tensor, group: dist.ProcessGroup, op: dist.ReduceOp.RedOpType) -> Tensor:
    if dist.get_world_size(group) == 1:
        return x
    total = x.detach().clone(memory_format=torch.contiguous_format)
    with lost_process():
        dist.all_reduce(total, op, group=group)
    return total


def from_first(x: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return ``x`` of the first process of a group, which must have the same shape everywhere."""
    if dist.get_world_size(group) == 1:
        return x
    copy = x.detach().clone(memory_format=torch.contiguous_format)
    with lost_process():
        dist.broadcast(copy, dist.get_global_rank(group, 0), group=group)
    return copy


def gathered(x: Tensor, counts: Sequence[int], group: dist.ProcessGroup) -> Tensor:
    """Return the rows of all processes of a group, one process after another.

    Args:
        x (Tensor): The rows of this process.
        counts (Sequence[int]): Number of rows of each process.
        group (ProcessGroup): The processes.

    Shapes:
        - **x:** ``(rows, *)``
        - **output:** ``(sum(counts), *)``
    """
    if dist.get_world_size(group) == 1 or sum(counts) == 0:
        return x
    # Collectives want equal sizes, so short blocks are padded.
    block = x.new_zeros(max(counts), *x.shape[1:])
    block[: x.size(0)] = x.detach()
    blocks = [torch.empty_like(block) for _ in counts]
    with lost_process():
        dist.all_gather(blocks, block, group=group)
    return torch.cat([one[:count] for one, count in zip(blocks, counts, strict=True)])
