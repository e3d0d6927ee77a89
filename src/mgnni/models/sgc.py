"""SGC: a power of the operator, and a linear map."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.stack import Stack
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width


class SGC(GraphModel):
    r"""SGC of `Wu et al., ICML 2019`.

    .. math::  P^K X W + b.

    The linear map is applied first: the product is the same, and usually much narrower.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the sum where whole graphs are classified; else not used.
        out_channels: classes, or labels.
        K: hops.
        dropout: probability, of the features.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        normalization: of the graph; ``"auto"``: ``"sym"`` if it is undirected, else ``"dir"``.
        self_loops: add a self-loop to every node.
        flow: which way messages go along an edge.
    """

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
        check_width("K", K, least=0)
        self.stack = Stack(
            lambda a, b: GCNConv(a, b, power=K),
            (in_channels, self.row_channels),
            dropout,
            batch_norm=False,
            activate_last=False,
        )

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the propagated features."""
        rows: Tensor = self.stack(x, propagation)[-1]
        return rows
