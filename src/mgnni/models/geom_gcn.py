"""Geom-GCN: neighbours in the graph and in a latent plane, told apart by where they lie."""

from __future__ import annotations

from torch import Tensor, nn

from mgnni.graph.geometry import RELATIONS, structural
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import propagated
from mgnni.layers.stack import Stack
from mgnni.models.base import GraphModel


class GeometricConv(nn.Module):
    """A linear map for each relation, over the operator of virtual nodes.

    Args:
        in_channels: features of a node.
        out_channels: width of the output, over all relations.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the map of every relation by itself."""
        for weight in self.linear.weight.chunk(RELATIONS):
            nn.init.xavier_uniform_(weight)

    def forward(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return all relations of a node side by side."""
        h = self.linear(x)
        virtual = h.reshape(-1, h.size(1) // RELATIONS)
        return propagated(propagation, virtual).reshape(h.shape)


class GeomGCN(GraphModel):
    r"""Geom-GCN of `Pei et al., ICLR 2020`, with Isomap (Geom-GCN-I).

    .. math::  h_v' = \mathrm{ReLU}\Big(\Big\Vert_r \sum_{u \in N_r(v)}
               \frac{1}{\sqrt{d_v d_u}} W_r h_u\Big).

    The nodes are laid out in a plane by their distances in the graph. Of the nine relations
    :math:`r`, four are neighbours in the graph and four are nodes nearby in the plane, as many on
    average, by the quadrant in which :math:`u` lies as seen from :math:`v`; one is the node itself.
    :math:`d_v = \sum_r |N_r(v)|`. In the last layer relations are averaged, without a ReLU. The
    layout is found once for a graph, needs all its distances, and takes no labels. Edges count,
    whatever their weights.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers, for each relation.
        out_channels: classes, or labels.
        num_layers: convolutions.
        dropout: probability, before every convolution.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        flow: which way messages go along an edge.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        dropout: float = 0.5,
        level: str = "auto",
        flow: str = "source_to_target",
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization="none",  # takes any weights, as nothing is done with them
            self_loops=False,
            flow=flow,
        )
        first, *others = self.widths(num_layers)
        widths = (first, *(RELATIONS * width for width in others))
        self.stack = Stack(GeometricConv, widths, dropout, batch_norm=False, activate_last=False)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the mean over relations of what the last convolution makes."""
        last: Tensor = self.stack(x, structural(propagation))[-1]
        return last.reshape(-1, RELATIONS, self.row_channels).mean(1)
