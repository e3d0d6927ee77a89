"""DGCNN: graph convolutions and sort pooling."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_int, check_ints
from mgnni.graph.bounds import row_sums
from mgnni.graph.masked import without_mask
from mgnni.graph.propagation import Propagation
from mgnni.layers.convs import GCNConv
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.readout import SequenceReadout, SortPooling
from mgnni.models.base import EncoderModel


class DGCNN(EncoderModel):
    r"""DGCNN: deep graph convolutional network with sort pooling, for graph classification.

    From Zhang, Cui, Neumann and Chen, "An End-to-End Deep Learning Architecture for Graph
    Classification", AAAI 2018.

    .. math::
        \mathbf{Z}_0 = \mathbf{X}, \qquad
        \mathbf{Z}_{t+1} = \tanh(\tilde{\mathbf{D}}^{-1} ((\mathbf{A} + \mathbf{I}) \mathbf{Z}_t
        \mathbf{W}_t + \mathbf{b}_t)), \qquad \mathbf{Z} = [\mathbf{Z}_1, \ldots, \mathbf{Z}_T],

    where :math:`\mathbf{Z}_T` has a single channel, and :math:`\tilde{\mathbf{D}}` holds the row
    sums of :math:`\mathbf{A} + \mathbf{I}`. They divide the bias as well, as in the authors' code,
    so that it tells the degree of a node; the formula of the paper has no bias. The nodes of each
    graph are sorted by :math:`\mathbf{Z}_T`, the first :math:`k` are kept, and 1-D convolutions
    followed by an MLP are applied to this sequence.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the output of all graph convolutions but the last.
        out_channels (int): Number of classes or labels.
        num_layers (int, optional): Number of graph convolutions, including the last one with a
            single channel. (default: :obj:`4`)
        k (int, optional): Number of nodes to keep per graph. The authors choose it such that 60
            percent of the graphs have at most as many nodes. (default: :obj:`30`)
        conv_channels (tuple[int, ...], optional): Number of output channels of the two 1-D
            convolutions. (default: :obj:`(16, 32)`)
        kernel_size (int, optional): Kernel size of the second 1-D convolution.
            (default: :obj:`5`)
        dense_channels (int, optional): Size of the hidden layer of the MLP. (default: :obj:`128`)
        dropout (float, optional): Dropout probability in the MLP. (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"graph"` or :obj:`"auto"`, which are the same.
            (default: :obj:`"auto"`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{G}|, F_{out})`
    """

    own_readout = True
    supports_vmap = False  # PyG's sort pooling uses boolean masks

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
                "'level' must be 'graph' or 'auto' (got 'node'), because DGCNN pools the nodes of "
                "each graph; use a model with logits per node, for example GCN"
            )
        # With flow="target_to_source" a node sums over itself and its out-neighbours: A + I.
        graph = GraphOptions("none", self_loops=True, flow="target_to_source")
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        self.level = "graph"
        check_int("num_layers", num_layers)
        check_int("kernel_size", kernel_size)
        check_int("dense_channels", dense_channels)
        if check_int("k", k) < 2 * kernel_size:
            raise ArgumentError(
                f"'k' must be at least twice kernel_size, {2 * kernel_size} (got {k}), because "
                "nodes are max-pooled in pairs before the second convolution; raise k or lower "
                "kernel_size"
            )
        if len(check_ints("conv_channels", conv_channels)) != 2:
            raise ArgumentError(
                f"'conv_channels' must hold two widths (got {tuple(conv_channels)}), one for each "
                "convolution; write (16, 32)"
            )
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), 1]
        self.convs = nn.ModuleList(GCNConv(before, after) for before, after in pairwise(widths))
        self.node_channels = sum(widths[1:])
        self.sort = SortPooling(k)
        self.readout = SequenceReadout(
            self.node_channels,
            out_channels,
            length=k,
            conv_channels=(conv_channels[0], conv_channels[1]),
            kernel_size=kernel_size,
            dense_channels=dense_channels,
            dropout=dropout,
        )

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the concatenated outputs of all convolutions."""
        with torch.autocast(x.device.type, enabled=False):  # sparse products need full precision
            degree = row_sums(without_mask(propagation))
        share = 1 / torch.where(degree == 0, 1.0, degree).to(x.dtype)
        outputs = []
        for conv in self.convs:
            x = (share * conv(x, propagation)).tanh()
            outputs.append(x)
        return torch.cat(outputs, dim=1)

    def pool(self, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return the sorted nodes that are kept of each graph."""
        out: Tensor = self.sort(x, batch, num_graphs)
        return out
