"""H2GCN: a node, its neighbours and theirs, side by side."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from mgnni.graph.neighborhoods import strict_hops
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import propagated
from mgnni.layers.dropout import Dropout
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width


class H2GCN(GraphModel):
    r"""H2GCN of `Zhu et al., NeurIPS 2020`.

    .. math::  H_0 = \mathrm{ReLU}(X W_e), \qquad
               H_k = [P_1 H_{k-1}, \; P_2 H_{k-1}], \qquad
               \text{logits} = [H_0, H_1, \dots, H_K] \, W_c.

    :math:`P_1` gathers from the nodes one hop away and :math:`P_2` from those two hops away and no
    nearer, both without the node itself, :math:`D^{-1/2} A D^{-1/2}` of their own degrees. On a
    directed graph hops go along the edges, and :math:`P_i` divides by the roots of out- and
    in-degrees; the authors make every graph undirected first. Edges count, whatever their weights.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the embedding; a round doubles it.
        out_channels: classes, or labels.
        num_layers: rounds of aggregation, 1 for H2GCN-1 and 2 for H2GCN-2.
        relu: apply a ReLU to the embedding; there is none elsewhere.
        dropout: probability, before the classifier.
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
        relu: bool = True,
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
            normalization="none",  # takes any weights, as nothing is done with them
            self_loops=False,
            flow=flow,
        )
        self.num_layers, self.relu = check_width("num_layers", num_layers, least=0), relu
        wide = hidden_channels * (2 ** (num_layers + 1) - 1)
        self.embed = Linear(in_channels, hidden_channels, bias=False, weight_initializer="glorot")
        self.dropout = Dropout(dropout)
        self.last = Linear(wide, self.row_channels, bias=False, weight_initializer="glorot")

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the linear map of all rounds."""
        hops = strict_hops(propagation)
        h = self.embed(x)
        rounds = [h.relu() if self.relu else h]
        for _ in range(self.num_layers):
            rounds.append(torch.cat([propagated(hop, rounds[-1]) for hop in hops], dim=1))
        rows: Tensor = self.last(self.dropout(torch.cat(rounds, dim=1)))
        return rows
