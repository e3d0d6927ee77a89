"""GAT: attention over neighbours."""

from __future__ import annotations

from torch import Tensor, nn

from mgnni.graph.neighborhoods import closed_pattern
from mgnni.graph.propagation import Propagation
from mgnni.layers.attention_conv import AttentionConv
from mgnni.layers.dropout import Dropout
from mgnni.models.base import GraphModel
from mgnni.models.check import check_dropout, check_width


class GAT(GraphModel):
    r"""GAT of `Velickovic et al., ICLR 2018`.

    .. math::  h_v' = \mathrm{ELU}\Big(\Big\Vert_k \sum_{u \in N(v) \cup \{v\}}
               \alpha^k_{vu} W_k h_u\Big), \qquad
               \alpha^k_{vu} = \operatorname{softmax}_u \mathrm{LeakyReLU}\big(
               a_k^{\top} W_k h_u + b_k^{\top} W_k h_v\big).

    The heads :math:`k` of the last layer are averaged, without an ELU where nodes are classified.
    Edges count, whatever their weights: attention takes the place of these.

    Args:
        in_channels: features of a node.
        hidden_channels: width of a head.
        out_channels: classes, or labels.
        num_layers: attention layers.
        heads: of every layer but the last, put side by side.
        out_heads: of the last layer, averaged.
        residual: add a linear map of its input to every layer but the first and the last.
        attention_dropout: probability, of attention coefficients; none: as ``dropout``.
        dropout: probability, before every layer.
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
        heads: int = 8,
        out_heads: int = 1,
        residual: bool = False,
        attention_dropout: float | None = None,
        dropout: float = 0.6,
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
            self_loops=False,  # every node has one anyway
            flow=flow,
        )
        hidden = check_width("num_layers", num_layers) - 1
        wide = check_width("heads", heads) * hidden_channels
        share = check_dropout(dropout if attention_dropout is None else attention_dropout)
        self.convs = nn.ModuleList(
            AttentionConv(
                wide if index else in_channels,
                hidden_channels,
                heads,
                attention_dropout=share,
                residual=residual and index > 0,
            )
            for index in range(hidden)
        )
        self.convs.append(
            AttentionConv(
                wide if hidden else in_channels,
                self.row_channels,
                check_width("out_heads", out_heads),
                attention_dropout=share,
                concat=False,
            )
        )
        self.dropout = nn.ModuleList(Dropout(dropout) for _ in self.convs)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return what the last layer makes."""
        pattern = closed_pattern(propagation)
        for index, (dropout, conv) in enumerate(zip(self.dropout, self.convs, strict=True)):
            x = conv(dropout(x), pattern)
            if index + 1 < len(self.convs) or self.readout is not None:
                x = nn.functional.elu(x)
        return x
