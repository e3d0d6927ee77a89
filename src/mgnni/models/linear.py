"""Logistic regression, which does not look at the graph: the lowest bar there is."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.inputs import MLP
from mgnni.models.base import GraphModel


class Linear(GraphModel):
    r"""Logistic regression on the features of a node, or on their sum over a graph.

    .. math::  X W + b.

    Args:
        in_channels: features of a node.
        hidden_channels: not used; all models take one.
        out_channels: classes, or labels.
        dropout: probability, of the features.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
    """

    takes_sparse_features = True
    own_readout = True  # none: a linear map of a sum needs no perceptron after it

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        dropout: float = 0.0,
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
        self.linear = MLP((in_channels, out_channels), dropout, activate_last=False)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the features."""
        rows: Tensor = self.linear(x)
        return rows
