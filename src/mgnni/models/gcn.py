"""GCN: a stack of graph convolutions."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.stack import Stack
from mgnni.models.base import EncoderModel


class GCN(EncoderModel):
    r"""GCN: graph convolutional network.

    From the `"Semi-Supervised Classification with Graph Convolutional Networks"
    <https://arxiv.org/abs/1609.02907>`_ paper.

    .. math::
        \mathbf{H}_{l+1} = \mathrm{ReLU}(\mathbf{P} \mathbf{H}_l \mathbf{W}_l + \mathbf{b}_l),
        \qquad \mathbf{H}_0 = \mathbf{X},

    without the last ReLU if nodes are classified. On undirected graphs :math:`\mathbf{P} =
    \mathbf{D}^{-1/2} (\mathbf{A} + \mathbf{I}) \mathbf{D}^{-1/2}`. On directed graphs :obj:`"dir"`
    divides by the square roots of the out-degree of the source and the in-degree of the target,
    while PyG's layer uses in-degrees for both. A self-loop of the input graph is added to that of
    :math:`\mathbf{I}`; PyG's layer replaces the latter.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions. (default: :obj:`2`)
        batch_norm (bool, optional): Whether to apply batch normalization before every ReLU.
            (default: :obj:`False`)
        dropout (float, optional): Dropout probability before every convolution.
            (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        normalization (str, optional): Normalization of the adjacency matrix. :obj:`"auto"` selects
            :obj:`"sym"` for undirected and :obj:`"dir"` for directed graphs.
            (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
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

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        batch_norm: bool = False,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        widths, activate_last = self.layer_widths(num_layers), self.readout is not None
        self.stack = Stack(GCNConv, widths, dropout, batch_norm, activate_last)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the output of the last convolution."""
        out: Tensor = self.stack(x, propagation)[-1]
        return out
