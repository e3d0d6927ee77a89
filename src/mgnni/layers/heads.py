"""Heads of MGNNI: from fused states to logits per node or per graph."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch_geometric.nn import global_add_pool

from mgnni.errors import ArgumentError, check_choice, check_int
from mgnni.layers.fusion import Fusion
from mgnni.layers.mlp import MLP
from mgnni.layers.regularization import BatchNorm, Dropout

HEADS = ("linear", "mlp", "residual", "graph")


def check_head(name: str, num_layers: int, batch_norm: bool, level: str) -> str:
    """Check the options of a head, and return the output level of the model.

    Args:
        name (str): One of :data:`HEADS`. The head ``"graph"`` pools the nodes of each graph.
        num_layers (int): Number of hidden layers.
        batch_norm (bool): Whether to normalize the states, for ``"linear"`` only.
        level (str): The output level that was asked for.
    """
    check_choice("head", name, HEADS)
    check_int("head_layers", num_layers, least=0)
    if batch_norm and name != "linear":
        raise ArgumentError(
            f"'batch_norm' must be False without head='linear' (got True with head={name!r}); "
            "leave it out"
        )
    if name == "graph" and level == "node":
        raise ArgumentError(
            "'level' must be 'graph' or 'auto' with head='graph' (got 'node'), which pools the "
            "nodes of each graph; use head='linear' for logits per node"
        )
    return "graph" if name == "graph" else level


def pool(x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
    r"""Sum node features per graph, or return them unchanged if there is no ``batch``.

    Args:
        x (Tensor): Node features.
        batch (Tensor or None): Index of the graph of each node.
        num_graphs (int): Number of graphs.

    Shapes:
        - **input:** node features :math:`(|\mathcal{V}|, F)`, batch vector :math:`(|\mathcal{V}|)`
        - **output:** :math:`(|\mathcal{G}|, F)`, or :math:`(|\mathcal{V}|, F)` without ``batch``
    """
    if batch is None:
        return x
    pooled: Tensor = global_add_pool(x, batch, num_graphs)
    return pooled


class LinearHead(nn.Module):
    r"""``[batch norm,] dropout, [sum pooling,] linear`` without bias.

    Args:
        channels (int): Size of each state.
        out_channels (int): Size of each output sample.
        dropout (float): Dropout probability.
        batch_norm (bool): Whether to normalise the states.

    Shapes:
        - **input:** states :math:`(|\mathcal{V}|, F)`, node features, batch vector
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
    """

    def __init__(self, channels: int, out_channels: int, dropout: float, batch_norm: bool) -> None:
        super().__init__()
        self.norm = BatchNorm(channels) if batch_norm else None
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(channels, out_channels, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters; the weight is normal with variance 1 / channels."""
        nn.init.normal_(self.linear.weight, std=max(self.linear.in_features, 1) ** -0.5)
        if self.norm is not None:
            self.norm.reset_parameters()

    def forward(self, z: Tensor, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return the logits, one row per node, or per graph if ``batch`` is given."""
        if self.norm is not None:
            z = self.norm(z)
        logits: Tensor = self.linear(pool(self.dropout(z), batch, num_graphs))
        return logits


class MLPHead(nn.Module):
    r"""``[dropout, linear, ReLU] x num_layers, dropout, [sum pooling,] linear``.

    Args:
        channels (int): Size of each state.
        width (int): Size of the hidden layers.
        out_channels (int): Size of each output sample.
        num_layers (int): Number of hidden layers.
        dropout (float): Dropout probability.

    Shapes:
        - **input:** states :math:`(|\mathcal{V}|, F)`, node features, batch vector
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
    """

    def __init__(
        self, channels: int, width: int, out_channels: int, num_layers: int, dropout: float
    ) -> None:
        super().__init__()
        widths = (channels, *[width] * num_layers)
        self.hidden = MLP(widths, dropout, activate_last=True)
        self.dropout = Dropout(dropout)
        self.last = nn.Linear(widths[-1], out_channels)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        self.hidden.reset_parameters()
        self.last.reset_parameters()

    def forward(self, z: Tensor, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return the logits, one row per node, or per graph if ``batch`` is given."""
        logits: Tensor = self.last(pool(self.dropout(self.hidden(z)), batch, num_graphs))
        return logits


class ResidualHead(nn.Module):
    r"""The head for PPI in the authors' code, with a residual connection from the features.

    .. math::
        \mathbf{H}_0 = \mathrm{ELU}(\mathrm{BN}(\mathbf{Z} \mathbf{W}_0 + \mathbf{X} \mathbf{W}_r)),
        \qquad \mathbf{H}_i = \mathrm{ELU}(\mathrm{BN}(\mathbf{H}_{i-1} \mathbf{W}_i +
        \mathbf{H}_{i-1})),

    with dropout before every further linear map, and a linear map at the end.

    Args:
        in_channels (int): Size of each node feature.
        channels (int): Size of each state.
        width (int): Size of the hidden layers.
        out_channels (int): Size of each output sample.
        num_layers (int): Number of hidden layers.
        dropout (float): Dropout probability.

    Shapes:
        - **input:** states :math:`(|\mathcal{V}|, F)`, node features
          :math:`(|\mathcal{V}|, F_{in})`, batch vector
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
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
        """Resets all learnable parameters of the module."""
        for part in (self.first, self.residual, self.last, *self.hidden, *self.norms):
            part.reset_parameters()

    def forward(self, z: Tensor, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return the logits, one row per node, or per graph if ``batch`` is given."""
        h = nn.functional.elu(self.norms[0](self.first(z) + self.residual(x)))
        for dropout, linear, norm in zip(self.dropout, self.hidden, self.norms[1:], strict=False):
            h = dropout(h)
            h = nn.functional.elu(norm(linear(h) + h))
        logits: Tensor = self.last(pool(self.dropout[-1](h), batch, num_graphs))
        return logits


class GraphHead(nn.Module):
    r"""The head for graph classification in the authors' code.

    It applies ``num_layers`` layers per node, sum pooling, ``num_layers`` layers per graph, and a
    linear map.

    Args:
        channels (int): Size of each state.
        out_channels (int): Size of each output sample.
        num_layers (int): Number of layers before, and after, the pooling.
        dropout (float): Dropout probability.

    Shapes:
        - **input:** states :math:`(|\mathcal{V}|, F)`, node features, batch vector
        - **output:** logits :math:`(|\mathcal{G}|, F_{out})`
    """

    def __init__(self, channels: int, out_channels: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        self.node = nn.ModuleList([nn.Linear(channels, channels) for _ in range(num_layers)])
        self.graph = nn.ModuleList([nn.Linear(channels, channels) for _ in range(num_layers)])
        levels = ["node"] * num_layers + ["graph"] * num_layers
        self.dropout = nn.ModuleList([Dropout(dropout, level) for level in levels])
        self.last = nn.Linear(channels, out_channels)

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        for part in (*self.node, *self.graph, self.last):
            part.reset_parameters()

    def forward(self, z: Tensor, x: Tensor, batch: Tensor | None, num_graphs: int) -> Tensor:
        """Return the logits, one row per graph."""
        half = len(self.node)
        for linear, dropout in zip(self.node, self.dropout[:half], strict=True):
            z = dropout(linear(z).relu())
        z = pool(z, batch, num_graphs)
        for linear, dropout in zip(self.graph, self.dropout[half:], strict=True):
            z = dropout(linear(z).relu())
        logits: Tensor = self.last(z)
        return logits


class StateReadout(nn.Module):
    r"""Fusion of scales and head as one module, for nodes that are not pooled.

    :func:`~mgnni.layers.row_blocks.in_row_blocks` applies it to blocks of rows.

    Args:
        fusion (Fusion): The fusion.
        head (nn.Module): The head, which takes states, features, batch vector and graphs.

    Shapes:
        - **input:** states :math:`(M, |\mathcal{V}|, F)` of :math:`M` scales
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})`
    """

    def __init__(self, fusion: Fusion, head: nn.Module) -> None:
        super().__init__()
        self.fusion, self.head = fusion, head
        self.training = head.training

    def forward(self, z: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.head(self.fusion(z)[0], None, None, 0)
        return logits


@dataclass(frozen=True)
class HeadSizes:
    """Sizes of a head.

    Args:
        in_channels (int): Number of features of a node.
        state_channels (int): Number of channels of the states.
        hidden_channels (int): Size of the hidden layers, for ``"mlp"`` and ``"residual"``.
        out_channels (int): Number of classes or labels.
        num_layers (int): Number of hidden layers, for all heads but ``"linear"``.
    """

    in_channels: int
    state_channels: int
    hidden_channels: int
    out_channels: int
    num_layers: int


def make_head(name: str, sizes: HeadSizes, dropout: float, batch_norm: bool = False) -> nn.Module:
    """Return the map from states to logits, whose options :func:`check_head` has checked.

    Args:
        name (str): One of :data:`HEADS`.
        sizes (HeadSizes): Its sizes.
        dropout (float): Dropout probability.
        batch_norm (bool, optional): Whether to normalize the states, for ``"linear"`` only.
            (default: :obj:`False`)
    """
    width, inner, out = sizes.state_channels, sizes.hidden_channels, sizes.out_channels
    if name == "linear":
        return LinearHead(width, out, dropout, batch_norm)
    if name == "mlp":
        return MLPHead(width, inner, out, sizes.num_layers, dropout)
    if name == "residual":
        return ResidualHead(sizes.in_channels, width, inner, out, sizes.num_layers, dropout)
    return GraphHead(width, out, sizes.num_layers, dropout)
