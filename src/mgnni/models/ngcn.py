"""N-GCN: a network of GCNs, each on a power of the operator."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv, check_powers
from mgnni.layers.inputs import MLP
from mgnni.layers.stack import Stack
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width

FUSIONS = ("cat", "attention")


class NGCN(GraphModel):
    r"""N-GCN of `Abu-El-Haija et al., UAI 2019`.

    .. math::  G_k = P^k\, \mathrm{ReLU}(P^k X W_k + b_k)\, V_k + c_k, \qquad
               \mathrm{ReLU}(\Vert_k G_k)\, U + d \quad\text{or}\quad
               \sum_k \operatorname{softmax}(m)_k\, G_k.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the hidden layer of each GCN.
        out_channels: classes, or labels.
        num_layers: convolutions of each GCN.
        powers: hops of a layer, one GCN each.
        replicas: how many GCNs there are of each power.
        fusion: ``"cat"``, a linear map of all outputs, or ``"attention"``, their mean by weights
            that are learnt and the same for all nodes.
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
        powers: tuple[int, ...] = (0, 1, 2, 3),
        replicas: int = 1,
        fusion: str = "cat",
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
        widths = self.widths(num_layers)
        towers = check_powers(powers) * check_width("replicas", replicas)
        self.towers = nn.ModuleList(
            [
                Stack(partial(GCNConv, power=k), widths, dropout, batch_norm, activate_last=False)
                for k in towers
            ]
        )
        self.last: MLP | None = None
        if check_choice("fusion", fusion, FUSIONS) == "cat":
            width = len(towers) * self.row_channels
            self.last = MLP((width, self.row_channels), dropout, activate_last=False)
        else:
            self.attention = nn.Parameter(torch.zeros(len(towers)))

    def reset_parameters(self) -> None:
        """Draw all parameters anew; attention starts out alike for all."""
        super().reset_parameters()
        if self.last is None:
            nn.init.zeros_(self.attention)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the outputs of all GCNs, fused."""
        outputs = [tower(x, propagation)[-1] for tower in self.towers]
        if self.last is not None:
            rows: Tensor = self.last(torch.cat(outputs, dim=-1).relu())
            return rows
        return torch.stack(outputs, dim=-1) @ self.attention.softmax(0)
