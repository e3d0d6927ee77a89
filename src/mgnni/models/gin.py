"""GIN: sums over neighbours, MLPs, and a readout of every layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import check_choice, check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GINConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.readout import JumpingReadout
from mgnni.layers.regularization import BatchNorm
from mgnni.models.base import POOLINGS, EncoderModel


class GIN(EncoderModel):
    r"""GIN: graph isomorphism network.

    From the `"How Powerful are Graph Neural Networks?" <https://arxiv.org/abs/1810.00826>`_ paper.

    .. math::
        \mathbf{h}^{(0)}_v = \mathbf{x}_v, \qquad
        \mathbf{h}^{(k)}_v = \mathrm{MLP}_k\Big((1 + \epsilon_k)\, \mathbf{h}^{(k-1)}_v +
        \sum_{u \to v} \mathbf{h}^{(k-1)}_u\Big), \qquad
        \mathbf{y} = \sum_k \mathbf{W}_k \sum_v \mathbf{h}^{(k)}_v + \mathbf{b}_k

    An MLP is ``linear, batch norm, ReLU`` twice. If nodes are classified, there is no sum over
    nodes.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of layers that are read out, including the input
            features. (default: :obj:`5`)
        train_eps (bool, optional): Whether the weight of the node itself is learnable, starting
            from that of a neighbour. (default: :obj:`False`)
        pooling (str, optional): Pooling of the nodes of a graph, :obj:`"sum"` or :obj:`"mean"`.
            (default: :obj:`"sum"`)
        dropout (float, optional): Dropout probability of the logits of each layer.
            (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
    """

    own_readout = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 5,
        train_eps: bool = False,
        pooling: str = "sum",
        dropout: float = 0.5,
        level: str = "auto",
    ) -> None:
        graph = GraphOptions("none", self_loops=False)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_int("num_layers", num_layers)
        self.pooling = check_choice("pooling", pooling, POOLINGS)
        widths = [in_channels, *[hidden_channels] * (num_layers - 1)]
        self.convs = nn.ModuleList(
            GINConv(perceptron(width, hidden_channels), train_eps=train_eps)
            for width in widths[:-1]
        )
        self.node_channels = sum(widths)
        # The readout is linear, so that nodes may be pooled first, as in the authors' code.
        self.readout = JumpingReadout(widths, out_channels, dropout, level)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the concatenated outputs of all layers."""
        outputs = [x]
        for conv in self.convs:
            outputs.append(conv(outputs[-1], propagation))
        return torch.cat(outputs, dim=1)


def perceptron(in_channels: int, channels: int) -> nn.Sequential:
    """Return an MLP of ``linear, batch norm, ReLU`` twice.

    Args:
        in_channels (int): Size of each input sample.
        channels (int): Size of each hidden and output sample.
    """
    return nn.Sequential(
        nn.Linear(in_channels, channels),
        BatchNorm(channels),
        nn.ReLU(),
        nn.Linear(channels, channels),
        BatchNorm(channels),
        nn.ReLU(),
    )
