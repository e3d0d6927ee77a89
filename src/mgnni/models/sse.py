"""SSE: steady states of a learnt update, found exactly or by the published steps."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import MLP

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.bounds import largest_degrees, row_sums
from mgnni.graph.csr import Product
from mgnni.graph.propagation import Propagation
from mgnni.layers.dropout import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width, check_widths
from mgnni.solve.result import SolveLog

VARIANTS = ("equilibrium", "published")
MESSAGES = ("receiver", "sender")


class SSE(GraphModel):
    r"""SSE, the steady-state embeddings of `Dai et al., ICML 2018`.

    A state is to stay as it is under an update by the features and the states around it:

    .. math::  h_v = T(h)_v = W_2\, \sigma\Big(W_1 \Big[x_v;\,
               \sum_{u \to v} w_{uv} [x_v; h_u]\Big]\Big), \qquad \sigma = \mathrm{ReLU},

    with :math:`x_u` for the second :math:`x_v` if ``message="sender"``.

    As published, nothing makes :math:`T` contract: it is applied a few times, damped and without
    gradients, :math:`h \leftarrow (1 - \alpha) h + \alpha T(h)` from zero, and once more with
    gradients, which are those of the last step alone. That is ``variant="published"``.

    With ``variant="equilibrium"`` the equation is solved. The block :math:`W_{1h}` of :math:`W_1`
    that meets :math:`h` is multiplied by :math:`\min(1, \kappa / (\|W_2\| \|W_{1h}\| \|P\|))`,
    with spectral norms, :math:`P` being the sum over neighbours in the graph of :math:`v`. Then
    :math:`T` contracts by :math:`\kappa`, since the ReLU is nowhere steeper than one; where it did
    so before it is left alone. Damping would not change the solution, and is left out.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the states.
        out_channels: classes, or labels.
        variant: equilibrium: the equation is solved; published: a few damped steps, and the
            gradient of one.
        kappa: contraction factor of the equilibrium variant, above 0 and below 1.
        alpha: damping of the published variant, above 0 and at most 1.
        steps: number of damped steps of the published variant.
        message: whose features go with the state of a neighbour: those of the receiver, or those
            of the sender, the neighbour itself.
        decoder_widths: hidden widths of the perceptron that decodes.
        dropout: probability, on the features and on what is decoded.
        normalization: how the graph is normalised; none: neighbours are summed up.
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
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization=normalization,
            self_loops=self_loops,
        )
        self.variant = check_choice("variant", variant, VARIANTS)
        self.message = check_choice("message", message, MESSAGES)
        if not 0 < kappa < 1:
            raise ArgumentError(
                f"'kappa' must lie in (0, 1), so that the equation contracts (got {kappa}); use 0.9"
            )
        if not 0 < alpha <= 1:
            raise ArgumentError(f"'alpha' must lie in (0, 1] (got {alpha}); use 1 for no damping")
        self.kappa, self.alpha = kappa, alpha
        self.steps = check_width("steps", steps, least=0)
        self.steady_state = SteadyState(solver, tol, max_iter)
        self.dropout = Dropout(dropout)
        self.first = nn.Linear(2 * in_channels + hidden_channels, hidden_channels, bias=False)
        self.last = nn.Linear(hidden_channels, hidden_channels, bias=False)
        widths = [hidden_channels, *check_widths("decoder_widths", decoder_widths), out_channels]
        self.row_channels = hidden_channels
        self.readout = nn.Sequential(Dropout(dropout), MLP(widths, norm=None))

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved; empty for the published variant."""
        return self.steady_state.log

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the states, shape ``(num_nodes, hidden_channels)``."""
        with torch.autocast(x.device.type, enabled=False):
            params = self._params(self.dropout(x).to(propagation.dtype), propagation)
            h = torch.zeros_like(params[1])
            if self.variant == "published":
                h = self._damped(h, params, propagation)
            else:
                h = self.steady_state(
                    lambda h, *params: self._update(h, params, propagation),
                    params,
                    h,
                    propagation,
                    contraction=self.kappa,
                )
        return h.to(x.dtype)

    def _damped(self, h: Tensor, params: tuple[Tensor, ...], propagation: Propagation) -> Tensor:
        """Take the published steps; gradients see the last one."""
        with torch.no_grad():
            for _ in range(self.steps):
                h = torch.lerp(h, self._update(h, params, propagation), self.alpha)
        return self._update(h, params, propagation)

    def _update(self, h: Tensor, params: tuple[Tensor, ...], propagation: Propagation) -> Tensor:
        """Return ``T(h)``."""
        values, drive, inner, outer, scale = params
        gathered: Tensor = Product.apply(values, h, propagation)  # type: ignore[no-untyped-call]
        return (scale * (gathered @ inner.T) + drive).relu() @ outer.T

    def _params(self, x: Tensor, propagation: Propagation) -> tuple[Tensor, ...]:
        """Return what the update depends on: edges, share of the features, weights and scale."""
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
    r"""Return a bound on :math:`\|P\|_2` in the graph of each node, shape ``(num_nodes,)``.

    That of the operator where it is the same for all graphs; else of each graph alone, so that no
    graph of a batch depends on the others.
    """
    if propagation.normalization in ("sym", "dir"):
        return propagation.values.new_full((propagation.num_nodes,), propagation.norm_bound)
    return largest_degrees(propagation).to(propagation.dtype)[propagation.graph_of_node()]
