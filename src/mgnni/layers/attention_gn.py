"""A graph network with attention, which turns nodes and edges into new nodes and new edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP
from torch_geometric.nn.resolver import activation_resolver
from torch_geometric.utils import scatter, softmax

from mgnni.errors import check_choice

ACTIVATIONS = ("elu", "leaky_relu", "relu", "silu", "tanh")
AGGREGATIONS = ("mean", "sum")


class EdgeMLP(nn.Module):
    r"""A perceptron of :math:`[e_{uv}, h_u, h_v]` for every edge, one hidden layer.

    The first linear map is applied to nodes before they are gathered: a row of an edge is never
    as wide as the features of its ends.

    Args:
        edge_channels: width of :math:`e_{uv}`.
        node_channels: width of :math:`h_u`.
        width: of the hidden layer.
        out_channels: width of the result.
        activation: after both linear maps.
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
        """Draw all parameters anew."""
        self.first.reset_parameters()
        self.last.reset_parameters()

    def forward(self, x: Tensor, edge: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """Return one row an edge."""
        of_edge, of_source, of_target = torch.split(self.first.weight, self.parts, dim=1)
        at_source, at_target = x @ of_source.T, x @ of_target.T + self.first.bias
        hidden = edge @ of_edge.T + at_source[source] + at_target[target]
        rows: Tensor = self.activation(self.last(self.activation(hidden)))
        return rows


class AttentionGN(nn.Module):
    r"""One layer of a graph network whose messages are weighed by attention.

    .. math::  e'_{uv} = f_e(e_{uv}, h_u, h_v), \qquad
               \alpha_{uv} = \operatorname{softmax}_u f_a(e_{uv}, h_u, h_v), \qquad
               h'_v = f_n\Big(\operatorname{agg}_{u \to v} \alpha_{uv} e'_{uv},\; h_v\Big).

    Each :math:`f` is a perceptron of one hidden layer, with an activation at its end as well.

    Args:
        node_channels: features of a node, before and after.
        edge_channels: features of an edge, before and after.
        width: of the hidden layers.
        aggregation: ``"sum"``, or ``"mean"``: divided by the number of edges, after the softmax.
        activation: of all perceptrons.

    Shapes:
        - **input:** nodes, edges, and the ``source`` and ``target`` of each edge
        - **output:** nodes and edges
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
        """Draw all parameters anew."""
        self.edge.reset_parameters()
        self.attention.reset_parameters()
        self.node.reset_parameters()

    def forward(
        self, x: Tensor, edge: Tensor, source: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the new nodes and the new edges."""
        new = self.edge(x, edge, source, target)
        logit = self.attention(x, edge, source, target)
        message = softmax(logit, target, num_nodes=x.size(0)) * new
        gathered = scatter(message, target, 0, x.size(0), self.aggregation)
        return self.node(torch.cat([gathered, x], dim=1)), new
