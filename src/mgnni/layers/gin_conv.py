"""PyG's isomorphism convolution over a :class:`~mgnni.Propagation`."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch_geometric import nn as pyg

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import propagated
from mgnni.layers.norm import BatchNorm


class GINConv(pyg.GINConv):  # type: ignore[misc]
    """:class:`torch_geometric.nn.GINConv`; the operator must be neither normalised nor looped."""

    def propagate(
        self, edge_index: Propagation, x: tuple[Tensor, Tensor], size: Any = None
    ) -> Tensor:
        """Apply the operator, in place of PyG's walk over edges."""
        return propagated(edge_index, x[0])  # PyG tells sources from targets; here they are one


def perceptron(in_channels: int, channels: int) -> nn.Sequential:
    """Return ``linear, batch norm, ReLU`` twice: what GIN makes of a sum over neighbours."""
    return nn.Sequential(
        nn.Linear(in_channels, channels),
        BatchNorm(channels),
        nn.ReLU(),
        nn.Linear(channels, channels),
        BatchNorm(channels),
        nn.ReLU(),
    )
