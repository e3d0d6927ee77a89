"""SGC: a linear map of propagated features."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from mgnni.errors import check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.stack import Stack
from mgnni.models.base import EncoderModel


class SGC(EncoderModel):
    r"""SGC: simple graph convolution.

    From the `"Simplifying Graph Convolutional Networks" <https://arxiv.org/abs/1902.07153>`_
    paper.

    .. math::
        \mathbf{H} = \mathbf{P}^K \mathbf{X} \mathbf{W} + \mathbf{b}

    The linear map is applied before the propagation, which gives the same product with usually
    far fewer channels.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the node features that are pooled per graph. Not used to
            classify nodes.
        out_channels (int): Number of classes or labels.
        K (int, optional): Number of hops. (default: :obj:`2`)
        dropout (float, optional): Dropout probability of the features. (default: :obj:`0.0`)
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

    takes_sparse_features = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        K: int = 2,
        dropout: float = 0.0,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        conv = partial(GCNConv, power=check_int("K", K, least=0))
        widths = (in_channels, self.node_channels)
        self.stack = Stack(conv, widths, dropout, batch_norm=False, activate_last=False)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the propagated features."""
        out: Tensor = self.stack(x, propagation)[-1]
        return out
