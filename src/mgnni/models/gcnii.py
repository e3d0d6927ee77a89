"""GCNII: deep, by a share of the beginning in every layer, and weights near the identity."""

from __future__ import annotations

from torch import Tensor, nn

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCN2Conv
from mgnni.layers.dropout import Dropout
from mgnni.layers.inputs import MLP
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width


class GCNII(GraphModel):
    r"""GCNII of `Chen et al., ICML 2020`.

    .. math::  H_0 = \mathrm{ReLU}(X W_0 + b_0), \qquad
               H_l = \mathrm{ReLU}\big(((1 - \alpha) P H_{l-1} + \alpha H_0)
                     ((1 - \beta_l) I + \beta_l W_l)\big), \qquad
               \beta_l = \log(\theta / l + 1),

    and a linear map at the end.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        num_layers: graph convolutions.
        alpha: what a layer keeps of the beginning, from 0 to 1.
        theta: how far the weights are from the identity; the paper's lambda.
        shared_weights: one weight for both shares; without it the model is GCNII*.
        dropout: probability, before every map.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        normalization: of the graph; ``"auto"``: ``"sym"`` if it is undirected, else ``"dir"``.
        self_loops: add a self-loop to every node.
        flow: which way messages go along an edge.
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
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization=normalization,
            self_loops=self_loops,
            flow=flow,
        )
        numbers = range(1, check_width("num_layers", num_layers) + 1)
        self.first = MLP((in_channels, hidden_channels), dropout, activate_last=True)
        self.convs = nn.ModuleList(
            [
                GCN2Conv(hidden_channels, alpha, theta, layer, shared_weights=shared_weights)
                for layer in numbers
            ]
        )
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in self.convs])
        self.last = MLP((hidden_channels, self.row_channels), dropout, activate_last=False)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the last state."""
        first: Tensor = self.first(x)
        x = first
        for dropout, conv in zip(self.dropout, self.convs, strict=True):
            x = conv(dropout(x), first, propagation).relu()
        rows: Tensor = self.last(x)
        return rows
