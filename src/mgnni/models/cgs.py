"""CGS: a graph network writes down a linear equation that contracts; its solution is decoded."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP
from torch_geometric.utils import scatter

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_gamma
from mgnni.layers.attention_gn import AttentionGN
from mgnni.layers.dropout import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width, check_widths
from mgnni.solve.result import SolveLog

GATHERS = ("sources", "targets")
# None of them is steeper than one, so that the equation contracts with them as without.
NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": nn.Identity(),
    "relu": torch.relu,
    "tanh": torch.tanh,
}


class CGS(GraphModel):
    r"""CGS, the convergent graph solver of `Park et al., ICLR 2022`.

    A graph network with attention writes a bias :math:`b_u \in \mathbb{R}^k` for every node and
    numbers :math:`\ell_{uv} \in \mathbb{R}^k` for every edge from :math:`u` to :math:`v`. These
    are :math:`k` equations, one a head, whose solution is decoded by a perceptron:

    .. math::  z_u = \phi\Big(\gamma \sum_{u \to v} a_{uv} \odot z_v + b_u\Big), \qquad
               a_{uv} = \frac{\operatorname{clip}(\ell_{uv}, 0, 1)}{\deg^+(u)}.

    The numbers :math:`a_{uv}` of a node and a head sum to one at most, so the map contracts by
    :math:`\gamma` in the largest absolute entry, whatever the graph and the parameters. The
    equation of the gradients contracts by as much in the sum of all absolute entries.

    An edge has one feature, its weight less one: zero in a graph without weights.

    Args:
        in_channels: features of a node.
        hidden_channels: width of nodes and edges between the layers of the graph network; its
            perceptrons are twice as wide.
        out_channels: classes, or labels.
        heads: equations, and so numbers of a node that are decoded.
        gamma: contraction factor, at least 0 and below 1.
        num_hidden_gn: layers of the graph network before the last one.
        aggregation: how a node takes its messages after the attention, mean or sum.
        activation: of all perceptrons: elu, leaky_relu, relu, silu or tanh.
        nonlinearity: of the equation: identity, relu or tanh.
        gather: whose states a node takes in the equation: of the targets of its edges, as the
            authors' code does, or of the sources of the edges that come in.
        decoder_widths: hidden widths of the perceptron that decodes.
        dropout: probability, on the features and on what is decoded.
        self_loops: add a self-loop to every node.
        solver: of the equation, anderson or picard.
        tol: relative residual to be reached in every graph, forward and backward.
        max_iter: most steps of a solve; none: as many as are proven to be enough.
        level: ``"node"``, ``"graph"``, or ``"auto"``: states are summed over a graph before they
            are decoded if a ``batch`` is given.
    """

    own_readout = True  # what is decoded is a state, or a sum of states

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        heads: int = 32,
        gamma: float = 0.5,
        num_hidden_gn: int = 0,
        aggregation: str = "mean",
        activation: str = "silu",
        nonlinearity: str = "identity",
        gather: str = "targets",
        decoder_widths: tuple[int, ...] = (64, 32),
        dropout: float = 0.0,
        self_loops: bool = False,
        solver: str = "anderson",
        tol: float = 1e-6,
        max_iter: int | None = None,
        level: str = "auto",
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization="none",
            self_loops=self_loops,
        )
        self.gamma = check_gamma(gamma)
        self.nonlinearity = check_choice("nonlinearity", nonlinearity, NONLINEARITIES)
        self.gather = check_choice("gather", gather, GATHERS)
        self.steady_state = SteadyState(solver, tol, max_iter)
        hidden = [hidden_channels] * check_width("num_hidden_gn", num_hidden_gn, least=0)
        nodes = [in_channels, *hidden, check_width("heads", heads)]
        edges = [1, *hidden, heads]
        self.dropout = Dropout(dropout)
        self.encoder = nn.ModuleList(
            AttentionGN(
                (nodes[i], nodes[i + 1]),
                (edges[i], edges[i + 1]),
                2 * hidden_channels,
                aggregation=aggregation,
                activation=activation,
            )
            for i in range(num_hidden_gn + 1)
        )
        widths = [heads, *check_widths("decoder_widths", decoder_widths), out_channels]
        self.row_channels = heads
        self.readout = nn.Sequential(Dropout(dropout), MLP(widths, act=activation, norm=None))

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved."""
        return self.steady_state.log

    def ends(self, propagation: Propagation) -> tuple[Tensor, Tensor]:
        """Return for every edge the node that takes, in the equation, and the one that gives."""
        source, target = propagation.pattern.col.long(), propagation.pattern.row
        return (source, target) if self.gather == "targets" else (target, source)

    def equation(self, x: Tensor, propagation: Propagation) -> tuple[Tensor, Tensor]:
        """Return the matrix, one row of heads an edge, and the bias, one a node."""
        source, target = propagation.pattern.col.long(), propagation.pattern.row
        edge = (propagation.values - 1).to(x.dtype).unsqueeze(1)
        x = self.dropout(x)
        for layer in self.encoder:
            x, edge = layer(x, edge, source, target)
        taker, _ = self.ends(propagation)
        degree = scatter(torch.ones_like(edge[:, :1]), taker, 0, propagation.num_nodes)
        return edge.clamp(0, 1) / degree[taker], x

    def step(self, z: Tensor, a: Tensor, b: Tensor, ends: tuple[Tensor, Tensor]) -> Tensor:
        """Apply the map of the equation once."""
        taker, giver = ends
        gathered = scatter(a * z[giver], taker, 0, z.size(0))
        return NONLINEARITIES[self.nonlinearity](self.gamma * gathered + b)

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states, shape ``(num_nodes, heads)``."""
        a, b = (part.to(propagation.dtype) for part in self.equation(x, propagation))
        ends = self.ends(propagation)
        z: Tensor = self.steady_state(
            lambda z, a, b: self.step(z, a, b, ends),
            (a, b),
            torch.zeros_like(b),
            propagation,
            contraction=self.gamma,
            norm="max",
        )
        return z.to(x.dtype)
