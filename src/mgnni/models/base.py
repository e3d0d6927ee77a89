"""What all models have in common: how they are called, and what their rows become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, ConvergenceError, check_choice
from mgnni.graph.build import FLOWS
from mgnni.graph.memo import cached_propagation
from mgnni.graph.normalize import NORMALIZATIONS
from mgnni.graph.propagation import Propagation
from mgnni.layers.heads import pool
from mgnni.layers.readout import Readout
from mgnni.models.check import (
    check_dropout,
    check_features,
    check_finite,
    check_same_graph,
    check_width,
)
from mgnni.solve.result import SolveLog

LEVELS = ("auto", "node", "graph")


class OnGraphs(nn.Module):
    """A model that takes a graph as an ``edge_index`` or as a :class:`~mgnni.Propagation`.

    Args:
        in_channels: features of a node.
        out_channels: classes, or labels.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        normalization, self_loops, flow: of the operator that is built from an ``edge_index``;
            see :meth:`~mgnni.Propagation.from_edge_index`.
    """

    takes_sparse_features: bool = False  # whether ``x`` may be a sparse CSR tensor
    shares_graph: bool = True  # whether runs on one graph can be mapped over by ``vmap``

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        level: str,
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        super().__init__()
        self.in_channels = check_width("in_channels", in_channels)
        self.out_channels = check_width("out_channels", out_channels)
        self.level = check_choice("level", level, LEVELS)
        self.graph_options: dict[str, Any] = {
            "normalization": check_choice(
                "normalization", normalization, (*NORMALIZATIONS, "auto")
            ),
            "self_loops": self_loops,
            "flow": check_choice("flow", flow, FLOWS),
        }
        self.last_normalization: str | None = None

    @property
    def solve_log(self) -> SolveLog:
        """How the equations of the last pass were solved; empty if there are none."""
        return SolveLog()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in self.children():
            _reset(part)

    def propagation(
        self,
        x: Tensor,
        edge_index: Tensor | Propagation,
        edge_weight: Tensor | None,
        batch: Tensor | None,
    ) -> Propagation:
        """Check the inputs, and return the operator of the graph, built once."""
        check_features(x, self.in_channels, sparse=self.takes_sparse_features)
        if isinstance(edge_index, Propagation):
            check_same_graph(x, edge_index, edge_weight, batch)
            self.last_normalization = edge_index.normalization
            return edge_index
        if isinstance(edge_index, Tensor) and edge_index.device != x.device:
            raise ArgumentError(
                f"'edge_index' must be on the device of x, {x.device} (got {edge_index.device}); "
                "use data.to(device)"
            )
        dtype = x.dtype if x.dtype is torch.float64 else torch.float32
        propagation = cached_propagation(
            edge_index, x.size(0), edge_weight, batch=batch, dtype=dtype, **self.graph_options
        )
        self.last_normalization = propagation.normalization
        return propagation

    def pooled(self, batch: Tensor | None, propagation: Propagation) -> Tensor | None:
        """Which graph the row of a node is summed into; none if rows are those of nodes."""
        if self.level == "graph" and batch is None:
            return propagation.graph_of_node()
        return None if self.level == "node" else batch

    def extra_repr(self) -> str:
        """Graph options, and the normalization that ``"auto"`` became in the last pass."""
        used = f" (last used: {self.last_normalization!r})" if self.last_normalization else ""
        options = ", ".join(f"{k}={v!r}" for k, v in self.graph_options.items())
        return f"{options}{used}, level={self.level!r}"


class GraphModel(OnGraphs, ABC):
    """A model of rows for nodes; for whole graphs they are summed and read out.

    A node has ``self.row_channels`` numbers: its logits, or with ``level="graph"`` its share of
    what a perceptron turns into the logits of its graph. A model that has ``own_readout`` sets
    ``row_channels`` and ``readout``, for nodes as for graphs, itself.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        dropout: probability.
        level: ``"node"``, ``"graph"``, or ``"auto"``: the rows of a graph are summed if a
            ``batch`` is given.
        options: of the graph, see :class:`OnGraphs`.
    """

    own_readout: bool = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
        level: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, level=level, **options)
        self.hidden_channels = check_width("hidden_channels", hidden_channels)
        check_dropout(dropout)
        whole = level == "graph" and not self.own_readout
        self.row_channels = hidden_channels if whole else out_channels
        self.readout: nn.Module | None = (
            Readout(hidden_channels, hidden_channels, out_channels, dropout) if whole else None
        )

    def widths(self, num_layers: int) -> tuple[int, ...]:
        """Return the channels from features to rows, with hidden layers in between."""
        hidden = (self.hidden_channels,) * (check_width("num_layers", num_layers) - 1)
        return (self.in_channels, *hidden, self.row_channels)

    @abstractmethod
    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return ``(num_nodes, row_channels)``."""

    def pool(self, rows: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return what is read out of the rows: their sum over each graph, if there is a batch."""
        return pool(rows, batch, num_graphs)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Propagation,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        """Return the logits, one row a node or a graph.

        Args:
            x: features of the nodes.
            edge_index: the graph, or a :class:`~mgnni.Propagation` of it. The operator of an
                ``edge_index`` is built at the first call and kept while the tensor stays the same.
            edge_weight: weights of the edges.
            batch: graph of each node.
        """
        propagation = self.propagation(x, edge_index, edge_weight, batch)
        try:
            rows = self.rows(x, propagation)
        except (ArgumentError, ConvergenceError):
            check_finite(x)  # names the feature to blame, if one is
            raise
        rows = self.pool(rows, self.pooled(batch, propagation), propagation.num_graphs)
        return rows if self.readout is None else self.readout(rows)


def _reset(part: nn.Module) -> None:
    """Reset a module, or what it is made of."""
    reset = getattr(part, "reset_parameters", None)
    if callable(reset):
        reset()
        return
    for child in part.children():
        _reset(child)
