"""GCNII: a deep GCN with initial residual connections and identity mapping."""

from __future__ import annotations

from torch import Tensor, nn

from mgnni.errors import check_int
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCN2Conv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.mlp import MLP
from mgnni.layers.regularization import Dropout
from mgnni.models.base import EncoderModel


class GCNII(EncoderModel):
    r"""GCNII: GCN with initial residual connections and identity mapping.

    From the `"Simple and Deep Graph Convolutional Networks" <https://arxiv.org/abs/2007.02133>`_
    paper.

    .. math::
        \mathbf{H}_0 = \mathrm{ReLU}(\mathbf{X} \mathbf{W}_0 + \mathbf{b}_0), \qquad
        \mathbf{H}_l = \mathrm{ReLU}\big(((1 - \alpha)\, \mathbf{P} \mathbf{H}_{l-1} + \alpha
        \mathbf{H}_0) ((1 - \beta_l) \mathbf{I} + \beta_l \mathbf{W}_l)\big), \qquad
        \beta_l = \log(\theta / l + 1),

    followed by a linear layer.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions. (default: :obj:`16`)
        alpha (float, optional): Strength of the initial residual connection, between 0 and 1.
            (default: :obj:`0.5`)
        theta (float, optional): Strength of the identity mapping, called lambda in the paper.
            (default: :obj:`1.0`)
        shared_weights (bool, optional): Whether propagated and initial features share one weight.
            Different weights give the variant GCNII*. (default: :obj:`True`)
        dropout (float, optional): Dropout probability before every layer. (default: :obj:`0.5`)
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
        num_layers: int = 16,
        alpha: float = 0.5,
        theta: float = 1.0,
        shared_weights: bool = True,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
    ) -> None:
        graph = GraphOptions(normalization, self_loops, flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_int("num_layers", num_layers)
        self.first = MLP((in_channels, hidden_channels), dropout, activate_last=True)
        self.convs = nn.ModuleList(
            GCN2Conv(hidden_channels, alpha, theta, layer, shared_weights=shared_weights)
            for layer in range(1, num_layers + 1)
        )
        self.dropout = nn.ModuleList(Dropout(dropout) for _ in self.convs)
        self.last = MLP((hidden_channels, self.node_channels), dropout, activate_last=False)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the output of the last convolution."""
        initial: Tensor = self.first(x)
        x = initial
        for dropout, conv in zip(self.dropout, self.convs, strict=True):
            x = conv(dropout(x), initial, propagation).relu()
        out: Tensor = self.last(x)
        return out
