"""GCN: a stack of graph convolutions."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.readout import JumpingReadout
from mgnni.layers.stack import Stack
from mgnni.models.base import POOLINGS, EncoderModel


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

    With ``jumping`` the logits are the readout of GIN, :math:`\sum_l \mathbf{V}_l\,
    \mathrm{pool}(\mathbf{H}_l) + \mathbf{c}_l` over the input and all layers. With
    ``normalization="row"``, ``flow="target_to_source"`` and ``batch_norm=True`` this is the network
    that GIN's paper compares with and calls GCN: the mean over a node and its neighbours, and one
    linear map.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions. (default: :obj:`2`)
        batch_norm (bool, optional): Whether to apply batch normalization before every ReLU.
            (default: :obj:`False`)
        jumping (str, optional): Pooling of the nodes of a graph, :obj:`"sum"` or :obj:`"mean"`, if
            every layer is read out. :obj:`None` reads the last one only. (default: :obj:`None`)
        dropout (float, optional): Dropout probability before every convolution, or with
            ``jumping`` of the logits of every layer. (default: :obj:`0.5`)
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
        jumping: str | None = None,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        self.jumping = jumping
        self.takes_sparse_features = jumping is None  # otherwise the features are read out, too
        widths, activate_last = self.layer_widths(num_layers), self.readout is not None
        if jumping is not None:
            self.pooling = check_choice("jumping", jumping, POOLINGS)
            widths, activate_last = (*widths[:-1], hidden_channels), True
            self.node_channels = sum(widths)
            self.readout = JumpingReadout(widths, out_channels, dropout, level)
        before = 0.0 if jumping else dropout
        self.stack = Stack(GCNConv, widths, before, batch_norm, activate_last)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the output of the last convolution, or the input and all outputs."""
        outputs: list[Tensor] = self.stack(x, propagation)
        return outputs[-1] if self.jumping is None else torch.cat([x, *outputs], dim=1)
