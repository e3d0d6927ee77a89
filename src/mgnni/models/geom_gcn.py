"""Geom-GCN: neighbours in the graph and in a latent space, by their relative position."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.geometry import RELATIONS, structural
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GeometricConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.stack import Stack
from mgnni.models.base import EncoderModel


class GeomGCN(EncoderModel):
    r"""Geom-GCN: geometric graph convolutional network with Isomap (Geom-GCN-I).

    From the `"Geom-GCN: Geometric Graph Convolutional Networks"
    <https://arxiv.org/abs/2002.05287>`_ paper.

    .. math::
        \mathbf{h}_v^{\prime} = \mathrm{ReLU}\Big(\Big\Vert_r \sum_{u \in \mathcal{N}_r(v)}
        \frac{1}{\sqrt{d_v d_u}} \mathbf{W}_r \mathbf{h}_u\Big), \qquad
        d_v = \sum_r |\mathcal{N}_r(v)|

    The nodes are embedded in a plane by their distances in the graph. There are nine relations
    :math:`r`: neighbours in the graph and nearby nodes in the plane, for each of the four
    quadrants in which :math:`u` lies relative to :math:`v`, and the node itself. On average there
    are as many nearby nodes as neighbours. The last layer averages the relations, without a ReLU.
    The embedding is computed once per graph from all pairwise distances, without labels. Edge
    weights are ignored.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample per relation.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions. (default: :obj:`2`)
        dropout (float, optional): Dropout probability before every convolution.
            (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        flow (str, optional): Direction of message passing, :obj:`"source_to_target"` or
            :obj:`"target_to_source"`. (default: :obj:`"source_to_target"`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
    """

    uses_edge_weight = False
    supports_edge_mask = False  # its neighbourhoods are not edges

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
        # Edge weights are not used, so any weights are valid.
        graph = GraphOptions("none", self_loops=False, flow=flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        first, *others = self.layer_widths(num_layers)
        widths = (first, *(RELATIONS * width for width in others))
        self.stack = Stack(GeometricConv, widths, dropout, batch_norm=False, activate_last=False)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the mean over relations of the output of the last convolution."""
        last: Tensor = self.stack(x, structural(propagation))[-1]
        return last.reshape(-1, RELATIONS, self.node_channels).mean(1)
