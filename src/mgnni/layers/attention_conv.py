"""PyG's graph attention, without a row for every edge."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric import nn as pyg

from mgnni.graph.csr import Pattern
from mgnni.graph.weighted import weighted_sum
from mgnni.layers.dropout import Dropout


class AttentionConv(pyg.GATConv):  # type: ignore[misc]
    """:class:`torch_geometric.nn.GATConv` over a pattern, which has its self-loops already.

    Args:
        in_channels: features of a node.
        out_channels: width of a head.
        heads: how many attend to the neighbours side by side.
        attention_dropout: probability, of attention coefficients.
        options: of PyG's layer.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        heads: int,
        *,
        attention_dropout: float,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, heads, add_self_loops=False, **options)
        self.attention_dropout = Dropout(attention_dropout)

    def edge_updater(self, edge_index: Pattern, alpha: tuple[Tensor, Tensor], **_: Any) -> Tensor:
        """Return the attention of every entry, shape ``(nnz, heads)``."""
        source, target = alpha
        row, col = edge_index.row, edge_index.col.long()
        coefficient: Tensor = self.edge_update(
            source[col], target[row], None, row, None, edge_index.num_nodes
        )
        return coefficient

    def propagate(
        self, edge_index: Pattern, x: tuple[Tensor, Tensor], alpha: Tensor, **_: Any
    ) -> Tensor:
        """Sum the rows of the neighbours by their attention."""
        return weighted_sum(self.attention_dropout(alpha), x[0], edge_index)
