"""The propagation operator of a graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_int
from mgnni.graph.build import build
from mgnni.graph.core import Core, core_of, restricted
from mgnni.graph.csr import Pattern, SparseMatrix
from mgnni.graph.edges import Adjacency, check_dtype
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.product import propagated
from mgnni.graph.spectrum import Spectrum, decompose


class Propagation(SparseMatrix):
    r"""The linear map :math:`X \mapsto P X` of a graph on node features, with one row per node.

    :math:`P = S^{\top}` for the normalised adjacency :math:`S`, so a node aggregates from the
    sources of its incoming edges, as with PyG's ``adj_t``. With ``flow="target_to_source"``,
    :math:`P = S`. Build it once per graph with :meth:`from_edge_index` and pass it to any layer or
    model in place of ``edge_index``.

    Results that are expensive to derive (:attr:`matrix`, :attr:`spectrum`, :attr:`core`, the
    transpose, the float64 copy) are computed at first use and cached. Copies and pickles leave
    them out.

    Attributes:
        pattern (Pattern): Sparsity pattern of :math:`P`.
        values (Tensor): Non-zeros of :math:`P`, in CSR order. Part of the autograd graph of the
            edge weights if these require gradients.
        symmetric (bool): Whether :math:`P = P^{\top}`, up to rounding.
        bound (Bound): The proven bound on the norm of :math:`P`.
        normalization (str): The normalisation in use; never ``"auto"``.
        batch (Tensor, optional): Graph of each node, or :obj:`None` for a single graph.
        num_graphs (int): Number of graphs.
        unit (float): Bound on the relative rounding error of the entries. ``bound`` holds for the
            exact entries.
        prefers_spectrum (bool): Whether the eigenpairs are cached, so that ``solver="auto"`` uses
            the closed form.

    Shapes:
        - **values:** ``(nnz,)``
        - **batch:** ``(num_nodes,)``
    """

    _adjoint_of: weakref.ref[Propagation] | None = None
    _find_spectrum: Callable[[], Spectrum] | None = None
    unmasked: Propagation | None = None  # before an edge mask, see mgnni.graph.masked

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
        find_spectrum: Callable[[], Spectrum] | None = None,
    ) -> None:
        super().__init__(pattern, values)
        self.symmetric, self.bound, self.normalization = symmetric, bound, normalization
        self.batch, self.num_graphs = batch, num_graphs
        self.unit = max(unit, torch.finfo(values.dtype).eps)
        self.prefers_spectrum, self._find_spectrum = find_spectrum is not None, find_spectrum

    @classmethod
    @torch.inference_mode(False)
    def from_edge_index(
        cls,
        edge_index: Adjacency,
        num_nodes: int | None = None,
        edge_weight: Tensor | None = None,
        normalization: str = "auto",
        self_loops: bool | None = None,
        *,
        add_self_loops: bool | None = None,
        flow: str = "source_to_target",
        batch: Tensor | None = None,
        batch_size: int | None = None,
        dtype: torch.dtype | None = None,
        norm_bound: float | None = None,
    ) -> Propagation:
        r"""Build the operator of a graph.

        Args:
            edge_index (Tensor, EdgeIndex or SparseTensor): Source and target of each edge, or
                PyG's ``adj_t``, a sparse COO, CSR or CSC tensor or a ``torch_sparse.SparseTensor``
                with targets as rows and weights as values. Duplicate edges add up.
            num_nodes (int, optional): Number of nodes; optional for a sparse ``edge_index``.
                (default: :obj:`None`)
            edge_weight (Tensor, optional): Edge weights, which may require gradients; all ones if
                :obj:`None`. (default: :obj:`None`)
            normalization (str, optional): ``"sym"``, ``"dir"``, ``"out"``, ``"row"`` or
                ``"none"``, see :mod:`mgnni.graph.normalize`. ``"auto"`` is ``"sym"`` for
                undirected and ``"dir"`` for directed graphs. PyG's ``normalize=True`` corresponds
                to ``"sym"``, and ``normalize=False`` to ``"none"``. (default: ``"auto"``)
            self_loops (bool, optional): Whether to use :math:`A + I`. Unlike in PyG, the weight of
                an existing self-loop is increased by one. (default: :obj:`True`)
            add_self_loops (bool, optional): PyG's name for ``self_loops``. Pass only one of them.
            flow (str, optional): The flow of messages, as in PyG (``"source_to_target"`` or
                ``"target_to_source"``). (default: ``"source_to_target"``)
            batch (Tensor, optional): Graph of each node. Graphs are solved independently.
                (default: :obj:`None`)
            batch_size (int, optional): Number of graphs; ``batch.max() + 1`` if :obj:`None`.
                (default: :obj:`None`)
            dtype (torch.dtype, optional): :obj:`torch.float32` or :obj:`torch.float64`. If
                :obj:`None`, that of ``edge_weight``, or PyTorch's default. (default: :obj:`None`)
            norm_bound (float, optional): A bound on :math:`\|S\|_2` that you guarantee. It
                replaces the proven bound. (default: :obj:`None`)

        Shapes:
            - **edge_index:** :math:`(2, |\mathcal{E}|)`, or sparse
              :math:`(|\mathcal{V}|, |\mathcal{V}|)`
            - **edge_weight:** :math:`(|\mathcal{E}|)`
            - **batch:** :math:`(|\mathcal{V}|)`
        """
        if self_loops is not None and add_self_loops is not None:
            got = f"(got {add_self_loops!r} and {self_loops!r})"
            raise ArgumentError(f"'add_self_loops' must be None with self_loops {got}; pass one")
        loops = add_self_loops if self_loops is None else self_loops
        parts = build(
            edge_index,
            num_nodes,
            edge_weight,
            normalization=normalization,
            self_loops=True if loops is None else loops,
            flow=flow,
            batch=batch,
            batch_size=batch_size,
            dtype=dtype,
            norm_bound=norm_bound,
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
        """Return an operator with these parts, for which the same bound is proven."""
        other = Propagation(
            pattern,
            values,
            symmetric=self.symmetric,
            bound=Bound(self.norm_bound, norm, self.reason),
            normalization=self.normalization,
            batch=batch,
            num_graphs=num_graphs,
            unit=self.unit,
        )
        other.unmasked = self.unmasked
        return other

    @property
    def norm_bound(self) -> float:
        """A proven bound on the norm of the operator."""
        return self.bound.value

    @property
    def norm(self) -> NodeNorm:
        """The norm of node states in which :attr:`norm_bound` holds."""
        return self.bound.norm

    @property
    def reason(self) -> str:
        """Why :attr:`norm_bound` holds, in one line."""
        return self.bound.reason

    @property
    def largest_graph(self) -> int:
        """Largest number of nodes of a graph."""
        if self.batch is None or not self.num_nodes:
            return self.num_nodes
        return int(torch.bincount(self.batch).max())

    # Cached results are also used in training, so none of them may be an inference tensor.

    @cached_property
    @torch.inference_mode(False)
    def spectrum(self) -> Spectrum:
        """Eigenpairs of every graph of a symmetric operator."""
        with torch.no_grad():
            if self._find_spectrum is not None:
                return self._find_spectrum()
            return decompose(self.pattern, self.values.detach(), self.batch, self.num_graphs)

    @cached_property
    def core(self) -> Core | None:
        """The part in which equations are coupled, if it is much smaller than the graph."""
        return core_of(self)

    def apply(self, x: Tensor, power: int = 1, *, values: Tensor | None = None) -> Tensor:
        r"""Return :math:`P^{k} X`, differentiable in ``x`` and in the edge weights.

        Args:
            x (Tensor): Node features.
            power (int, optional): The power :math:`k`. (default: :obj:`1`)
            values (Tensor, optional): :attr:`values` as an argument, for a map of
                :func:`~mgnni.implicit_fixed_point` that has them among its ``params``.
                (default: :obj:`None`)

        Shapes:
            - **input:** :math:`(|\mathcal{V}|, F)`
            - **values:** :math:`(\mathrm{nnz})`
            - **output:** :math:`(|\mathcal{V}|, F)`
        """
        check_int("power", power, least=0)
        for _ in range(power):
            x = propagated(self, x, values)
        return x

    def adjoint(self) -> Propagation:
        r"""Return the map :math:`X \mapsto P^{\top} X`, cached."""
        if self.symmetric and not self.values.requires_grad:
            return self
        original = self._adjoint_of() if self._adjoint_of is not None else None
        return self._transpose if original is None else original

    @cached_property
    @torch.inference_mode(False)
    def _transpose(self) -> Propagation:
        pattern, order = self.pattern.transposed
        with torch.enable_grad():  # whatever the mode of the first use
            values = self.values[order]
        transpose = self.like(pattern, values, self.norm.dual(), self.batch, self.num_graphs)
        transpose._adjoint_of = weakref.ref(self)
        return transpose

    def restrict(self, graphs: Tensor) -> tuple[Propagation, Tensor]:
        """Return the operator of some graphs of the batch, and the nodes of these graphs.

        Args:
            graphs (Tensor): Boolean mask of the graphs to keep, shape ``(num_graphs,)``.
        """
        graph = self.graph_of_node()
        keep = graphs[graph]
        batch = (torch.cumsum(graphs, 0) - 1)[graph[keep]]
        return restricted(self, keep, batch, int(graphs.sum()))

    def graph_of_node(self) -> Tensor:
        """Return the graph of each node, shape ``(num_nodes,)``; zeros for a single graph."""
        if self.batch is not None:
            return self.batch
        return torch.zeros(self.num_nodes, dtype=torch.long, device=self.device)

    def to(self, target: str | torch.device | torch.dtype) -> Propagation:
        """Return the operator on another device or in another floating-point dtype."""
        device, dtype = self.device, self.dtype
        if isinstance(target, torch.dtype):
            dtype = check_dtype(target)
        else:
            device = torch.device(target)
        if (device, dtype) == (self.device, self.dtype):
            return self
        values = self.values.to(device=device, dtype=dtype)
        batch = None if self.batch is None else self.batch.to(device)
        pattern, norm = self.pattern.to(device), self.norm.to(device)
        return self.like(pattern, values, norm, batch, self.num_graphs)

    def double(self) -> Propagation:
        """Return the operator in float64, cached."""
        return self if self.dtype is torch.float64 else self._double

    @cached_property
    @torch.inference_mode(False)
    def _double(self) -> Propagation:
        return self.to(torch.float64)

    def __getstate__(self) -> dict[str, object]:
        names = ("pattern", "values", "symmetric", "bound", "normalization", "batch", "num_graphs")
        return {name: getattr(self, name) for name in (*names, "unit", "prefers_spectrum")}

    def __repr__(self) -> str:
        graphs = "" if self.batch is None else f", num_graphs={self.num_graphs}"
        return (
            f"Propagation(num_nodes={self.num_nodes}{graphs}, nnz={self.pattern.nnz}, "
            f"normalization={self.normalization!r}, norm_bound={self.norm_bound:.6g}, "
            f"dtype={self.dtype}, device={str(self.device)!r})"
        )
