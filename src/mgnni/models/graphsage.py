"""GraphSAGE: a node beside what its neighbours say on average."""

from __future__ import annotations

from torch import Tensor

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import AGGREGATIONS, SAGEConv
from mgnni.layers.stack import Stack
from mgnni.models.base import GraphModel


class GraphSAGE(GraphModel):
    r"""GraphSAGE of `Hamilton et al., NeurIPS 2017`, over all neighbours.

    .. math::  h_v' = \mathrm{ReLU}\big(W_1 h_v + W_2 \operatorname{aggr}_{u \to v} h_u + b\big),

    without the ReLU at the end where nodes are classified. The operator holds the edge weights as
    they are; a :class:`~mgnni.Propagation` of your own should be built with
    ``normalization="none"`` and ``self_loops=False``.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers.
        out_channels: classes, or labels.
        num_layers: convolutions.
        aggr: ``"mean"``, ``"sum"`` or ``"max"`` of the neighbours.
        project: send neighbours through a layer of their own first; with ``"max"``, the paper's
            pooling.
        batch_norm: normalise what goes into a ReLU.
        dropout: probability, before every convolution.
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
        aggr: str = "mean",
        project: bool = False,
        batch_norm: bool = False,
        dropout: float = 0.5,
        level: str = "auto",
        flow: str = "source_to_target",
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization="none",
            self_loops=False,
            flow=flow,
        )
        check_choice("aggr", aggr, AGGREGATIONS)
        self.stack = Stack(
            lambda a, b: SAGEConv(a, b, aggr, project=project),
            self.widths(num_layers),
            dropout,
            batch_norm,
            activate_last=self.readout is not None,
        )

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return what the last convolution makes."""
        rows: Tensor = self.stack(x, propagation)[-1]
        return rows
