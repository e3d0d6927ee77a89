"""The propagation operator of a graph: how to apply it, transpose it, and what is proven of it."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor

from mgnni.graph.build import build
from mgnni.graph.check import check_weight
from mgnni.graph.core import Core, core_of, restricted
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.pattern import Pattern
from mgnni.graph.product import Product
from mgnni.graph.spectrum import Spectrum
from mgnni.kernels.terms import add_term


class Propagation:
    r"""The linear map :math:`X \mapsto P X` of a graph on node features, nodes being rows.

    :math:`P = S^{\top}`: a node gathers from the sources of its incoming edges, as PyG's
    ``adj_t`` does. With ``flow="target_to_source"``, :math:`P = S`. Build it once per graph
    with :meth:`from_edge_index` and hand it to any layer in place of the ``edge_index``.

    Attributes:
        values: the non-zeros of :math:`P`, in CSR order; in the autograd graph of the edge
            weights if those require grad.
        symmetric: whether :math:`P = P^{\top}`; found by comparing, up to rounding.
        norm_bound: a proven bound on the norm of :math:`P`.
        norm: the norm of node states in which ``norm_bound`` holds.
        reason: one line that says why.
        normalization: the one used; never ``"auto"``.
        batch: the graph of each node, or ``None`` for a single graph.
        unit: relative rounding of the entries; ``norm_bound`` is that of the exact ones.
        prefers_spectrum: whether eigenpairs are at hand, and the fastest way to solve.
    """

    def __init__(
        self,
        pattern: Pattern,
        values: Tensor,
        *,
        symmetric: bool,
        bound: Bound,
        normalization: str,
        batch: Tensor | None = None,
        num_graphs: int = 1,
        unit: float = 4 * torch.finfo(torch.float64).eps,
    ) -> None:
        self.pattern, self.values = pattern, values
        self.symmetric, self.bound, self.normalization = symmetric, bound, normalization
        self.batch, self.num_graphs = batch, num_graphs
        self.unit = max(unit, torch.finfo(values.dtype).eps)
        self._matrix: Tensor | None = None
        self._spectrum: Spectrum | None = None
        self._core: tuple[Core | None] | None = None
        self.prefers_spectrum = False
        self._double: Propagation | None = None
        self._adjoint: Propagation | None = None
        self._adjoint_of: weakref.ref[Propagation] | None = None

    @classmethod
    @torch.inference_mode(False)
    def from_edge_index(
        cls,
        edge_index: Tensor,  # shape: (2, num_edges)
        num_nodes: int,
        edge_weight: Tensor | None = None,  # shape: (num_edges,)
        normalization: str = "sym",
        self_loops: bool = True,
        *,
        flow: str = "source_to_target",
        batch: Tensor | None = None,  # shape: (num_nodes,)
        dtype: torch.dtype | None = None,
        norm_bound: float | None = None,
    ) -> Propagation:
        r"""Build the operator of a graph.

        Args:
            edge_index: source and target node of each edge. Repeated edges add up.
            num_nodes: number of nodes, isolated ones included.
            edge_weight: weights, ones by default. If it requires grad, so do the solutions.
            normalization: ``"sym"``, ``"dir"``, ``"out"``, ``"row"`` or ``"none"`` (see
                :mod:`mgnni.graph.normalize`), or ``"auto"``: ``"sym"`` if the graph is
                undirected, ``"dir"`` if not.
            self_loops: use :math:`A + I` for :math:`A`.
            flow: PyG's word for the direction of messages.
            batch: graph of each node; graphs are then separate problems.
            dtype: ``torch.float32`` or ``torch.float64``; that of ``edge_weight`` by default,
                else torch's default dtype.
            norm_bound: a bound on :math:`\|S\|_2` that you vouch for. It replaces the proof.
        """
        parts = build(
            edge_index,
            num_nodes,
            edge_weight,
            normalization,
            self_loops,
            flow,
            batch,
            dtype,
            norm_bound,
        )
        return cls(
            parts.pattern,
            parts.values,
            symmetric=parts.symmetric,
            bound=parts.bound,
            normalization=parts.normalization,
            batch=batch,
            num_graphs=parts.num_graphs,
        )

    def like(
        self,
        pattern: Pattern,
        values: Tensor,
        norm: NodeNorm,
        batch: Tensor | None,
        num_graphs: int,
    ) -> Propagation:
        """An operator that differs in these, and of which the same is proven."""
        return Propagation(
            pattern,
            values,
            symmetric=self.symmetric,
            bound=Bound(self.norm_bound, norm, self.reason),
            normalization=self.normalization,
            batch=batch,
            num_graphs=num_graphs,
            unit=self.unit,
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes, over all graphs."""
        return self.pattern.num_nodes

    @property
    def norm_bound(self) -> float:
        """A proven bound on the norm of the operator."""
        return self.bound.value

    @property
    def norm(self) -> NodeNorm:
        """The norm in which :attr:`norm_bound` holds."""
        return self.bound.norm

    @property
    def reason(self) -> str:
        """Why :attr:`norm_bound` holds."""
        return self.bound.reason

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the entries, and so of the features it applies to."""
        return self.values.dtype

    @property
    def device(self) -> torch.device:
        """Where the entries are."""
        return self.values.device

    @property
    def longest_row(self) -> int:
        """The largest number of entries in a row."""
        return self.pattern.longest_row

    @property
    def spectrum(self) -> Spectrum:
        """Eigenpairs of every graph; computed once. Only for a symmetric operator."""
        if self._spectrum is None:
            self._spectrum = Spectrum.of(self.pattern, self.values, self.batch, self.num_graphs)
        return self._spectrum

    @property
    def core(self) -> Core | None:
        """The part in which equations are coupled, if that is much less than all; found once."""
        if self._core is None:
            self._core = (core_of(self),)
        return self._core[0]

    @property
    def largest_graph(self) -> int:
        """The largest number of nodes of one graph."""
        if self.batch is None:
            return self.num_nodes
        return int(torch.bincount(self.batch).max()) if self.num_nodes else 0

    def apply(self, x: Tensor, power: int = 1) -> Tensor:
        r"""Return :math:`P^{power} X`; differentiable in ``x`` and in the edge weights."""
        for _ in range(power):
            x = Product.apply(self.values, x, self)  # type: ignore[no-untyped-call]
        return x

    @property
    def matrix(self) -> Tensor:
        """The operator as a sparse CSR tensor, outside of autograd; built once."""
        if self._matrix is None:
            with torch.inference_mode(False):  # what is kept must serve training too
                self._matrix = self.pattern.matrix(self.values.detach())
        return self._matrix

    def multiply(self, x: Tensor) -> Tensor:
        """Return ``P x``, outside of autograd."""
        empty = self.pattern.nnz == 0 or x.numel() == 0
        if empty or self.pattern.lines.fit(self.values, x):
            return self.multiply_into(torch.empty_like(x), x)
        return self.matrix @ x

    def multiply_into(
        self, out: Tensor, x: Tensor, factor: float = 1.0, beta: float = 0.0
    ) -> Tensor:
        """Overwrite ``out`` with ``factor * P x + beta * out`` and return it."""
        if self.pattern.nnz == 0 or x.numel() == 0:
            return out.mul_(beta) if beta else out.zero_()
        if self.pattern.lines.fit(self.values, x):
            return add_term(self.pattern.lines, self.values, x, out, factor=factor, keep=beta)
        if x.size(1) == 1 and x.device.type == "cpu":  # half the time of a matrix of one column
            return out.view(-1).addmv_(self.matrix, x.view(-1), beta=beta, alpha=factor).view_as(x)
        return out.addmm_(self.matrix, x, beta=beta, alpha=factor)

    def adjoint(self) -> Propagation:
        r"""Return the map :math:`X \mapsto P^{\top} X`; built once."""
        if self.symmetric and not self.values.requires_grad:
            return self
        original = self._adjoint_of() if self._adjoint_of is not None else None
        if original is not None:
            return original
        if self._adjoint is None:
            pattern, order = self.pattern.transposed
            with torch.inference_mode(False), torch.enable_grad():  # for every later use
                values = self.values[order]
            norm = self.norm.dual()
            self._adjoint = self.like(pattern, values, norm, self.batch, self.num_graphs)
            self._adjoint._adjoint_of = weakref.ref(self)
        return self._adjoint

    def restrict(self, graphs: Tensor) -> tuple[Propagation, Tensor]:
        """Return the operator of some graphs of the batch, and the nodes it acts on.

        Args:
            graphs: which graphs to keep, a boolean mask of shape ``(num_graphs,)``.
        """
        part, nodes = restricted(self, graphs[self.graph_of_node()])
        part.batch = (torch.cumsum(graphs, 0) - 1)[self.graph_of_node()[nodes]]
        part.num_graphs = int(graphs.sum())
        return part, nodes

    def graph_of_node(self) -> Tensor:
        """The graph of each node, shape ``(num_nodes,)``, also for a single graph."""
        if self.batch is not None:
            return self.batch
        return torch.zeros(self.num_nodes, dtype=torch.long, device=self.device)

    def to_dense(self) -> Tensor:
        """Return :math:`P` as a dense matrix; for small graphs and for checks."""
        dense = self.values.new_zeros(self.num_nodes, self.num_nodes)
        index = (self.pattern.row, self.pattern.col.long())
        return dense.index_put(index, self.values)

    def to(self, target: str | torch.device | torch.dtype) -> Propagation:
        """Return the operator on another device or in another floating-point type."""
        if isinstance(target, torch.dtype):
            check_weight(None, self.pattern.col, target, nonnegative=False)
            device, dtype = self.device, target
        else:
            device, dtype = torch.device(target), self.dtype
        if (device, dtype) == (self.device, self.dtype):
            return self
        weight = self.norm.weight
        norm = NodeNorm(self.norm.kind, None if weight is None else weight.to(device))
        values = self.values.to(device=device, dtype=dtype)
        batch = None if self.batch is None else self.batch.to(device)
        return self.like(self.pattern.to(device), values, norm, batch, self.num_graphs)

    def double(self) -> Propagation:
        """Return the operator in float64; converted once."""
        if self.dtype is torch.float64:
            return self
        if self._double is None:
            with torch.inference_mode(False):
                self._double = self.to(torch.float64)
        return self._double

    def __getstate__(self) -> dict[str, Any]:
        derived = {"_matrix", "_spectrum", "_core", "_double", "_adjoint", "_adjoint_of"}
        return {k: None if k in derived else v for k, v in self.__dict__.items()}

    def __repr__(self) -> str:
        graphs = "" if self.batch is None else f", num_graphs={self.num_graphs}"
        return (
            f"Propagation(num_nodes={self.num_nodes}{graphs}, nnz={self.pattern.nnz}, "
            f"normalization={self.normalization!r}, symmetric={self.symmetric}, "
            f"norm_bound={self.norm_bound:.6g} [{self.norm.kind}: {self.reason}], "
            f"dtype={self.dtype}, device={str(self.device)!r})"
        )
