r"""The part of a directed graph in which an equation is coupled; all other nodes go beside it.

Node i reads node j where :math:`P_{ij}` is an entry. A node that reads nobody has its bias for a
state, and one that nobody reads follows from the states of others, so only the nodes that read and
are read have to be solved for. In directed web graphs they have a third of the entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mgnni.graph.normalize import NodeNorm
from mgnni.graph.pattern import Pattern, csr

if TYPE_CHECKING:
    from mgnni.graph.propagation import Propagation

SAVED = 2**13  # entries that must be left out for it to be worth the calls
WORTH = 0.75  # part of the entries that may remain


@dataclass(frozen=True, eq=False)
class Core:
    """The nodes that read and are read, and how the others depend on them."""

    nodes: Tensor  # that read and are read
    given: Tensor  # that read nobody
    inner: Propagation  # the operator among the nodes
    outward: Tensor  # its columns of them, for all rows, sparse CSR
    from_given: Tensor  # its columns of the given ones


@torch.inference_mode(False)
def core_of(propagation: Propagation) -> Core | None:
    """Return the core of one directed graph, unless it is nearly all of it, or small.

    On an accelerator products take as long as their launch, and are not worth saving; and entries
    that are learned are others in every pass, of which each would have to find its core.
    """
    pattern = propagation.pattern
    whole = propagation.symmetric or propagation.batch is not None
    if whole or propagation.values.requires_grad or pattern.crow.device.type != "cpu":
        return None
    if pattern.nnz < SAVED:
        return None
    values, row, col = propagation.values.detach(), pattern.row, pattern.col.long()
    entry = values != 0  # where degrees are zero, entries may be
    reads, is_read = torch.zeros(2, pattern.num_nodes, dtype=torch.bool)
    reads[row[entry]] = True
    is_read[col[entry]] = True
    inside = reads & is_read
    count = int((inside[row] & inside[col]).sum())
    if count > min(WORTH * pattern.nnz, pattern.nnz - SAVED):
        return None
    inner, nodes = restricted(propagation, inside)
    return Core(
        nodes,
        (~reads).nonzero().squeeze(1),
        inner,
        _columns(pattern, values, inside),
        _columns(pattern, values, ~reads),
    )


def restricted(propagation: Propagation, keep: Tensor) -> tuple[Propagation, Tensor]:
    """Return the operator among some nodes, of which the same is proven, and these nodes.

    Args:
        propagation: the operator.
        keep: which nodes, a boolean mask of shape ``(num_nodes,)``.
    """
    pattern, norm, batch = propagation.pattern, propagation.norm, propagation.batch
    nodes = keep.nonzero().squeeze(1)
    number = torch.cumsum(keep, 0) - 1
    col = pattern.col.long()
    entry = keep[pattern.row] & keep[col]
    part = Pattern.from_sorted(number[pattern.row[entry]], number[col[entry]], nodes.numel())
    weight = None if norm.weight is None else norm.weight[nodes]
    values = propagation.values.detach()[entry]
    batch = None if batch is None else batch[nodes]
    kind = NodeNorm(norm.kind, weight)
    return propagation.like(part, values, kind, batch, propagation.num_graphs), nodes


def _columns(pattern: Pattern, values: Tensor, keep: Tensor) -> Tensor:
    """Return some columns of a sparse matrix."""
    entry = keep[pattern.col.long()]
    number = torch.cumsum(keep, 0) - 1
    count = torch.bincount(pattern.row[entry], minlength=pattern.num_nodes)
    crow = torch.nn.functional.pad(torch.cumsum(count, 0), (1, 0)).to(pattern.crow.dtype)
    col = number[pattern.col[entry].long()].to(pattern.col.dtype)
    return csr(crow, col, values[entry], (pattern.num_nodes, int(keep.sum())))
