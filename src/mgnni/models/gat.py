"""GAT: attention over neighbours."""

from __future__ import annotations

from torch import Tensor, nn

from mgnni.errors import check_dropout, check_int
from mgnni.graph.neighborhoods import closed_pattern
from mgnni.graph.propagation import Propagation
from mgnni.layers.attention import AttentionConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.regularization import Dropout
from mgnni.layers.sparse_features import SparseProduct
from mgnni.models.base import EncoderModel


class GAT(EncoderModel):
    r"""GAT: graph attention network.

    From the `"Graph Attention Networks" <https://arxiv.org/abs/1710.10903>`_ paper.

    .. math::
        \mathbf{h}_v^{\prime} = \mathrm{ELU}\Big(\Big\Vert_k \sum_{u \in \mathcal{N}(v) \cup \{v\}}
        \alpha^k_{vu} \mathbf{W}_k \mathbf{h}_u\Big), \qquad
        \alpha^k_{vu} = \operatorname{softmax}_u \mathrm{LeakyReLU}\big(\mathbf{a}_k^{\top}
        \mathbf{W}_k \mathbf{h}_u + \mathbf{b}_k^{\top} \mathbf{W}_k \mathbf{h}_v\big)

    The heads :math:`k` of the last layer are averaged, without an ELU if nodes are classified.
    Edge weights are ignored.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of each hidden sample per head.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of attention layers. (default: :obj:`2`)
        heads (int, optional): Number of heads of all layers but the last, which are concatenated.
            (default: :obj:`8`)
        out_heads (int, optional): Number of heads of the last layer, which are averaged.
            (default: :obj:`1`)
        residual (bool, optional): Whether to add a linear map of the input to the output of every
            layer except for the first and the last. (default: :obj:`False`)
        attention_dropout (float, optional): Dropout probability of the attention coefficients.
            :obj:`None` uses the same as dropout. (default: :obj:`None`)
        dropout (float, optional): Dropout probability before every layer. (default: :obj:`0.6`)
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

    takes_sparse_features = True
    uses_edge_weight = False
    supports_edge_mask = False  # its weights are attention

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        heads: int = 8,
        out_heads: int = 1,
        residual: bool = False,
        attention_dropout: float | None = None,
        dropout: float = 0.6,
        level: str = "auto",
        flow: str = "source_to_target",
    ) -> None:
        # Edge weights are not used, so any weights are valid.
        graph = GraphOptions("none", self_loops=False, flow=flow)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        hidden = check_int("num_layers", num_layers) - 1
        wide = check_int("heads", heads) * hidden_channels
        rate = dropout if attention_dropout is None else attention_dropout
        check_dropout("attention_dropout", rate)
        self.convs = nn.ModuleList(
            AttentionConv(
                wide if index else in_channels,
                hidden_channels,
                heads,
                attention_dropout=rate,
                residual=residual and index > 0,
            )
            for index in range(hidden)
        )
        self.convs.append(
            AttentionConv(
                wide if hidden else in_channels,
                self.node_channels,
                check_int("out_heads", out_heads),
                attention_dropout=rate,
                concat=False,
            )
        )
        self.dropout = nn.ModuleList(Dropout(dropout) for _ in self.convs)
        self.product = SparseProduct()

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the output of the last layer."""
        pattern = closed_pattern(propagation)
        for index, (dropout, conv) in enumerate(zip(self.dropout, self.convs, strict=True)):
            x = self.product.convolve(x, dropout, conv, pattern)
            if index + 1 < len(self.convs) or self.readout is not None:
                x = nn.functional.elu(x)
        return x
