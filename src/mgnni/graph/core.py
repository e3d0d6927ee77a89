r"""The part of a directed graph in which the equations are coupled.

The state of a node without incoming edges is its bias. A node without outgoing edges influences no
other node, so its state follows from the other states. Only the nodes that have both have to be
solved for. In directed web graphs they have a third of the entries. In code, node i *reads* node j
if :math:`P_{ij} \ne 0`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mgnni.graph.csr import Pattern, SparseMatrix
from mgnni.graph.normalize import NodeNorm

if TYPE_CHECKING:
    from mgnni.graph.propagation import Propagation

SAVED = 2**13  # entries that must be left out to be worth the additional calls
WORTH = 0.75  # largest fraction of the entries that may remain


@dataclass(frozen=True, eq=False)
class Core:
    """The nodes that read and are read, and how the other nodes depend on them.

    Attributes:
        nodes (Tensor): The nodes that read and are read.
        given (Tensor): The nodes that read no other.
        inner (Propagation): The operator restricted to ``nodes``.
        outward (SparseMatrix): The columns of ``nodes``, for all rows.
        from_given (SparseMatrix): The columns of ``given``, for all rows.

    Shapes:
        - **nodes:** ``(core_nodes,)``
        - **given:** ``(given_nodes,)``
        - **outward:** ``(num_nodes, core_nodes)``
        - **from_given:** ``(num_nodes, given_nodes)``
    """

    nodes: Tensor
    given: Tensor
    inner: Propagation
    outward: SparseMatrix
    from_given: SparseMatrix


@torch.inference_mode(False)
def core_of(propagation: Propagation) -> Core | None:
    """Return the core of a single directed graph, or ``None`` if it would not save much.

    There is none for learnable entries, which would need a new core in every pass.
    """
    pattern = propagation.pattern
    whole = propagation.symmetric or propagation.batch is not None
    if whole or propagation.values.requires_grad or pattern.nnz < SAVED:
        return None
    values, row, col = propagation.values.detach(), pattern.row, pattern.col.long()
    entry = values != 0  # stored entries may be zero where degrees are
    reads, is_read = values.new_zeros(2, pattern.num_nodes, dtype=torch.bool)
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


def restricted(
    propagation: Propagation, keep: Tensor, batch: Tensor | None = None, num_graphs: int = 1
) -> tuple[Propagation, Tensor]:
    """Return the operator among some nodes, with the same bound, and the nodes.

    Args:
        propagation (Propagation): The operator.
        keep (Tensor): Boolean mask of the nodes to keep, shape ``(num_nodes,)``.
        batch (Tensor, optional): Graph of each node that is kept. (default: :obj:`None`)
        num_graphs (int, optional): Number of graphs that are kept. (default: :obj:`1`)
    """
    pattern, norm = propagation.pattern, propagation.norm
    nodes = keep.nonzero().squeeze(1)
    number = torch.cumsum(keep, 0) - 1
    col = pattern.col.long()
    entry = keep[pattern.row] & keep[col]
    part = Pattern.from_sorted(number[pattern.row[entry]], number[col[entry]], nodes.numel())
    weight = None if norm.weight is None else norm.weight[nodes]
    values = propagation.values.detach()[entry]
    return propagation.like(part, values, NodeNorm(norm.kind, weight), batch, num_graphs), nodes


def _columns(pattern: Pattern, values: Tensor, keep: Tensor) -> SparseMatrix:
    """Return some columns of a sparse matrix."""
    col = pattern.col.long()
    entry = keep[col]
    number = torch.cumsum(keep, 0) - 1
    shape = pattern.num_nodes, int(keep.sum())
    part = Pattern.from_sorted(pattern.row[entry], number[col[entry]], *shape)
    return SparseMatrix(part, values[entry])
