"""From the operator of a whole graph to that of a part in every process."""

from __future__ import annotations

from torch import Tensor

from mgnni.distributed.collectives import from_first
from mgnni.distributed.halo import RowShard
from mgnni.distributed.mesh import ProcessMesh
from mgnni.distributed.partition import Layout, partition
from mgnni.distributed.propagation import ShardedPropagation
from mgnni.errors import ArgumentError
from mgnni.graph.normalize import NodeNorm
from mgnni.graph.propagation import Propagation


def shard(
    propagation: Propagation, mesh: ProcessMesh, partition_by: Tensor | None = None
) -> ShardedPropagation:
    """Spread the operator of a graph over the processes of a mesh.

    Every process passes the whole operator, on any device, and keeps its own rows on that of the
    mesh. The original can be deleted afterwards.

    Args:
        propagation (Propagation): The operator of the whole graph: one graph, with constant edge
            weights.
        mesh (ProcessMesh): The processes.
        partition_by (Tensor, optional): The part of each node, from 0 to ``mesh.rows - 1``.
            (default: as ``mesh.partition`` says)

    Shapes:
        - **partition_by:** ``(num_nodes,)``
    """
    if propagation.batch is not None or propagation.values.requires_grad:
        what = "a batch" if propagation.batch is not None else "learnable edge weights"
        raise ArgumentError(
            f"'propagation' must be a single graph with constant edge weights (got {what}); "
            "graphs of a batch are independent, so give each process some of them"
        )
    part = partition_by
    if part is None:
        part = partition(propagation.pattern, mesh.rows, mesh.partition)
    elif part.numel() != propagation.num_nodes:
        raise ArgumentError(
            f"'partition_by' must have one number for each of the {propagation.num_nodes} nodes "
            f"(got {part.numel()})"
        )
    mesh.barrier()  # processes may have needed unequal time until here
    # Other machines may have other versions of METIS.
    agreed = from_first(part.long().to(mesh.device), mesh.everyone).cpu()
    layout = Layout(agreed, mesh.rows, mesh.columns)
    found = _part_of(propagation, mesh, layout)
    if not propagation.symmetric:
        found._other = _part_of(propagation.adjoint(), mesh, layout)
        found._other._other = found
    mesh.barrier()
    return found


def _part_of(whole: Propagation, mesh: ProcessMesh, layout: Layout) -> ShardedPropagation:
    # Only the part is moved, so that the whole operator need not fit on the device.
    rows = RowShard.from_whole(whole, layout, mesh.row, mesh.row_group).on(mesh.device)
    nodes = layout.nodes(mesh.row, mesh.column).to(whole.device)
    weight = whole.norm.weight
    norm = NodeNorm(whole.norm.kind, None if weight is None else weight[nodes].to(mesh.device))
    lengths = whole.pattern.lengths[nodes].to(mesh.device)
    return ShardedPropagation(mesh, layout, rows, whole, norm, lengths, whole.longest_row)
