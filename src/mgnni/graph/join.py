"""Operators of many graphs, built once; those of a batch are picked out and put side by side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.graph.build import Parts, build, symmetric_graphs, transposed
from mgnni.graph.normalize import normalize, prove
from mgnni.graph.pattern import Pattern
from mgnni.graph.propagation import Propagation
from mgnni.graph.spectrum import Block, Blocks, Spectrum, decompose, sides

SMALL = 128  # mean side of the graphs up to which their eigenpairs are the fastest way to solve


@dataclass(frozen=True, eq=False)
class Spans:
    """Where the rows of each graph lie in a table of all of them.

    Attributes:
        count: rows of each graph, on the CPU, so that sizes are known without asking a device.
        on_device: the same and the first row of each, shape ``(2, num_graphs)``.
    """

    count: Tensor
    on_device: Tensor

    @classmethod
    def of(cls, count: Tensor, device: torch.device) -> Spans:
        """Lay graphs of so many rows one after another."""
        return cls(count, torch.stack([count, torch.cumsum(count, 0) - count]).to(device))

    def pick(self, graphs: Tensor, here: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of some graphs, the graph of each row, and how many rows stand before.

        Args:
            graphs: which graphs, on the CPU.
            here: the same, on the device.
        """
        total = int(self.count[graphs].sum())
        count, first = self.on_device.index_select(1, here).unbind()
        before = torch.cumsum(count, 0) - count
        number = torch.arange(graphs.numel(), device=here.device)
        graph = torch.repeat_interleave(number, count, output_size=total)
        rows = torch.arange(total, device=here.device).add_((first - before).index_select(0, graph))
        return rows, graph, before


class Collection:
    r"""The operators of many graphs, of which batches are made at the price of a few copies.

    A batch behaves as an operator built from its edges. Eigenpairs are found once as well, if the
    operators are symmetric and the graphs small; ``solver="auto"`` uses them then.

    Args:
        edge_index, num_nodes, edge_weight, normalization, self_loops, flow, batch, dtype: of all
            graphs together, as :meth:`Propagation.from_edge_index` takes them; the nodes of a
            graph stand together, graphs in their order. With ``normalization="auto"`` a batch is
            ``"sym"`` if its own graphs are undirected, else ``"dir"``.
    """

    def __init__(
        self,
        edge_index: Tensor,
        num_nodes: int,
        edge_weight: Tensor | None = None,
        normalization: str = "sym",
        self_loops: bool = True,
        *,
        batch: Tensor,
        flow: str = "source_to_target",
        dtype: torch.dtype | None = None,
    ) -> None:
        options = (normalization, self_loops, flow, batch, dtype, None)
        with torch.no_grad(), torch.inference_mode(False):
            parts = build(edge_index, num_nodes, edge_weight, *options)
            if bool((batch.diff() < 0).any()):
                raise ArgumentError(
                    "'batch' must not decrease (got nodes of a graph after those of a later one); "
                    "sort the nodes, or use torch_geometric.data.Batch.from_data_list"
                )
            self._store(parts, batch, normalization, flow)

    def _store(self, parts: Parts, batch: Tensor, normalization: str, flow: str) -> None:
        self.parts, self.batch = parts, batch
        self._auto, self._to_target = normalization == "auto", flow == "source_to_target"
        pattern, graphs, device = parts.pattern, parts.num_graphs, batch.device
        row, col = pattern.row, pattern.col.long()
        graph = batch[row]
        self._nodes = Spans.of(torch.bincount(batch, minlength=graphs).cpu(), device)
        self._entries = Spans.of(torch.bincount(graph, minlength=graphs).cpu(), device)
        self._local = torch.stack([row, col]) - self._nodes.on_device[1][graph]
        self._length = pattern.crow.diff().long()  # of each row
        self._lengths = torch.split(self._length.cpu(), self._nodes.count.tolist())
        longest = torch.zeros(graphs, dtype=torch.long, device=device)
        self._longest = longest.scatter_reduce_(0, batch, self._length, "amax").cpu()
        self._symmetric = self._undirected = torch.ones(graphs, dtype=torch.bool)
        if not parts.symmetric:
            source, target = (col, row) if self._to_target else (row, col)
            entries = normalize(
                parts.normalization, source, target, parts.weight, pattern.num_nodes
            )
            self._symmetric, self._undirected = (
                symmetric_graphs(pattern, values, graph, graphs).cpu()
                for values in (entries, parts.weight)
            )

    def __len__(self) -> int:
        return self.parts.num_graphs

    def join(self, graphs: Tensor) -> tuple[Propagation, Tensor]:
        """Return the operator of some graphs side by side, and the rows of their nodes.

        Args:
            graphs: which graphs, in any order, also repeatedly; 64-bit, on the CPU.
        """
        if graphs.numel() and not 0 <= int(graphs.min()) <= int(graphs.max()) < len(self):
            raise ArgumentError(
                f"'graphs' must hold numbers in [0, {len(self)}) (got {int(graphs.min())} to "
                f"{int(graphs.max())}); they count the graphs of the collection"
            )
        with torch.no_grad(), torch.inference_mode(False):  # what is kept must serve training too
            return self._join(graphs)

    def _join(self, graphs: Tensor) -> tuple[Propagation, Tensor]:
        here = graphs.to(self.batch.device, non_blocking=True)
        nodes, batch, before = self._nodes.pick(graphs, here)
        entries, graph, _ = self._entries.pick(graphs, here)
        row, col = self._local.index_select(1, entries).add_(before.index_select(0, graph)).unbind()
        crow = torch.zeros(nodes.numel() + 1, dtype=torch.long, device=here.device)
        torch.cumsum(self._length.index_select(0, nodes), 0, out=crow[1:])
        index = self.parts.pattern.col.dtype
        pattern = Pattern(crow.to(index), col.to(index))
        # Known already, so that nobody has to find it out by asking a device.
        longest = int(self._longest[graphs].max()) if graphs.numel() else 0
        vars(pattern).update(row=row, longest_row=longest)
        if here.device.type != "cpu" and graphs.numel():
            vars(pattern)["lengths"] = torch.cat([self._lengths[i] for i in graphs.tolist()])

        symmetric = bool(self._symmetric[graphs].all())
        kind = self.parts.normalization
        if self._auto:
            kind = "sym" if bool(self._undirected[graphs].all()) else "dir"
        source, target = (col, row) if self._to_target else (row, col)
        weight = self.parts.weight.index_select(0, entries)
        bound = prove(kind, symmetric, source, target, weight, nodes.numel(), None)
        joined = Propagation(
            pattern,
            self.parts.values.index_select(0, entries),
            symmetric=symmetric,
            bound=transposed(bound) if self._to_target else bound,
            normalization=kind,
            batch=batch,
            num_graphs=graphs.numel(),
        )
        if symmetric and self.small:
            joined.prefers_spectrum = True
            joined._spectrum = Spectrum(lambda: self._spectrum.join(graphs, nodes, batch, before))
        return joined, nodes

    @cached_property
    def small(self) -> bool:
        """Whether eigenpairs are worth their price, if the operators are symmetric."""
        count = self._nodes.count
        return int(sides(count).square().sum()) <= SMALL * int(count.sum())

    @cached_property
    def _spectrum(self) -> Spectra:
        parts = self.parts
        symmetric = self._symmetric.to(self.batch.device)
        values = parts.values * symmetric[self.batch[parts.pattern.row]]
        found = decompose(parts.pattern, values, self.batch, parts.num_graphs)
        return Spectra(found.blocks, sides(self._nodes.count), self._nodes)


class Spectra:
    """Eigenpairs of all graphs of a collection.

    Args:
        blocks: as :func:`~mgnni.graph.spectrum.decompose` finds them, one a side, in order.
        side: that of each graph, on the CPU.
        nodes: where the nodes of each graph lie.
    """

    def __init__(self, blocks: tuple[Block, ...], side: Tensor, nodes: Spans) -> None:
        self.blocks, self.side = blocks, side
        self.slot = torch.zeros_like(side)  # of a graph in its block
        for block in blocks:
            mine = side == block.eigenvectors.size(-1)
            self.slot[mine] = torch.arange(int(mine.sum()))
        self.first = nodes.on_device[1]

    def join(self, graphs: Tensor, nodes: Tensor, batch: Tensor, before: Tensor) -> Blocks:
        """Return those of some graphs side by side; arguments are those of the joined operator."""
        side, device = self.side[graphs], batch.device
        base = torch.zeros_like(graphs)  # first row of each graph among those of all blocks
        blocks, rows = [], 0
        for block in self.blocks:
            size = block.eigenvectors.size(-1)
            mine = (side == size).nonzero().squeeze(1)
            if mine.numel() == 0:
                continue
            base[mine] = rows + size * torch.arange(mine.numel())
            rows += size * mine.numel()
            slot, here = self.slot[graphs[mine]].to(device), mine.to(device)
            moved = before[here] - self.first[graphs[mine].to(device)]
            blocks.append(
                Block(
                    block.nodes.index_select(0, slot) + moved.unsqueeze(1),
                    block.eigenvalues.index_select(0, slot),
                    block.eigenvectors.index_select(0, slot),
                )
            )
        shift = base.to(device) - before
        place = shift.index_select(0, batch).add_(torch.arange(nodes.numel(), device=device))
        return Blocks(tuple(blocks), place)
