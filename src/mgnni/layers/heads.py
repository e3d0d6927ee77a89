"""What follows the equilibria: from fused states to logits, by node or by graph."""

from __future__ import annotations

from torch import Tensor, nn
from torch_geometric.nn import global_add_pool

from mgnni.layers.dropout import Dropout
from mgnni.layers.norm import BatchNorm

HEADS = ("linear", "residual", "graph")


def pool(x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
    """Sum the rows of each graph; leave them alone if there is no ``batch``."""
    if batch is None:
        return x
    pooled: Tensor = global_add_pool(x, batch, num_graphs)
    return pooled


class LinearHead(nn.Module):
    """``[batch norm,] dropout, [sum over the graph,] linear without bias``."""

    def __init__(self, channels: int, out_channels: int, dropout: float, batch_norm: bool) -> None:
        super().__init__()
        self.norm = BatchNorm(channels) if batch_norm else None
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the decoder from a normal distribution of variance 1/channels."""
        nn.init.normal_(self.linear.weight, std=max(self.linear.in_features, 1) ** -0.5)
        if self.norm is not None:
            self.norm.reset_parameters()

    def forward(self, z: Tensor, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return one row a node, or a graph."""
        if self.norm is not None:
            z = self.norm(z)
        logits: Tensor = self.linear(pool(self.dropout(z), batch, num_graphs))
        return logits


class ResidualHead(nn.Module):
    r"""The authors' head for PPI, with a residual from the features themselves.

    .. math::  H_0 = \mathrm{ELU}(\mathrm{BN}(W_0 z + W_r x)), \qquad
               H_{i} = \mathrm{ELU}(\mathrm{BN}(W_i H_{i-1} + H_{i-1})),

    dropout before every map but the first two, and a linear map at the end.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        width: int,
        out_channels: int,
        num_layers: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.first = nn.Linear(channels, width)
        self.residual = nn.Linear(in_channels, width)
        self.hidden = nn.ModuleList([nn.Linear(width, width) for _ in range(num_layers)])
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for _ in range(num_layers + 1)])
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in range(num_layers + 1)])
        self.last = nn.Linear(width, out_channels)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in (self.first, self.residual, self.last, *self.hidden, *self.norms):
            part.reset_parameters()

    def forward(self, z: Tensor, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return one row a node, or a graph."""
        h = nn.functional.elu(self.norms[0](self.first(z) + self.residual(x)))
        for dropout, linear, norm in zip(self.dropout, self.hidden, self.norms[1:], strict=False):
            h = dropout(h)
            h = nn.functional.elu(norm(linear(h) + h))
        logits: Tensor = self.last(pool(self.dropout[-1](h), batch, num_graphs))
        return logits


class GraphHead(nn.Module):
    """The authors' head for graphs: ``k`` layers a node, a sum, ``k`` layers a graph, linear."""

    def __init__(self, channels: int, out_channels: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.node = nn.ModuleList([nn.Linear(channels, channels) for _ in range(num_layers)])
        self.graph = nn.ModuleList([nn.Linear(channels, channels) for _ in range(num_layers)])
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in range(2 * num_layers)])
        self.last = nn.Linear(channels, out_channels)

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for part in (*self.node, *self.graph, self.last):
            part.reset_parameters()

    def forward(self, z: Tensor, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return one row a graph."""
        half = len(self.node)
        for linear, dropout in zip(self.node, self.dropout[:half], strict=True):
            z = dropout(linear(z).relu())
        z = pool(z, batch, num_graphs)
        for linear, dropout in zip(self.graph, self.dropout[half:], strict=True):
            z = dropout(linear(z).relu())
        logits: Tensor = self.last(z)
        return logits
