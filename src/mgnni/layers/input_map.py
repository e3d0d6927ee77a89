"""Maps from features, and from the graph, to the bias of the equations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice, check_int, check_ints
from mgnni.graph.memo import adjoint_of, memoize
from mgnni.graph.normalize import Bound, NodeNorm
from mgnni.graph.propagation import Propagation
from mgnni.layers.mlp import MLP
from mgnni.layers.regularization import Dropout
from mgnni.layers.row_blocks import fits_row_blocks, in_row_blocks

INPUT_MAPS = ("identity", "mlp", "mlp-relu", "graph")


class GraphInput(nn.Module):
    r"""Maps features and the rows of the adjacency matrix to the bias.

    .. math::
        f(\mathbf{X}, G) = \mathrm{ReLU}(\mathbf{X} \mathbf{W} + \mathbf{A} \mathbf{E} +
        \mathbf{A}^{\top} \mathbf{E}' + \mathbf{b})\, \mathbf{V} + \mathbf{c}

    with an embedding of every node in :math:`\mathbf{E}` and :math:`\mathbf{E}'`, as in the
    `"Large Scale Learning on Non-Homophilous Graphs: New Benchmarks and Strong Simple Methods"
    <https://arxiv.org/abs/2110.14446>`_ paper (LINKX). :math:`\mathbf{A}` has a one for every entry
    of the operator, whatever its weight. The map belongs to one graph: it cannot be applied to
    other nodes.

    Args:
        in_channels (int): Size of each input sample.
        channels (int): Number of channels of the bias.
        num_nodes (int): Number of nodes of the graph.
        dropout (float): Dropout probability.

    Shapes:
        - **input:** features :math:`(|\mathcal{V}|, F_{in})`, dense or sparse CSR, and the operator
        - **output:** bias :math:`(|\mathcal{V}|, F)`
    """

    def __init__(self, in_channels: int, channels: int, num_nodes: int, dropout: float) -> None:
        super().__init__()
        self.features = MLP((in_channels, channels), dropout, activate_last=False)
        self.embedding = nn.Parameter(torch.empty(2, num_nodes, channels))
        self.dropout = Dropout(dropout)
        self.linear = nn.Linear(channels, channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Resets all learnable parameters of the module."""
        self.features.reset_parameters()
        bound = max(self.embedding.size(1), 1) ** -0.5
        nn.init.uniform_(self.embedding, -bound, bound)
        self.linear.reset_parameters()

    def embedded(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Returns what the ReLU is applied to."""
        if propagation.num_nodes != self.embedding.size(1):
            raise ArgumentError(
                "'input_map' must not be 'graph' for other graphs than the one of the training, "
                f"which has {self.embedding.size(1)} nodes (got {propagation.num_nodes} nodes); "
                "train with input_map='mlp' to predict on new graphs"
            )
        adjacency, embedding = _adjacency(propagation), self.embedding.to(propagation.dtype)
        rows = adjacency.apply(embedding[0]) + adjoint_of(adjacency).apply(embedding[1])
        h: Tensor = self.features(x) + rows.to(x.dtype)
        return h

    def forward(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Returns the bias."""
        bias: Tensor = self.linear(self.dropout(self.embedded(x, propagation).relu()))
        return bias


@memoize
def _adjacency(propagation: Propagation) -> Propagation:
    """The operator with ones as entries; no bound on its norm is proven."""
    return Propagation(
        propagation.pattern,
        torch.ones_like(propagation.values),
        symmetric=propagation.symmetric,
        bound=Bound(math.inf, NodeNorm("frobenius"), "adjacency matrix without weights"),
        normalization="none",
    )


def make_input_map(
    name: str,
    in_channels: int,
    channels: int,
    widths: Sequence[int] | None,
    dropout: float,
    num_nodes: int | None,
) -> nn.Module:
    """Return the map from features to the bias.

    Args:
        name (str): One of :data:`INPUT_MAPS`.
        in_channels (int): Size of each input sample.
        channels (int): Number of channels of the bias.
        widths (Sequence[int], optional): Sizes of the hidden layers of an MLP.
        dropout (float): Dropout probability.
        num_nodes (int, optional): Number of nodes of the graph, for ``"graph"``.
    """
    check_choice("input_map", name, INPUT_MAPS)
    if name == "identity":
        if channels != in_channels:
            raise ArgumentError(
                "'hidden_channels' must equal in_channels with input_map='identity' (got "
                f"{channels} and {in_channels}); set it so, or use input_map='mlp'"
            )
        return nn.Identity()
    if name == "graph":
        if num_nodes is None:
            raise ArgumentError(
                "'num_nodes' must be given with input_map='graph' (got None), which has an "
                "embedding per node; pass data.num_nodes"
            )
        return GraphInput(in_channels, channels, check_int("num_nodes", num_nodes), dropout)
    hidden = (channels,) if widths is None else widths
    sizes = (in_channels, *check_ints("input_widths", hidden), channels)
    return MLP(sizes, dropout, activate_last=name == "mlp-relu")


def apply_input_map(
    input_map: nn.Module, x: Tensor, propagation: Propagation, low_memory: bool = False
) -> Tensor:
    r"""Return the bias of the equations.

    Args:
        input_map (torch.nn.Module): What :func:`make_input_map` returns.
        x (Tensor): Node features, which may be on the host.
        propagation (Propagation): The operator of the graph.
        low_memory (bool, optional): Whether to compute the activations of many nodes again in the
            backward pass, see :func:`~mgnni.layers.row_blocks.in_row_blocks`.
            (default: :obj:`False`)

    Shapes:
        - **x:** :math:`(|\mathcal{V}|, F_{in})`, dense or sparse CSR
        - **output:** bias :math:`(|\mathcal{V}|, F)`
    """
    bias: Tensor
    if isinstance(input_map, GraphInput):
        bias = input_map(x, propagation)
    elif low_memory and fits_row_blocks(input_map, x, propagation.device):
        bias = in_row_blocks(input_map, x, propagation.device)
    else:
        bias = input_map(x)
    return bias
