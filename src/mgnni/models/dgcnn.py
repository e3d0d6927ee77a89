"""DGCNN: graph convolutions whose last channel sorts the nodes into a sequence."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.sort_pooling import SequenceReadout, SortPooling
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width, check_widths


class DGCNN(GraphModel):
    r"""DGCNN of `Zhang et al., AAAI 2018`, for whole graphs.

    .. math::  Z_0 = X, \qquad Z_{t+1} = \tanh(\tilde D^{-1} (A + I) Z_t W_t), \qquad
               Z = [Z_1, \ldots, Z_T],

    the last of which has a single channel. By it the nodes of a graph are sorted, the first
    :math:`k` are kept, and one-dimensional convolutions and a dense layer read them in that order.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the graph convolutions but the last.
        out_channels: classes.
        num_layers: graph convolutions, with the last of one channel.
        k: nodes of a graph that are kept; the authors take a number that 60 percent of the graphs
            do not exceed.
        conv_channels: width of each of the two one-dimensional convolutions.
        kernel_size: neighbours in order that the second of them sees.
        dense_channels: width of the dense layer.
        dropout: probability, after the dense layer.
        level: ``"graph"``, or ``"auto"``, which is the same.
    """

    own_readout = True
    shares_graph = False  # PyG's sort pooling indexes by a mask, over which vmap cannot map

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 4,
        k: int = 30,
        conv_channels: tuple[int, ...] = (16, 32),
        kernel_size: int = 5,
        dense_channels: int = 128,
        dropout: float = 0.5,
        level: str = "auto",
    ) -> None:
        if level == "node":
            raise ArgumentError(
                "'level' must be 'graph' or 'auto' (got 'node'), as DGCNN sorts the nodes of a "
                "graph into one row; use a model with a row for each node, such as GCN"
            )
        # With flow="target_to_source" a node takes the mean over itself and the nodes it points
        # to, which is D^-1 (A + I); the other way each *source* would share itself out.
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization="row",
            self_loops=True,
            flow="target_to_source",
        )
        self.level = "graph"
        check_width("num_layers", num_layers)
        check_width("kernel_size", kernel_size)
        check_width("dense_channels", dense_channels)
        if check_width("k", k) < 2 * kernel_size:
            raise ArgumentError(
                f"'k' must be at least twice kernel_size, {2 * kernel_size} (got {k}), so that the "
                "second convolution has something to see; raise k or lower kernel_size"
            )
        if len(check_widths("conv_channels", conv_channels)) != 2:
            raise ArgumentError(
                f"'conv_channels' must hold two widths (got {tuple(conv_channels)}), one for each "
                "convolution; write (16, 32)"
            )
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), 1]
        self.convs = nn.ModuleList(
            [
                GCNConv(before, after, bias=False, normalize=False)
                for before, after in pairwise(widths)
            ]
        )
        self.row_channels = sum(widths[1:])
        self.sort = SortPooling(k)
        self.readout = SequenceReadout(
            self.row_channels,
            out_channels,
            length=k,
            conv_channels=(conv_channels[0], conv_channels[1]),
            kernel_size=kernel_size,
            dense_channels=dense_channels,
            dropout=dropout,
        )

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states of all convolutions side by side."""
        states = []
        for conv in self.convs:
            x = conv(x, propagation).tanh()
            states.append(x)
        return torch.cat(states, dim=1)

    def pool(self, rows: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return the rows that are kept of each graph, in order."""
        kept: Tensor = self.sort(rows, batch, num_graphs)
        return kept
