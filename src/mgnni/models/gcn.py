"""GCN: graph convolutions one after another."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.stack import Stack
from mgnni.models.base import GraphModel


class GCN(GraphModel):
    r"""GCN of `Kipf and Welling, ICLR 2017`.

    .. math::  H_{l+1} = \mathrm{ReLU}(P H_l W_l + b_l), \qquad H_0 = X,

    without the ReLU at the end where nodes are classified. On an undirected graph
    :math:`P = D^{-1/2} (A + I) D^{-1/2}`. On a directed one ``"dir"`` divides by the roots of the
    out-degree of the source and the in-degree of the target, where PyG's layer takes in-degrees
    twice. A self-loop of the graph adds to that of :math:`I`; in PyG's layer it takes its place.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        num_layers: graph convolutions.
        batch_norm: normalise what goes into a ReLU.
        dropout: probability, before every convolution.
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
        num_layers: int = 2,
        batch_norm: bool = False,
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
        self.stack = Stack(
            GCNConv,
            self.widths(num_layers),
            dropout,
            batch_norm,
            activate_last=self.readout is not None,
        )

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return what the last convolution makes."""
        rows: Tensor = self.stack(x, propagation)[-1]
        return rows
