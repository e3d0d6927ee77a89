"""Attention over neighbours: GAT's convolution, and the graph network of CGS."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg
from torch_geometric.nn import MLP
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import scatter, softmax

from mgnni.errors import check_choice
from mgnni.graph.csr import Pattern
from mgnni.graph.weighted import weighted_sum
from mgnni.layers.regularization import Dropout

ACTIVATIONS = ("elu", "leaky_relu", "relu", "silu", "tanh")
AGGREGATIONS = ("mean", "sum")


class AttentionConv(pyg.GATConv):  # type: ignore[misc]
    r""":class:`torch_geometric.nn.GATConv` that does not materialise one row per edge.

    It takes a :class:`~mgnni.graph.csr.Pattern` that already contains all self-loops.

    Args:
        in_channels (int): Size of each input sample.
        out_channels (int): Size of each output sample per head.
        heads (int): Number of attention heads.
        attention_dropout (float): Dropout probability of the attention coefficients.
        **kwargs (optional): Additional arguments of :class:`torch_geometric.nn.GATConv`.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, the pattern
        - **output:** node features :math:`(|\mathcal{V}|, H \cdot F_{out})`, or
          :math:`(|\mathcal{V}|, F_{out})` if ``concat=False``
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int,
        *,
        attention_dropout: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, add_self_loops=False, **kwargs)
        self.attention_dropout = Dropout(attention_dropout, "edge")

    def edge_updater(self, edge_index: Pattern, alpha: tuple[Tensor, Tensor], **_: Any) -> Tensor:
        r"""Return the attention coefficients of all entries.

        Args:
            edge_index (Pattern): The entries.
            alpha (tuple[torch.Tensor, torch.Tensor]): Scores of the sources and the targets.

        Shapes:
            - **input:** scores :math:`(|\mathcal{V}|, H)`
            - **output:** coefficients :math:`(|\mathcal{E}|, H)`
        """
        source, target = alpha
        row, col = edge_index.row, edge_index.col.long()
        coefficient: Tensor = self.edge_update(
            source[col], target[row], None, row, None, edge_index.num_nodes
        )
        return coefficient

    def propagate(
        self, edge_index: Pattern, x: tuple[Tensor, Tensor], alpha: Tensor, **_: Any
    ) -> Tensor:
        """Sum the features of the neighbours, weighted by their coefficients."""
        return weighted_sum(self.attention_dropout(alpha), x[0], edge_index)

    @property
    def input_weight(self) -> Tensor:
        """The weight that features are multiplied with first."""
        weight: Tensor = self.lin.weight
        return weight

    def after_product(self, product: Tensor, pattern: Pattern) -> Tensor:
        """Return the output from the product of the features with :attr:`input_weight`.

        There must be no residual connection, which needs the features themselves.
        """
        x = product.view(-1, self.heads, self.out_channels)
        scores = (x * self.att_src).sum(-1), (x * self.att_dst).sum(-1)
        out = self.propagate(pattern, (x, x), self.edge_updater(pattern, scores))
        out = out.flatten(1) if self.concat else out.mean(1)
        return out if self.bias is None else out + self.bias


class EdgeMLP(nn.Module):
    r"""An MLP of :math:`[\mathbf{e}_{uv}, \mathbf{h}_u, \mathbf{h}_v]` with one hidden layer.

    The first linear map is applied per node before gathering, so that node features are never
    copied to edges.

    Args:
        edge_channels (int): Size of the edge features :math:`\mathbf{e}_{uv}`.
        node_channels (int): Size of the node features :math:`\mathbf{h}_u`.
        width (int): Size of the hidden layer.
        out_channels (int): Size of each output sample.
        activation (str): Activation function after both linear maps.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F)`, edge features
          :math:`(|\mathcal{E}|, D)`, sources and targets :math:`(|\mathcal{E}|)`
        - **output:** edge features :math:`(|\mathcal{E}|, F_{out})`
    """

    def __init__(
        self, edge_channels: int, node_channels: int, width: int, out_channels: int, activation: str
    ) -> None:
        super().__init__()
        self.parts = [edge_channels, node_channels, node_channels]
        self.first = nn.Linear(sum(self.parts), width)
        self.last = nn.Linear(width, out_channels)
        self.activation = activation_resolver(activation)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        self.first.reset_parameters()
        self.last.reset_parameters()

    def forward(self, x: Tensor, edge: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Return one row per edge."""
        of_edge, of_source, of_target = torch.split(self.first.weight, self.parts, dim=1)
        at_source, at_target = x @ of_source.T, x @ of_target.T + self.first.bias
        hidden = edge @ of_edge.T + at_source[source] + at_target[target]
        rows: Tensor = self.activation(self.last(self.activation(hidden)))
        return rows


class AttentionGN(nn.Module):
    r"""A graph network layer whose messages are weighted by attention.

    .. math::
        \mathbf{e}'_{uv} = f_e(\mathbf{e}_{uv}, \mathbf{h}_u, \mathbf{h}_v), \qquad
        \alpha_{uv} = \operatorname{softmax}_u f_a(\mathbf{e}_{uv}, \mathbf{h}_u, \mathbf{h}_v),
        \qquad \mathbf{h}'_v = f_n\Big(\bigoplus_{u \to v} \alpha_{uv} \mathbf{e}'_{uv},\;
        \mathbf{h}_v\Big).

    Each :math:`f` is an MLP with one hidden layer and an activation function at its end.

    Args:
        node_channels (tuple[int, int]): Size of the input and output node features.
        edge_channels (tuple[int, int]): Size of the input and output edge features.
        width (int): Size of the hidden layers.
        aggregation (str, optional): :obj:`"sum"`, or :obj:`"mean"`, which divides by the number of
            edges after the softmax. (default: :obj:`"mean"`)
        activation (str, optional): Activation function of the MLPs. (default: :obj:`"silu"`)

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F_{in})`, edge features
          :math:`(|\mathcal{E}|, D_{in})`, sources and targets :math:`(|\mathcal{E}|)`
        - **output:** node features :math:`(|\mathcal{V}|, F_{out})`, edge features
          :math:`(|\mathcal{E}|, D_{out})`
    """

    def __init__(
        self,
        node_channels: tuple[int, int],
        edge_channels: tuple[int, int],
        width: int,
        *,
        aggregation: str = "mean",
        activation: str = "silu",
    ) -> None:
        super().__init__()
        self.aggregation = check_choice("aggregation", aggregation, AGGREGATIONS)
        check_choice("activation", activation, ACTIVATIONS)
        (node_in, node_out), (edge_in, edge_out) = node_channels, edge_channels
        self.edge = EdgeMLP(edge_in, node_in, width, edge_out, activation)
        self.attention = EdgeMLP(edge_in, node_in, width, 1, activation)
        self.node = MLP(
            [edge_out + node_in, width, node_out], act=activation, norm=None, plain_last=False
        )

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        self.edge.reset_parameters()
        self.attention.reset_parameters()
        self.node.reset_parameters()

    def forward(
        self, x: Tensor, edge: Tensor, source: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the new node features and the new edge features."""
        new = self.edge(x, edge, source, target)
        logit = self.attention(x, edge, source, target)
        message = softmax(logit, target, num_nodes=x.size(0)) * new
        gathered = scatter(message, target, 0, x.size(0), self.aggregation)
        return self.node(torch.cat([gathered, x], dim=1)), new
