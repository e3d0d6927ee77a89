"""The operator of a graph whose nodes are spread over several processes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from mgnni.distributed.collectives import from_first, gathered, largest, summed
from mgnni.distributed.columns import ColumnAxis
from mgnni.distributed.halo import RowShard
from mgnni.distributed.mesh import ProcessMesh
from mgnni.distributed.partition import Layout
from mgnni.errors import ArgumentError
from mgnni.graph.csr import Pattern
from mgnni.graph.edges import check_dtype
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.propagation import Propagation


class ShardedPropagation(Propagation):
    r"""The operator :math:`P` of a graph over the processes of a mesh.

    Make one with :func:`mgnni.distributed.shard.shard`.

    Every process has some :attr:`nodes`, and calls models and solvers with the features of these
    nodes only. All processes must do so at the same time. The equations are those of the whole
    graph, and so are the certificates.

    Args:
        mesh (ProcessMesh): The processes.
        layout (Layout): Which process has which nodes.
        rows (RowShard): The rows of :math:`P` that belong to the part of this process.
        whole (Propagation): The operator of the whole graph, or another one of the same graph;
            what is proven about it holds here. It is not kept.
        norm (NodeNorm): The norm of its bound, with the weights of the nodes of this process.
        lengths (Tensor): Number of entries of each row of this process.
        longest_row (int): Largest number of entries in any row.

    Attributes:
        nodes (Tensor): The nodes of this process, as numbers of nodes of the whole graph.

    Shapes:
        - **lengths, nodes:** ``(num_local_nodes,)``
    """

    is_sharded = True
    core = None  # solves on a part of the nodes are not sharded
    _other: ShardedPropagation | None = None  # the adjoint, unless it is this operator

    def __init__(
        self,
        mesh: ProcessMesh,
        layout: Layout,
        rows: RowShard,
        whole: Propagation,
        norm: NodeNorm,
        lengths: Tensor,
        longest_row: int,
    ) -> None:
        # Not that of Propagation, which needs the pattern of the whole graph.
        self.mesh, self.layout, self.rows = mesh, layout, rows
        self.columns = ColumnAxis(layout.blocks(mesh.row), mesh.column, mesh.column_group)
        self.nodes = layout.nodes(mesh.row, mesh.column)
        self.values = rows.values
        self.symmetric, self.normalization = whole.symmetric, whole.normalization
        self.bound = Bound(whole.norm_bound, norm, whole.reason)
        self.batch, self.num_graphs = None, 1
        self.unit = max(whole.unit, torch.finfo(rows.dtype).eps)
        self.prefers_spectrum = False
        self._lengths, self._longest_row = lengths, longest_row

    @property
    def pattern(self) -> Pattern:  # type: ignore[override]
        """Not available: this process knows its own rows only."""
        raise needs_whole_graph("that reads single edges")

    @property
    def num_nodes(self) -> int:
        """Number of nodes of this process."""
        return self.nodes.numel()

    @property
    def total_nodes(self) -> int:
        """Number of nodes of all processes."""
        return self.layout.num_nodes

    @property
    def largest_graph(self) -> int:
        """Number of nodes of all processes."""
        return self.layout.num_nodes

    @property
    def lengths(self) -> Tensor:
        """Number of entries of each row of this process, on the CPU."""
        return self._lengths

    @property
    def longest_row(self) -> int:
        """Largest number of entries in a row of any process."""
        return self._longest_row

    def graph_of_node(self) -> Tensor:
        """Not available: a sum over the nodes of this process is none over the graph."""
        raise needs_whole_graph("that pools the nodes of a graph")

    def local(self, x: Tensor) -> Tensor:
        """Return the rows of this process out of those of all nodes.

        Shapes:
            - **x:** ``(total_nodes, *)``
            - **output:** ``(num_nodes, *)``
        """
        return x[self.nodes.to(x.device)]

    def gather(self, x: Tensor) -> Tensor:
        """Return the rows of all nodes, in their order; not differentiable.

        Args:
            x (Tensor): The rows of this process.

        Shapes:
            - **x:** ``(num_nodes, *)``
            - **output:** ``(total_nodes, *)``
        """
        layout, mesh = self.layout, self.mesh
        # Process c * rows + r holds block c of part r.
        places = [(r, c) for c in range(mesh.columns) for r in range(mesh.rows)]
        rows = gathered(x, [layout.blocks(r)[c] for r, c in places], mesh.everyone)
        nodes = torch.cat([layout.nodes(r, c) for r, c in places]).to(x.device)
        out = torch.empty_like(rows)
        out[nodes] = rows
        return out

    def sum_over_processes(self, x: Tensor) -> Tensor:
        """Return the sum of ``x`` over all processes."""
        return summed(x.to(self.device), self.mesh.everyone).to(x.device)

    def max_over_processes(self, x: Tensor) -> Tensor:
        """Return the largest ``x`` of all processes."""
        return largest(x.to(self.device), self.mesh.everyone).to(x.device)

    def agreed(self, x: Tensor) -> Tensor:
        """Return ``x`` of the first process, if others may differ from it by rounding."""
        return from_first(x.to(self.device), self.mesh.everyone).to(x.device)

    def multiply(self, x: Tensor) -> Tensor:
        """Return ``P x``, outside of autograd."""
        return self.columns.to_rows(self.rows.multiply(self.columns.to_columns(x)), x.size(1))

    def multiply_into(
        self, out: Tensor, x: Tensor, factor: float = 1.0, beta: float = 0.0
    ) -> Tensor:
        """Overwrite ``out`` with ``factor * P x + beta * out`` and return it."""
        product = self.multiply(x)
        return out.mul_(beta).add_(product, alpha=factor) if beta else out.copy_(factor * product)

    def hops(self, z: Tensor, scales: Sequence[int]) -> Tensor:
        """Return ``P^scale z`` of several states, each with its own scale, outside of autograd.

        The states share their products, and so the exchanges of the halo.

        Args:
            z (Tensor): The states.
            scales (Sequence[int]): The power for each of them.

        Shapes:
            - **z, output:** ``(states, num_nodes, channels)``
        """
        count, nodes, channels = z.shape
        order = sorted(range(count), key=lambda index: -scales[index])
        width = count * channels
        x = self.columns.to_columns(z[order].permute(1, 0, 2).reshape(nodes, width))
        # The columns that still need a product always come first.
        each = torch.tensor([scales[index] for index in order]).repeat_interleave(channels)
        own = self.columns.own(each)
        out = torch.empty_like(x)
        for step in range(1, max(scales) + 1):
            wide, rest = int((own >= step).sum()), int((own > step).sum())
            x = self.rows.multiply(x[:, :wide].contiguous())
            out[:, rest:wide] = x[:, rest:]
        back = self.columns.to_rows(out, width).view(nodes, count, channels).permute(1, 0, 2)
        hopped = torch.empty_like(z, memory_format=torch.contiguous_format)
        hopped[order] = back
        return hopped

    def magnitudes(self) -> tuple[ShardedPropagation, ShardedPropagation]:
        """Return the operator of absolute values and its transpose, in float64."""
        return self._with(self.rows.magnitude()), self.adjoint()._with(
            self.adjoint().rows.magnitude()
        )

    def adjoint(self) -> ShardedPropagation:
        r"""Return the map :math:`X \mapsto P^{\top} X`."""
        return self if self._other is None else self._other

    def to(self, target: str | torch.device | torch.dtype) -> ShardedPropagation:
        """Return the operator in another floating-point dtype; it cannot change its device."""
        if not isinstance(target, torch.dtype):
            if torch.device(target) != self.device:
                raise ArgumentError(
                    f"'device' of a propagation over several processes must stay {self.device} "
                    f"(got {target}); move the graph before it is sharded"
                )
            return self
        dtype = check_dtype(target)
        return self if dtype is self.dtype else self._pair(dtype)

    @cached_property
    def _double(self) -> ShardedPropagation:
        return self._pair(torch.float64)

    def _pair(self, dtype: torch.dtype) -> ShardedPropagation:
        """Return this operator in another dtype, together with its adjoint."""
        found = self._with(self.rows.to(dtype))
        if self._other is not None:
            found._other = self._other._with(self._other.rows.to(dtype))
            found._other._other = found
        return found

    def _with(self, rows: RowShard) -> ShardedPropagation:
        about = self.norm, self._lengths, self._longest_row
        return ShardedPropagation(self.mesh, self.layout, rows, self, *about)

    def __reduce__(self) -> str:
        raise ArgumentError(
            "a propagation over several processes cannot be copied or stored (got one); build it "
            "again from the whole graph"
        )

    def __repr__(self) -> str:
        return (
            f"ShardedPropagation(num_nodes={self.num_nodes} of {self.total_nodes}, "
            f"rows={self.mesh.rows}, columns={self.mesh.columns}, "
            f"normalization={self.normalization!r}, norm_bound={self.norm_bound:.6g}, "
            f"dtype={self.dtype}, device={str(self.device)!r})"
        )


def needs_whole_graph(what: str) -> ArgumentError:
    """Return the error of a model that cannot work on a part of the nodes.

    Args:
        what (str): What it does with the graph.
    """
    return ArgumentError(
        f"'propagation' must hold the whole graph for a model {what} (got one over several "
        "processes); use MGNNI with input_map='mlp' and logits per node, or one process"
    )
