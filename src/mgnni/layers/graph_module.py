"""Base class of all modules that take a graph as input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn.inits import reset

from mgnni.distributed.propagation import ShardedPropagation
from mgnni.errors import ArgumentError, ConvergenceError, check_choice, check_int
from mgnni.graph.build import FLOWS
from mgnni.graph.memo import cached_propagation
from mgnni.graph.normalize import NORMALIZATIONS
from mgnni.graph.propagation import Propagation
from mgnni.layers.edge_mask import EdgeMask
from mgnni.layers.regularization import share_batch_statistics
from mgnni.solve.result import SolveLog


class GraphOptions(NamedTuple):
    """How an operator is built from an ``edge_index``.

    See :meth:`mgnni.Propagation.from_edge_index`.

    Args:
        normalization (str, optional): Normalization of the adjacency matrix.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
        flow (str, optional): Direction of message passing. (default: :obj:`"source_to_target"`)
    """

    normalization: str = "auto"
    self_loops: bool = True
    flow: str = "source_to_target"


def with_pyg_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments with PyG's ``add_self_loops`` renamed to ``self_loops``.

    Args:
        options (Mapping[str, Any]): Keyword arguments of a :class:`GraphModule`.
    """
    renamed = dict(options)
    if "add_self_loops" in renamed:
        if "self_loops" in renamed:
            raise ArgumentError(
                "'add_self_loops' must not be given together with 'self_loops' (got both), of "
                "which it is an alias; leave one out"
            )
        renamed["self_loops"] = renamed.pop("add_self_loops")
    return renamed


class GraphModule(nn.Module):
    """A module whose ``forward`` takes a graph.

    The graph is an ``edge_index``, a sparse adjacency matrix, or a :class:`~mgnni.Propagation`.
    The operator of an ``edge_index`` is cached as long as its tensors live and do not change.

    Edge masks of PyG's explainers multiply the entries of the operator, see
    :mod:`mgnni.graph.masked`.

    The constructors of all subclasses that have an argument ``self_loops`` also accept PyG's name
    for it, ``add_self_loops``.

    Args:
        in_channels (int): Size of each input sample.
        out_channels (int): Size of each output sample.
        graph (GraphOptions, optional): How the operator is built from an ``edge_index``.

    Attributes:
        takes_sparse_features (bool): Whether ``x`` may be a sparse CSR tensor.
        supports_edge_mask (bool): Whether PyG's explainers may mask edges.
    """

    takes_sparse_features: bool = False
    supports_edge_mask: bool = True

    def __init__(
        self, in_channels: int, out_channels: int, graph: GraphOptions | None = None
    ) -> None:
        super().__init__()
        graph = graph or GraphOptions()
        self.in_channels = in_channels
        self.out_channels = check_int("out_channels", out_channels)
        check_choice("normalization", graph.normalization, (*NORMALIZATIONS, "auto"))
        check_choice("flow", graph.flow, FLOWS)
        self.graph_options: dict[str, Any] = graph._asdict()
        self.edge_mask = EdgeMask()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "self_loops" in signature(cls.__init__).parameters:
            cls.__init__ = _accepts_pyg_names(cls.__init__)  # type: ignore[method-assign]

    @property
    def solve_log(self) -> SolveLog:
        """How the equations of the last pass were solved; empty if there are none."""
        return SolveLog()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for child in self.children():
            reset(child)

    def propagation(
        self,
        x: Tensor,
        edge_index: Tensor | Propagation,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Propagation:
        r"""Check the inputs of ``forward`` and return the operator of the graph.

        Args:
            x (Tensor): Node features.
            edge_index (Tensor or Propagation): The graph.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            batch (Tensor, optional): Index of the graph of each node.
                (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. (default: :obj:`None`)

        Shapes:
            - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, edge indices
              :math:`(2, |\mathcal{E}|)`, edge weights :math:`(|\mathcal{E}|)`, batch vector
              :math:`(|\mathcal{V}|)`
        """
        check_features(x, self.in_channels, sparse=self.takes_sparse_features)
        if not self.supports_edge_mask:
            self.edge_mask.refuse(self)
        if isinstance(edge_index, Propagation):
            check_same_graph(x, edge_index, edge_weight, batch, batch_size)
            self.edge_mask.check(edge_index)
            if isinstance(edge_index, ShardedPropagation):
                share_batch_statistics(self, edge_index.mesh)
            propagation = edge_index
        else:
            if isinstance(edge_index, Tensor) and edge_index.device != x.device:
                raise ArgumentError(
                    f"'edge_index' must be on the device of x, {x.device} (got "
                    f"{edge_index.device}); use data.to(device)"
                )
            if batch is None and batch_size not in (None, 1):
                raise ArgumentError(
                    f"'batch_size' must be left out without 'batch' (got {batch_size!r}); pass "
                    "batch=data.batch, the graph of each node"
                )
            dtype = x.dtype if x.dtype is torch.float64 else torch.float32
            propagation = cached_propagation(
                edge_index,
                x.size(0),
                edge_weight,
                batch=batch,
                batch_size=None if batch is None else batch_size,
                dtype=dtype,
                **self.graph_options,
            )
            loops, flow = self.graph_options["self_loops"], self.graph_options["flow"]
            propagation = self.edge_mask.mask(propagation, edge_index, edge_weight, loops, flow)
        if batch_size is not None and check_int("batch_size", batch_size, least=0) < (
            propagation.num_graphs
        ):
            raise ArgumentError(
                f"'batch_size' must be at least the number of graphs, {propagation.num_graphs} "
                f"(got {batch_size}); pass data.num_graphs, or leave it out"
            )
        return propagation

    def extra_repr(self) -> str:
        """Return the graph options."""
        return ", ".join(f"{name}={value!r}" for name, value in self.graph_options.items())


def _accepts_pyg_names(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)  # keeps the signature, from which configurations and command lines are derived
    def wrapper(self: GraphModule, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **with_pyg_names(kwargs))

    return wrapper


def check_features(x: Tensor, in_channels: int, sparse: bool = False) -> None:
    r"""Check dtype, layout and shape of node features.

    Args:
        x (Tensor): Node features.
        in_channels (int): Expected number of features, or :obj:`-1` for any number.
        sparse (bool, optional): Whether sparse CSR tensors are supported.
            (default: :obj:`False`)

    Shapes:
        - **x:** :math:`(|\mathcal{V}|, F_{in})`
    """
    if isinstance(x, tuple):
        raise ArgumentError(
            f"'x' must be one tensor (got a tuple of {len(x)}); bipartite graphs are not supported"
        )
    if not isinstance(x, Tensor):
        raise ArgumentError(
            f"'x' must be a tensor (got {type(x).__name__}); torch.as_tensor converts arrays"
        )
    width = x.size(1) if in_channels == -1 and x.dim() == 2 else in_channels
    if x.dim() != 2 or x.size(1) != width or not x.is_floating_point():
        width_name = "in_channels" if in_channels == -1 else in_channels
        raise ArgumentError(
            f"'x' must be floating point of shape (num_nodes, {width_name}) (got {x.dtype}, "
            f"{tuple(x.shape)}); in_channels of the model must be x.size(1)"
        )
    if x.layout is not torch.strided and not (sparse and x.layout is torch.sparse_csr):
        allowed = "dense or sparse CSR" if sparse else "dense in this configuration"
        remedy = "x.to_sparse_csr()" if sparse else "x.to_dense()"
        raise ArgumentError(f"'x' must be {allowed} (got {x.layout}); use {remedy}")


def check_same_graph(
    x: Tensor,
    propagation: Propagation,
    edge_weight: Tensor | None,
    batch: Tensor | None,
    batch_size: int | None = None,
) -> None:
    r"""Check that the other inputs match a :class:`~mgnni.Propagation`.

    Args:
        x (Tensor): Node features.
        propagation (Propagation): The operator of the graph.
        edge_weight (Tensor or None): Must be :obj:`None`.
        batch (Tensor or None): Index of the graph of each node.
        batch_size (int, optional): Number of graphs. If given, the values of a ``batch`` on an
            accelerator are not compared, which would synchronise. (default: :obj:`None`)

    Shapes:
        - **x:** :math:`(|\mathcal{V}|, F_{in})`
        - **batch:** :math:`(|\mathcal{V}|)`
    """
    if x.size(0) != propagation.num_nodes:
        raise ArgumentError(
            f"'x' must have one row for each of the {propagation.num_nodes} nodes of the "
            f"Propagation (got {x.size(0)} rows); build it from the same graph"
        )
    if edge_weight is not None:
        raise ArgumentError(
            "'edge_weight' must be None with a Propagation (got a tensor), which already has edge "
            "weights; pass it to Propagation.from_edge_index"
        )
    if batch is None or batch is propagation.batch:
        return
    own = propagation.graph_of_node()
    unknown = batch_size is not None and batch.device.type != "cpu"
    if batch.shape != own.shape or not (unknown or torch.equal(batch, own)):
        graphs = int(batch.max()) + 1 if batch.numel() else 0
        raise ArgumentError(
            "'batch' must be equal to the batch of the Propagation, which has "
            f"{propagation.num_graphs} graph(s) (got {graphs} graph(s) or another assignment of "
            "nodes); pass the same batch to Propagation.from_edge_index"
        )


@contextmanager
def report_non_finite(x: Tensor) -> Iterator[None]:
    r"""If the block fails because ``x`` is not finite, raise an error that names the entry.

    Args:
        x (Tensor): Node features.

    Shapes:
        - **x:** :math:`(|\mathcal{V}|, F_{in})`
    """
    try:
        yield
    except (ArgumentError, ConvergenceError):
        check_finite(x)
        raise


def check_finite(x: Tensor) -> None:
    r"""Raise an error that names the first entry of ``x`` that is not finite, if there is one.

    Args:
        x (Tensor): Node features, dense or sparse.

    Shapes:
        - **x:** :math:`(|\mathcal{V}|, F_{in})`
    """
    x = x.to_dense()
    if not bool(torch.isfinite(x).all()):
        row, column = (~torch.isfinite(x)).nonzero()[0].tolist()
        raise ArgumentError(
            f"'x' must be finite (got {x[row, column].item()} at row {row}, column {column}); "
            "impute or drop such features"
        ) from None
