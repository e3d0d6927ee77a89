"""MixHop: several powers of the operator in every layer."""

from __future__ import annotations

from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import MixHopConv, check_powers
from mgnni.layers.inputs import MLP
from mgnni.layers.stack import Stack
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width


class MixHop(GraphModel):
    r"""MixHop of `Abu-El-Haija et al., ICML 2019`.

    .. math::  H_{l+1} = \mathrm{ReLU}\Big(\big\Vert_{j \in \text{powers}} P^j H_l W_{l,j}
               + b_l\Big),

    and a linear map at the end.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layers, for each power.
        out_channels: classes, or labels.
        num_layers: graph convolutions.
        powers: hops of a layer.
        batch_norm: normalise what goes into a ReLU.
        dropout: probability, before every map.
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
        powers: tuple[int, ...] = (0, 1, 2),
        batch_norm: bool = True,
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
        width = len(check_powers(powers)) * hidden_channels
        self.stack = Stack(
            lambda a, _: MixHopConv(a, hidden_channels, powers),
            (in_channels, *(width,) * check_width("num_layers", num_layers)),
            dropout,
            batch_norm,
            activate_last=True,
        )
        self.last = MLP((width, self.row_channels), dropout, activate_last=False)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of the last layer."""
        rows: Tensor = self.last(self.stack(x, propagation)[-1])
        return rows
