"""Operators of many graphs, built once, from which the operators of mini-batches are assembled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.build import build, symmetric_graphs
from mgnni.graph.csr import Pattern
from mgnni.graph.edges import Adjacency
from mgnni.graph.normalize import normalize, prove
from mgnni.graph.propagation import Propagation
from mgnni.graph.spectrum import Block, Spectrum, decompose, padded_sizes

SMALL = 128  # mean padded size up to which eigenpairs are the fastest way to solve


@dataclass(frozen=True, eq=False)
class _Ranges:
    """The contiguous range of rows of each graph in a table of all graphs.

    Attributes:
        count: Number of rows per graph, on the CPU, where it is read without synchronisation.
        on_device: Number of rows and first row per graph, shape ``(2, num_graphs)``.
    """

    count: Tensor
    on_device: Tensor

    @classmethod
    def of(cls, graph: Tensor, num_graphs: int) -> _Ranges:
        """Return the ranges of graphs, given the graph of each row in ascending order."""
        count = torch.bincount(graph, minlength=num_graphs).cpu()
        on_device = torch.stack([count, torch.cumsum(count, 0) - count]).to(graph.device)
        return cls(count, on_device)

    def select(self, graphs: Tensor, on_device: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of some graphs, the graph of each row, and the first row per graph.

        The latter two refer to the selection.

        Args:
            graphs: The graphs, on the CPU.
            on_device: The same graphs, on the device.
        """
        total = int(self.count[graphs].sum())
        count, first = self.on_device.index_select(1, on_device).unbind()
        start = torch.cumsum(count, 0) - count
        device = on_device.device
        number = torch.arange(graphs.numel(), device=device)
        graph = torch.repeat_interleave(number, count, output_size=total)
        rows = torch.arange(total, device=device).add_((first - start).index_select(0, graph))
        return rows, graph, start


class Collection:
    r"""The operators of many graphs, from which those of mini-batches are assembled by copying.

    The operator of a mini-batch equals the one built from its edges. If the operators are
    symmetric and the graphs small, eigenpairs are also computed once, and ``solver="auto"`` uses
    them.

    Args:
        edge_index (Tensor, EdgeIndex or SparseTensor): Edges of all graphs, see
            :meth:`Propagation.from_edge_index`.
        num_nodes (int): Number of nodes of all graphs.
        edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
        normalization (str, optional): The normalisation. With ``"auto"``, a mini-batch uses
            ``"sym"`` if all its graphs are undirected, else ``"dir"``. (default: ``"auto"``)
        self_loops (bool, optional): Whether to use :math:`A + I`. (default: :obj:`True`)
        batch (Tensor): Graph of each node, in ascending order.
        flow (str, optional): The flow of messages. (default: ``"source_to_target"``)
        dtype (torch.dtype, optional): The dtype of the entries. (default: :obj:`None`)

    Shapes:
        - **edge_index:** ``(2, num_edges)``, or sparse ``(num_nodes, num_nodes)``
        - **edge_weight:** ``(num_edges,)``
        - **batch:** ``(num_nodes,)``
    """

    def __init__(
        self,
        edge_index: Adjacency,
        num_nodes: int,
        edge_weight: Tensor | None = None,
        normalization: str = "auto",
        self_loops: bool = True,
        *,
        batch: Tensor,
        flow: str = "source_to_target",
        dtype: torch.dtype | None = None,
    ) -> None:
        with torch.inference_mode(False), torch.no_grad():
            self.parts = build(
                edge_index,
                num_nodes,
                edge_weight,
                normalization=normalization,
                self_loops=self_loops,
                flow=flow,
                batch=batch,
                batch_size=None,
                dtype=dtype,
                norm_bound=None,
            )
            if bool((batch.diff() < 0).any()):
                raise ArgumentError(
                    "'batch' must not decrease (got nodes of a graph after those of a later one); "
                    "sort the nodes, or use torch_geometric.data.Batch.from_data_list"
                )
            self.batch = batch
            self._auto, self._to_target = normalization == "auto", flow == "source_to_target"
            self._index_graphs()

    def _index_graphs(self) -> None:
        """Compute what is known per graph, so that :meth:`join` does not synchronise."""
        parts, batch = self.parts, self.batch
        pattern, num_graphs = parts.pattern, parts.num_graphs
        row, col = pattern.row, pattern.col.long()
        graph = batch[row]
        self._nodes = _Ranges.of(batch, num_graphs)
        self._entries = _Ranges.of(graph, num_graphs)
        self._local = torch.stack([row, col]) - self._nodes.on_device[1][graph]
        self._length = pattern.crow.diff().long()  # of each row
        self._lengths = torch.split(self._length.cpu(), self._nodes.count.tolist())
        longest = torch.zeros(num_graphs, dtype=torch.long, device=batch.device)
        self._longest = longest.scatter_reduce_(0, batch, self._length, "amax").cpu()
        self._symmetric = self._undirected = torch.ones(num_graphs, dtype=torch.bool)
        if not parts.symmetric:
            source, target = (col, row) if self._to_target else (row, col)
            entries = normalize(
                parts.normalization, source, target, parts.weight, pattern.num_nodes
            )
            self._symmetric, self._undirected = (
                symmetric_graphs(pattern, values, graph, num_graphs).cpu()
                for values in (entries, parts.weight)
            )

    def __len__(self) -> int:
        return self.parts.num_graphs

    def join(self, graphs: Tensor) -> tuple[Propagation, Tensor]:
        """Return the operator of a mini-batch, and its nodes in the collection.

        Args:
            graphs (Tensor): The graphs, in any order, possibly repeated; 64-bit, on the CPU.
        """
        if graphs.numel() and not 0 <= int(graphs.min()) <= int(graphs.max()) < len(self):
            raise ArgumentError(
                f"'graphs' must hold graph indices in [0, {len(self)}) (got {int(graphs.min())} to "
                f"{int(graphs.max())}); pass indices of graphs of the collection"
            )
        # Operators are also used in training, so they may not hold inference tensors.
        with torch.inference_mode(False), torch.no_grad():
            return self._join(graphs)

    def _join(self, graphs: Tensor) -> tuple[Propagation, Tensor]:
        on_device = graphs.to(self.batch.device, non_blocking=True)
        nodes, batch, start = self._nodes.select(graphs, on_device)
        entries, graph, _ = self._entries.select(graphs, on_device)
        row, col = self._local.index_select(1, entries).add_(start.index_select(0, graph)).unbind()
        crow = torch.zeros(nodes.numel() + 1, dtype=torch.long, device=batch.device)
        torch.cumsum(self._length.index_select(0, nodes), 0, out=crow[1:])
        index = self.parts.pattern.col.dtype
        pattern = Pattern(crow.to(index), col.to(index))
        # Set what is known already, which would take a synchronisation to compute.
        pattern.row = row
        pattern.longest_row = int(self._longest[graphs].max()) if graphs.numel() else 0
        if batch.device.type != "cpu" and graphs.numel():
            pattern.lengths = torch.cat([self._lengths[i] for i in graphs.tolist()])

        symmetric = bool(self._symmetric[graphs].all())
        kind = self.parts.normalization
        if self._auto:
            kind = "sym" if bool(self._undirected[graphs].all()) else "dir"
        source, target = (col, row) if self._to_target else (row, col)
        weight = self.parts.weight.index_select(0, entries)
        bound = prove(kind, symmetric, source, target, weight, nodes.numel(), None)
        find_spectrum = partial(self._join_spectrum, graphs, batch, start)
        joined = Propagation(
            pattern,
            self.parts.values.index_select(0, entries),
            symmetric=symmetric,
            bound=bound.transposed() if self._to_target else bound,
            normalization=kind,
            batch=batch,
            num_graphs=graphs.numel(),
            find_spectrum=find_spectrum if symmetric and self._is_small else None,
        )
        return joined, nodes

    @cached_property
    def _padded(self) -> Tensor:
        """The size to which each graph is padded for its eigenpairs, on the CPU."""
        return padded_sizes(self._nodes.count)

    @cached_property
    def _is_small(self) -> bool:
        """Whether eigenpairs are worth computing, if the operators are symmetric."""
        return int(self._padded.square().sum()) <= SMALL * int(self._nodes.count.sum())

    @cached_property
    def _blocks(self) -> list[tuple[Block, Tensor]]:
        """Eigenpairs of all symmetric graphs, and the position of each graph in its block."""
        parts = self.parts
        symmetric = self._symmetric.to(self.batch.device)
        values = parts.values * symmetric[self.batch[parts.pattern.row]]
        blocks = []
        for block in decompose(parts.pattern, values, self.batch, parts.num_graphs).blocks:
            members = self._padded == block.eigenvectors.size(-1)
            blocks.append((block, torch.cumsum(members, 0) - 1))
        return blocks

    def _join_spectrum(self, graphs: Tensor, batch: Tensor, start: Tensor) -> Spectrum:
        """Return the eigenpairs of a mini-batch, given its batch vector and first nodes."""
        padded, device = self._padded[graphs], batch.device
        base = torch.zeros_like(graphs)  # first row of each graph in the concatenated blocks
        blocks, rows = [], 0
        for block, slots in self._blocks:
            size = block.eigenvectors.size(-1)
            members = (padded == size).nonzero().squeeze(1)
            if members.numel() == 0:
                continue
            base[members] = rows + size * torch.arange(members.numel())
            rows += size * members.numel()
            slot = slots[graphs[members]].to(device)
            first = self._nodes.on_device[1][graphs[members].to(device)]
            moved = start[members.to(device)] - first
            blocks.append(
                Block(
                    block.nodes.index_select(0, slot) + moved.unsqueeze(1),
                    block.eigenvalues.index_select(0, slot),
                    block.eigenvectors.index_select(0, slot),
                )
            )
        shift = base.to(device) - start
        place = shift.index_select(0, batch).add_(torch.arange(batch.numel(), device=device))
        return Spectrum(tuple(blocks), place)
