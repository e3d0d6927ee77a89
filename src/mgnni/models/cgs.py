"""CGS: a graph network defines a contracting linear equation whose solution is decoded."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP

from mgnni.errors import check_choice, check_int, check_ints
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_gamma
from mgnni.layers.attention import AttentionGN
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.regularization import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import EncoderModel
from mgnni.solve.result import SolveLog

GATHERS = ("sources", "targets")
# All of them have a Lipschitz constant of one, so that the equation still contracts.
NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": nn.Identity(),
    "relu": torch.relu,
    "tanh": torch.tanh,
}


class CGS(EncoderModel):
    r"""CGS: convergent graph solver.

    From Park, Choo and Park, "Convergent Graph Solvers", ICLR 2022.

    A graph network with attention computes a bias :math:`\mathbf{b}_u \in \mathbb{R}^k` per node
    and coefficients :math:`\boldsymbol{\ell}_{uv} \in \mathbb{R}^k` per edge. They define
    :math:`k` equations, one per head, whose solution is decoded by an MLP:

    .. math::
        \mathbf{z}_u = \phi\Big(\gamma \sum_{u \to v} \mathbf{a}_{uv} \odot \mathbf{z}_v +
        \mathbf{b}_u\Big), \qquad
        \mathbf{a}_{uv} = \frac{\operatorname{clip}(\boldsymbol{\ell}_{uv}, 0, 1)}{\deg^+(u)}.

    The coefficients of a node and a head sum to at most one, so the map contracts by
    :math:`\gamma` in the maximum norm for any graph and any parameters. The adjoint equation
    contracts by :math:`\gamma` in the sum norm.

    The only feature of an edge is its weight minus one, which is zero in unweighted graphs.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the hidden node and edge features of the graph network.
        out_channels (int): Number of classes or labels.
        heads (int, optional): Number of equations, and size of the states. (default: :obj:`32`)
        gamma (float, optional): Factor in front of the propagated states, at least 0 and below 1.
            (default: :obj:`0.5`)
        num_hidden_gn (int, optional): Number of hidden layers of the graph network.
            (default: :obj:`0`)
        aggregation (str, optional): Aggregation of the messages after the attention,
            :obj:`"mean"` or :obj:`"sum"`. (default: :obj:`"mean"`)
        activation (str, optional): Activation function of all MLPs, :obj:`"elu"`,
            :obj:`"leaky_relu"`, :obj:`"relu"`, :obj:`"silu"` or :obj:`"tanh"`.
            (default: :obj:`"silu"`)
        nonlinearity (str, optional): Nonlinearity of the equation, :obj:`"identity"`,
            :obj:`"relu"` or :obj:`"tanh"`. (default: :obj:`"identity"`)
        gather (str, optional): Whether a node aggregates the :obj:`"targets"` of its outgoing
            edges, as in the authors' code, or the :obj:`"sources"` of its incoming edges.
            (default: :obj:`"targets"`)
        decoder_widths (tuple[int, ...], optional): Sizes of the hidden layers of the decoder.
            (default: :obj:`(64, 32)`)
        dropout (float, optional): Dropout probability of the features and of the input of the
            decoder. (default: :obj:`0.0`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`False`)
        solver (str, optional): Solver of the equation, :obj:`"anderson"` or :obj:`"picard"`.
            (default: :obj:`"anderson"`)
        tol (float, optional): Relative residual to reach in every graph, in the forward and the
            backward pass. (default: :obj:`1e-6`)
        max_iter (int, optional): Maximum number of iterations. :obj:`None` uses as many as are
            proven to suffice. (default: :obj:`None`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
    """

    own_readout = True  # the decoder applies to states or to sums of states
    supports_edge_mask = False  # its coefficients are attention; weights are edge features

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
        graph = GraphOptions("none", self_loops)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        self.gamma = check_gamma(gamma)
        self.nonlinearity = check_choice("nonlinearity", nonlinearity, NONLINEARITIES)
        self.gather = check_choice("gather", gather, GATHERS)
        self.steady_state = SteadyState(solver, tol, max_iter)
        hidden = [hidden_channels] * check_int("num_hidden_gn", num_hidden_gn, least=0)
        nodes = [in_channels, *hidden, check_int("heads", heads)]
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
        widths = [heads, *check_ints("decoder_widths", decoder_widths), out_channels]
        self.node_channels = heads
        self.readout = nn.Sequential(
            Dropout(dropout, level), MLP(widths, act=activation, norm=None)
        )

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved."""
        return self.steady_state.log

    def ends(self, propagation: Propagation) -> tuple[Tensor, Tensor]:
        r"""Return the receiving and the sending node of each edge in the equation.

        Args:
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **output:** two tensors :math:`(|\mathcal{E}|)`
        """
        source, target = propagation.pattern.col.long(), propagation.pattern.row
        return (source, target) if self.gather == "targets" else (target, source)

    def equation(self, x: Tensor, propagation: Propagation) -> tuple[Tensor, Tensor]:
        r"""Return the coefficients and the bias of the equation.

        Args:
            x (Tensor): Node features.
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **input:** node features :math:`(|\mathcal{V}|, F_{in})`
            - **output:** coefficients :math:`(|\mathcal{E}|, k)`, bias :math:`(|\mathcal{V}|, k)`
        """
        source, target = propagation.pattern.col.long(), propagation.pattern.row
        edge = (propagation.values - 1).to(x.dtype).unsqueeze(1)
        x = self.dropout(x)
        for layer in self.encoder:
            x, edge = layer(x, edge, source, target)
        receiver, _ = self.ends(propagation)
        zeros = edge.new_zeros(propagation.num_nodes, 1)
        degree = zeros.index_add(0, receiver, torch.ones_like(edge[:, :1]))
        return edge.clamp(0, 1) / degree[receiver], x

    def step(self, z: Tensor, a: Tensor, b: Tensor, ends: tuple[Tensor, Tensor]) -> Tensor:
        r"""Apply the map of the equation once.

        Args:
            z (Tensor): States.
            a (Tensor): Coefficients.
            b (Tensor): Bias.
            ends (tuple[torch.Tensor, torch.Tensor]): As returned by :meth:`ends`.

        Shapes:
            - **input:** states :math:`(|\mathcal{V}|, k)`
            - **output:** states :math:`(|\mathcal{V}|, k)`
        """
        receiver, sender = ends
        gathered = torch.zeros_like(z).index_add(0, receiver, a * z[sender])
        return NONLINEARITIES[self.nonlinearity](self.gamma * gathered + b)

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states."""
        a, b = (part.to(propagation.dtype) for part in self.equation(x, propagation))
        # The ends are parameters of the map, so that transforms of torch.func see them.
        z: Tensor = self.steady_state(
            lambda z, a, b, *ends: self.step(z, a, b, ends),
            (a, b, *self.ends(propagation)),
            torch.zeros_like(b),
            propagation,
            contraction=self.gamma,
            norm="max",
        )
        return z.to(x.dtype)
