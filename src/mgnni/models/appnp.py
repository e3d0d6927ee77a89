"""APPNP: a perceptron, and steps of personalised PageRank."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import APPNP as PageRank
from mgnni.layers.inputs import MLP
from mgnni.models.base import GraphModel


class APPNP(GraphModel):
    r"""APPNP of `Gasteiger et al., ICLR 2019`.

    .. math::  H_0 = f(X), \qquad H_{k+1} = (1 - \alpha) P H_k + \alpha H_0, \qquad k < K,

    with a perceptron :math:`f`. It ends with a ReLU where whole graphs are classified.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        num_layers: linear maps of the perceptron.
        K: steps.
        alpha: what a step keeps of the beginning, from 0 to 1.
        dropout: probability, before every linear map.
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
        num_layers: int = 2,
        K: int = 10,
        alpha: float = 0.1,
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
        by_graph = self.readout is not None
        self.predict = MLP(self.widths(num_layers), dropout, activate_last=by_graph)
        self.pagerank = PageRank(K, alpha)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the predictions, spread over the graph."""
        spread: Tensor = self.pagerank(self.predict(x), propagation)
        return spread
