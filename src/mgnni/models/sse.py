"""SSE: steady states of a learnt update."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP

from mgnni.errors import check_choice, check_int, check_ints, check_number
from mgnni.graph.bounds import largest_degrees, row_sums
from mgnni.graph.product import multiplied
from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.regularization import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import EncoderModel
from mgnni.solve.result import SolveLog

VARIANTS = ("equilibrium", "published")
MESSAGES = ("receiver", "sender")


class SSE(EncoderModel):
    r"""SSE: stochastic steady-state embedding.

    From Dai, Kozareva, Dai, Smola and Song, "Learning Steady-States of Iterative Algorithms over
    Graphs", ICML 2018.

    The states are a fixed point of an update from features and neighbouring states:

    .. math::
        \mathbf{h}_v = T(\mathbf{h})_v = \mathbf{W}_2\, \mathrm{ReLU}\Big(\mathbf{W}_1
        \Big[\mathbf{x}_v;\, \sum_{u \to v} w_{uv} [\mathbf{x}_v; \mathbf{h}_u]\Big]\Big),

    with :math:`\mathbf{x}_u` in place of the second :math:`\mathbf{x}_v` if ``message="sender"``.

    In the published model :math:`T` need not contract. A few damped steps :math:`\mathbf{h}
    \leftarrow (1 - \alpha) \mathbf{h} + \alpha T(\mathbf{h})` are made from zero without gradients,
    followed by one step :math:`T(\mathbf{h})` with gradients. This is ``variant="published"``.

    With ``variant="equilibrium"`` the equation is solved. The block :math:`\mathbf{W}_{1h}` of
    :math:`\mathbf{W}_1` that multiplies :math:`\mathbf{h}` is scaled by :math:`\min(1, \kappa /
    (\|\mathbf{W}_2\|_2 \|\mathbf{W}_{1h}\|_2 \|\mathbf{P}\|_2))`, where :math:`\mathbf{P}` is the
    sum over neighbours in the graph of :math:`v`, so that :math:`T` contracts by :math:`\kappa`.
    Damping does not change the solution and is not used.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the states.
        out_channels (int): Number of classes or labels.
        variant (str, optional): :obj:`"equilibrium"` solves the equation, :obj:`"published"` makes
            a few damped steps and differentiates one. (default: :obj:`"equilibrium"`)
        kappa (float, optional): Contraction constant of the equilibrium variant, above 0 and
            below 1. (default: :obj:`0.9`)
        alpha (float, optional): Damping of the published variant, above 0 and at most 1.
            (default: :obj:`0.1`)
        steps (int, optional): Number of damped steps of the published variant.
            (default: :obj:`20`)
        message (str, optional): Whose features accompany the state of a neighbour, those of the
            :obj:`"receiver"` or of the :obj:`"sender"`. (default: :obj:`"receiver"`)
        decoder_widths (tuple[int, ...], optional): Sizes of the hidden layers of the decoder.
            (default: :obj:`(64, 32)`)
        dropout (float, optional): Dropout probability of the features and of the input of the
            decoder. (default: :obj:`0.0`)
        normalization (str, optional): Normalization of the adjacency matrix; without one,
            neighbours are summed. (default: :obj:`"none"`)
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

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        variant: str = "equilibrium",
        kappa: float = 0.9,
        alpha: float = 0.1,
        steps: int = 20,
        message: str = "receiver",
        decoder_widths: tuple[int, ...] = (64, 32),
        dropout: float = 0.0,
        normalization: str = "none",
        self_loops: bool = False,
        solver: str = "anderson",
        tol: float = 1e-6,
        max_iter: int | None = None,
        level: str = "auto",
    ) -> None:
        graph = GraphOptions(normalization, self_loops)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        self.variant = check_choice("variant", variant, VARIANTS)
        self.message = check_choice("message", message, MESSAGES)
        check_number("kappa", kappa, "(0, 1)", "the equation then contracts; 0.9 is usual")
        check_number("alpha", alpha, "(0, 1]", "1 is no damping")
        self.kappa, self.alpha = kappa, alpha
        self.steps = check_int("steps", steps, least=0)
        self.steady_state = SteadyState(solver, tol, max_iter)
        self.dropout = Dropout(dropout)
        self.first = nn.Linear(2 * in_channels + hidden_channels, hidden_channels, bias=False)
        self.last = nn.Linear(hidden_channels, hidden_channels, bias=False)
        widths = [hidden_channels, *check_ints("decoder_widths", decoder_widths), out_channels]
        self.node_channels = hidden_channels
        self.readout = nn.Sequential(Dropout(dropout, level), MLP(widths, norm=None))

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved; empty for the published variant."""
        return self.steady_state.log

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states."""
        with torch.autocast(x.device.type, enabled=False):
            params = self._params(self.dropout(x).to(propagation.dtype), propagation)
            h = torch.zeros_like(params[1])
            if self.variant == "published":
                with torch.no_grad():
                    for _ in range(self.steps):
                        h = torch.lerp(h, self._update(h, params, propagation), self.alpha)
                h = self._update(h, params, propagation)
            else:
                h = self.steady_state(
                    lambda h, *params: self._update(h, params, propagation),
                    params,
                    h,
                    propagation,
                    contraction=self.kappa,
                )
        return h.to(x.dtype)

    def _update(self, h: Tensor, params: tuple[Tensor, ...], propagation: Propagation) -> Tensor:
        """Return ``T(h)``."""
        values, drive, inner, outer, scale = params
        gathered = multiplied(values, h, propagation)
        return (scale * (gathered @ inner.T) + drive).relu() @ outer.T

    def _params(self, x: Tensor, propagation: Propagation) -> tuple[Tensor, ...]:
        """Return the parameters of the update: edges, features, two weights and the scale."""
        first, last = (part.weight.to(x.dtype) for part in (self.first, self.last))
        own, carried, inner = torch.split(first, [x.size(1), x.size(1), first.size(0)], dim=1)
        if self.message == "sender":
            gathered = propagation.apply(x)
        else:
            gathered = row_sums(propagation) * x
        scale = x.new_ones(())
        if self.variant == "equilibrium":
            norm = torch.linalg.matrix_norm(last, 2) * torch.linalg.matrix_norm(inner, 2)
            norm = norm * sum_bound(propagation).unsqueeze(1)
            scale = self.kappa / norm.clamp(min=self.kappa)
        return propagation.values, x @ own.T + gathered @ carried.T, inner, last, scale


def sum_bound(propagation: Propagation) -> Tensor:
    r"""Return a bound on :math:`\|\mathbf{P}\|_2` in the graph of each node.

    If the bound of the operator is not the same for all graphs, it is computed per graph, so that
    the graphs of a batch do not depend on one another.

    Args:
        propagation (Propagation): The operator :math:`\mathbf{P}`.

    Shapes:
        - **output:** :math:`(|\mathcal{V}|)`
    """
    if propagation.normalization in ("sym", "dir"):
        return propagation.values.new_full((propagation.num_nodes,), propagation.norm_bound)
    return largest_degrees(propagation).to(propagation.dtype)[propagation.graph_of_node()]
