"""Modules that map node or graph embeddings to logits, and sort pooling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch_geometric.nn import SortAggregation

from mgnni.layers.regularization import Dropout
from mgnni.layers.reservoir import random_weight


class Readout(nn.Module):
    r"""An MLP ``linear, ReLU, dropout, linear`` on pooled node embeddings.

    Args:
        in_channels (int): Size of each input sample.
        channels (int): Size of the hidden layer.
        out_channels (int): Size of each output sample.
        dropout (float): Dropout probability.

    Shapes:
        - **input:** graph embeddings :math:`(|\mathcal{G}|, F_{in})`
        - **output:** logits :math:`(|\mathcal{G}|, F_{out})`
    """

    def __init__(self, in_channels: int, channels: int, out_channels: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, channels)
        self.dropout = Dropout(dropout, "graph")
        self.last = nn.Linear(channels, out_channels)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        self.first.reset_parameters()
        self.last.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.last(self.dropout(self.first(x).relu()))
        return logits


class RandomReadout(nn.Module):
    r"""A linear readout of random features: ``random linear, tanh, dropout, linear``.

    The random linear map is a buffer and is not trained.

    Args:
        in_channels (int): Size of each input sample.
        channels (int or None): Number of random features. :obj:`None` uses the input itself.
        out_channels (int): Size of each output sample.
        dropout (float): Dropout probability of the random features.
        level (str, optional): What a row of the input is, :obj:`"node"` or :obj:`"graph"`.
            (default: :obj:`"node"`)

    Shapes:
        - **input:** embeddings :math:`(*, F_{in})`
        - **output:** logits :math:`(*, F_{out})`
    """

    project: Tensor | None

    def __init__(
        self,
        in_channels: int,
        channels: int | None,
        out_channels: int,
        dropout: float,
        level: str = "node",
    ) -> None:
        super().__init__()
        project = None if channels is None else torch.empty(channels, in_channels)
        self.register_buffer("project", project)
        self.dropout = Dropout(dropout, level)
        self.linear = nn.Linear(in_channels if channels is None else channels, out_channels)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Resets the random features and all learnable parameters of the module."""
        if self.project is not None:
            channels, in_channels = self.project.shape
            self.project.copy_(random_weight(channels, in_channels, norm=1.0))
        self.linear.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        if self.project is not None:
            x = (x @ self.project.T).tanh()
        logits: Tensor = self.linear(self.dropout(x))
        return logits


class JumpingReadout(nn.Module):
    r"""The readout of GIN: the sum of one linear map, with dropout, per layer.

    Args:
        widths (Sequence[int]): Size of the embeddings of each layer, which are concatenated in the
            input.
        out_channels (int): Size of each output sample.
        dropout (float): Dropout probability of the output of each linear map.
        level (str, optional): What a row of the input is, :obj:`"node"` or :obj:`"graph"`.
            (default: :obj:`"node"`)

    Shapes:
        - **input:** embeddings :math:`(*, \sum_l F_l)`
        - **output:** logits :math:`(*, F_{out})`
    """

    def __init__(
        self, widths: Sequence[int], out_channels: int, dropout: float, level: str = "node"
    ) -> None:
        super().__init__()
        self.widths = list(widths)
        self.linear = nn.ModuleList([nn.Linear(width, out_channels) for width in widths])
        self.dropout = nn.ModuleList([Dropout(dropout, level) for _ in widths])

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for linear in self.linear:
            linear.reset_parameters()  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        layers = torch.split(x, self.widths, dim=1)
        parts = zip(self.dropout, self.linear, layers, strict=True)
        return torch.stack([dropout(linear(part)) for dropout, linear, part in parts]).sum(0)


class SortPooling(nn.Module):
    r"""Keep the ``k`` nodes per graph with the largest values in the last channel, sorted.

    It wraps :class:`torch_geometric.nn.SortAggregation` for nodes in any order.

    Args:
        k (int): Number of nodes to keep per graph. Smaller graphs are padded with zeros.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F)`, batch vector :math:`(|\mathcal{V}|)`
        - **output:** node features :math:`(|\mathcal{G}|, k, F)`
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.sort = SortAggregation(k)

    def forward(self, x: Tensor, batch: Tensor, num_graphs: int) -> Tensor:
        """Return the sorted nodes of each graph."""
        shape = (num_graphs, self.sort.k, x.size(1))
        if x.size(0) == 0:  # PyG takes the minimum of x, which does not exist
            return x.new_zeros(shape)
        order = torch.argsort(batch, stable=True)  # PyG expects a sorted batch vector
        out: Tensor = self.sort(x[order], batch[order], dim_size=num_graphs)
        return out.view(shape)


class SequenceReadout(nn.Module):
    r"""The readout of DGCNN: 1-D convolutions over sorted nodes, then an MLP.

    Args:
        channels (int): Size of each input sample.
        out_channels (int): Size of each output sample.
        length (int): Number of nodes per graph.
        conv_channels (tuple[int, int]): Number of output channels of the two convolutions.
        kernel_size (int): Kernel size of the second convolution.
        dense_channels (int): Size of the hidden layer of the MLP.
        dropout (float): Dropout probability in the MLP.

    Shapes:
        - **input:** node features :math:`(|\mathcal{G}|, k, F)`
        - **output:** logits :math:`(|\mathcal{G}|, F_{out})`
    """

    def __init__(
        self,
        channels: int,
        out_channels: int,
        *,
        length: int,
        conv_channels: tuple[int, int],
        kernel_size: int,
        dense_channels: int,
        dropout: float,
    ) -> None:
        super().__init__()
        # A convolution whose kernel size and stride are one node is a linear map per node.
        self.node = nn.Linear(channels, conv_channels[0])
        self.halve = nn.MaxPool1d(2)
        self.conv = nn.Conv1d(*conv_channels, kernel_size)
        width = (length // 2 - kernel_size + 1) * conv_channels[1]
        self.dense = Readout(width, dense_channels, out_channels, dropout)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for part in (self.node, self.conv, self.dense):
            part.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        sequence = self.node(x).relu().transpose(1, 2)
        sequence = self.conv(self.halve(sequence)).relu()
        logits: Tensor = self.dense(sequence.flatten(1))
        return logits
