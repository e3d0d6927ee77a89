"""Base classes of all models."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn
from torch_geometric.nn import global_mean_pool

from mgnni.errors import check_choice, check_dropout, check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphModule, GraphOptions, report_non_finite
from mgnni.layers.heads import pool
from mgnni.layers.readout import Readout
from mgnni.layers.target_scale import TargetScale

LEVELS = ("auto", "node", "graph")
POOLINGS = ("sum", "mean")


class GraphModel(GraphModule):
    """A model that returns logits, or numbers to predict, per node or per graph.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        dropout (float, optional): Dropout probability. (default: :obj:`0.0`)
        level (str, optional): :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which returns
            logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        graph (GraphOptions, optional): How the operator is built from an ``edge_index``.

    Attributes:
        supports_vmap (bool): Whether models can be stacked and mapped over by
            :func:`torch.func.vmap`, which trains several runs on one graph at once.
        uses_edge_weight (bool): Whether a model that uses edges also uses their weights.
        target_scale (TargetScale or None): Brings the output to the units of numbers to predict;
            set by :func:`predict_numbers`.
    """

    supports_vmap: bool = True
    uses_edge_weight: bool = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dropout: float = 0.0,
        level: str = "auto",
        graph: GraphOptions | None = None,
    ) -> None:
        super().__init__(check_int("in_channels", in_channels), out_channels, graph)
        self.hidden_channels = check_int("hidden_channels", hidden_channels)
        check_dropout("dropout", dropout)
        self.level = check_choice("level", level, LEVELS)
        self.target_scale: TargetScale | None = None

    def predict_numbers(self) -> None:
        """Return numbers in the units of the data instead of logits, see :attr:`target_scale`."""
        self.target_scale = TargetScale(self.out_channels)

    def in_units(self, out: Tensor) -> Tensor:
        r"""Return the output in the units of the data; logits are returned unchanged.

        Args:
            out (Tensor): Output of the last layer.

        Shapes:
            - **out:** :math:`(*, F_{out})`
        """
        return out if self.target_scale is None else self.target_scale(out)

    def pooling_index(self, batch: Tensor | None, propagation: Propagation) -> Tensor | None:
        r"""Return the index of the graph of each node, or :obj:`None` if there is no pooling.

        Args:
            batch (Tensor or None): The ``batch`` given to ``forward``.
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **batch:** :math:`(|\mathcal{V}|)`
            - **output:** :math:`(|\mathcal{V}|)`
        """
        if self.level == "graph" and batch is None:
            return propagation.graph_of_node()
        return None if self.level == "node" else batch

    def num_graphs(
        self, propagation: Propagation, batch: Tensor | None, batch_size: int | None
    ) -> int:
        """Return the number of rows after pooling.

        Args:
            propagation (Propagation): The operator of the graph.
            batch (Tensor or None): The ``batch`` given to ``forward``.
            batch_size (int or None): The ``batch_size`` given to ``forward``.
        """
        return propagation.num_graphs if batch is None or batch_size is None else batch_size

    def extra_repr(self) -> str:
        """Return the graph options and the level."""
        return f"{super().extra_repr()}, level={self.level!r}"


class EncoderModel(GraphModel, ABC):
    r"""A model that encodes nodes, pools them per graph, and applies a readout.

    :meth:`encode` returns ``self.node_channels`` features per node. These are the logits, or with
    ``level="graph"`` the input of sum pooling followed by an MLP.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        dropout (float, optional): Dropout probability. (default: :obj:`0.0`)
        level (str, optional): :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which returns
            logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        graph (GraphOptions, optional): How the operator is built from an ``edge_index``.

    Attributes:
        own_readout (bool): Whether the subclass itself sets ``node_channels`` and ``readout``,
            which then applies to nodes as well as to graphs.
        pooling (str): ``"sum"`` or ``"mean"`` of the nodes of a graph.

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
    """

    own_readout: bool = False
    pooling: str = "sum"

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        dropout: float = 0.0,
        level: str = "auto",
        graph: GraphOptions | None = None,
    ) -> None:
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        with_readout = level == "graph" and not self.own_readout
        self.node_channels = hidden_channels if with_readout else out_channels
        self.readout: nn.Module | None = (
            Readout(hidden_channels, hidden_channels, out_channels, dropout)
            if with_readout
            else None
        )

    def layer_widths(self, num_layers: int) -> tuple[int, ...]:
        """Return the sizes of the input, of all hidden layers, and of the node features.

        Args:
            num_layers (int): Number of layers.
        """
        hidden = (self.hidden_channels,) * (check_int("num_layers", num_layers) - 1)
        return (self.in_channels, *hidden, self.node_channels)

    @abstractmethod
    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        r"""Return the node features that are pooled, or the logits of the nodes.

        Args:
            x (Tensor): Node features.
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **input:** node features :math:`(|\mathcal{V}|, F_{in})`
            - **output:** node features :math:`(|\mathcal{V}|, \text{node\_channels})`
        """

    def pool(self, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        r"""Pool node features per graph, or return them unchanged if ``batch`` is :obj:`None`.

        Args:
            x (Tensor): Node features.
            batch (Tensor or None): Index of the graph of each node.
            num_graphs (int): Number of graphs.

        Shapes:
            - **input:** node features :math:`(|\mathcal{V}|, F)`
            - **output:** :math:`(|\mathcal{G}|, F)` or :math:`(|\mathcal{V}|, F)`
        """
        if self.pooling == "mean" and batch is not None:
            mean: Tensor = global_mean_pool(x, batch, num_graphs)
            return mean
        return pool(x, batch, num_graphs)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | Propagation,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return the logits, one row per node or per graph.

        Args:
            x (Tensor): Node features.
            edge_index (Tensor or Propagation): The edge indices, a sparse adjacency matrix,
                or a :class:`~mgnni.Propagation`. The operator is cached between passes.
            edge_weight (Tensor, optional): Edge weights. (default: :obj:`None`)
            batch (Tensor, optional): Index of the graph of each node.
                (default: :obj:`None`)
            batch_size (int, optional): Number of graphs. Graphs without nodes at the end of a
                batch are counted only if it is given. (default: :obj:`None`)
        """
        propagation = self.propagation(x, edge_index, edge_weight, batch, batch_size)
        with report_non_finite(x):
            out = self.encode(x, propagation)
        num_graphs = self.num_graphs(propagation, batch, batch_size)
        out = self.pool(out, self.pooling_index(batch, propagation), num_graphs)
        return self.in_units(out if self.readout is None else self.readout(out))
