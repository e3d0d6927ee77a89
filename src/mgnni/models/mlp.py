"""A perceptron, which does not look at the graph: what a graph network must beat."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers import inputs
from mgnni.models.base import GraphModel


class MLP(GraphModel):
    r"""A multilayer perceptron on the features of a node alone.

    .. math::  H_{l+1} = \mathrm{ReLU}(H_l W_l + b_l), \qquad H_0 = X,

    without the ReLU at the end where nodes are classified.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        num_layers: linear maps.
        dropout: probability, before every linear map.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
    """

    takes_sparse_features = True

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        dropout: float = 0.5,
        level: str = "auto",
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization="none",  # takes any weights, as nothing is done with them
            self_loops=False,
        )
        by_graph = self.readout is not None
        self.perceptron = inputs.MLP(self.widths(num_layers), dropout, activate_last=by_graph)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the perceptron of the features."""
        rows: Tensor = self.perceptron(x)
        return rows
