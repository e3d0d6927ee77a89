"""APPNP: an MLP followed by personalized PageRank."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import APPNPConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.mlp import MLP
from mgnni.models.base import EncoderModel


class APPNP(EncoderModel):
    r"""APPNP: personalized propagation of neural predictions.

    From the `"Predict then Propagate: Graph Neural Networks meet Personalized PageRank"
    <https://arxiv.org/abs/1810.05997>`_ paper.

    .. math::
        \mathbf{H}_0 = f(\mathbf{X}), \qquad
        \mathbf{H}_{k+1} = (1 - \alpha)\, \mathbf{P} \mathbf{H}_k + \alpha \mathbf{H}_0,
        \qquad k < K,

    where :math:`f` is an MLP. With ``level="graph"`` it ends with a ReLU.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of linear layers of the MLP. (default: :obj:`2`)
        K (int, optional): Number of propagation steps. (default: :obj:`10`)
        alpha (float, optional): Teleport probability, between 0 and 1. (default: :obj:`0.1`)
        dropout (float, optional): Dropout probability before every linear layer.
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

    takes_sparse_features = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        K: int = 10,
        alpha: float = 0.1,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        activate_last = self.readout is not None
        self.predict = MLP(self.layer_widths(num_layers), dropout, activate_last)
        self.pagerank = APPNPConv(K, alpha)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the propagated predictions."""
        out: Tensor = self.pagerank(self.predict(x), propagation)
        return out
