"""GIND: nonlinear diffusion along edges, run to its end."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.graph.incidence import incidence
from mgnni.graph.propagation import Propagation
from mgnni.layers.dropout import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import GraphModel
from mgnni.models.check import check_dropout
from mgnni.solve.result import SolveLog


class GIND(GraphModel):
    r"""GIND of `Chen et al., ICML 2022`: implicit nonlinear diffusion.

    With the features :math:`H = X \Omega + b`, the scaled incidence matrix
    :math:`\hat G = G D^{-1/2}` of :class:`~mgnni.graph.incidence.Incidence`, and
    :math:`\sigma = \tanh`,

    .. math::  Z = -\hat G^{\top} \sigma(\hat G Z K^{\top} + G H U^{\top})\, K, \qquad
               \text{logits} = (D^{-1/2} Z + H)\, \Theta.

    The map on the right is minus the gradient of a convex function with a Lipschitz constant of
    :math:`2 \|K\|_2^2`. So :math:`Z` is the one minimiser of a strongly convex function, whatever
    :math:`K` is, and the damped map :math:`(1 - \alpha) Z + \alpha T(Z)` with
    :math:`\alpha = 1 / (1 + \|K\|_2^2)` contracts towards it by :math:`1 - \alpha`.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the diffusion.
        out_channels: classes, or labels.
        rescale: scale states by degrees inside and after the diffusion, as above; if not, states
            and features inside, and neither after.
        double_linear: give features a matrix of their own inside the diffusion, not that of states.
        state_dropout: probability, of entries of the states that are held at zero in one pass.
        dropout: probability, of the features and before the last map.
        level: ``"node"``, ``"graph"``, or ``"auto"``, by graph if a ``batch`` is given.
        self_loops: count one more neighbour in the degree of every node.
        solver: anderson, or picard.
        tol: relative residual to be reached in every graph, forward and backward.

    Shapes:
        - **input:** ``x``, ``(num_nodes, in_channels)``; ``edge_index``, ``(2, num_edges)``
        - **output:** logits, ``(num_nodes or num_graphs, out_channels)``
    """

    shares_graph = False  # the step is a number read from the weights of one run

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        rescale: bool = True,
        double_linear: bool = True,
        state_dropout: float = 0.0,
        dropout: float = 0.5,
        level: str = "auto",
        self_loops: bool = False,
        solver: str = "anderson",
        tol: float = 1e-6,
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
        check_dropout(state_dropout)
        self.rescale = rescale
        self.steady_state = SteadyState(solver, tol, None)
        self.encoder = nn.Linear(in_channels, hidden_channels)
        self.weight = nn.Linear(hidden_channels, hidden_channels, bias=False)
        self.input_weight = (
            nn.Linear(hidden_channels, hidden_channels, bias=False) if double_linear else None
        )
        self.input_dropout, self.state_dropout = Dropout(dropout), Dropout(state_dropout)
        self.dropout = Dropout(dropout)
        self.decoder = (
            nn.Linear(hidden_channels, out_channels) if self.readout is None else nn.Identity()
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew: by Kaiming's rule, and by Xavier's at the end."""
        super().reset_parameters()
        for part in (self.encoder, self.weight, self.input_weight):
            if part is not None:
                nn.init.kaiming_normal_(part.weight, nonlinearity="relu")
        nn.init.zeros_(self.encoder.bias)
        if isinstance(self.decoder, nn.Linear):
            nn.init.xavier_normal_(self.decoder.weight)
            nn.init.zeros_(self.decoder.bias)

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved, forward and, once run, backward."""
        return self.steady_state.log

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return ``(num_nodes, row_channels)``."""
        h = self.encoder(self.input_dropout(x))
        with torch.autocast(x.device.type, enabled=False):  # a certificate needs full precision
            states = self.states(h.to(propagation.dtype), propagation).to(h.dtype)
        rows: Tensor = self.decoder(self.dropout(states + h))
        return rows

    def states(self, h: Tensor, propagation: Propagation) -> Tensor:
        """Return what diffusion adds to features, shape ``(num_nodes, hidden_channels)``."""
        graph = incidence(propagation)
        k = self.weight.weight.to(h.dtype)
        own = k if self.input_weight is None else self.input_weight.weight.to(h.dtype)
        mask = self.state_dropout(torch.ones_like(h))
        drive = h @ own.T if self.rescale else graph.scale * (h @ own.T)
        # Entries that are not held at zero are multiplied by the largest of the mask.
        gain = 1 / (1 - self.state_dropout.p) if self.training else 1.0
        norm = float(torch.linalg.matrix_norm(k.detach().double(), 2)) * (1 + 1e-6)
        step = 1 / (1 + gain * norm**2)

        def damped(
            z: Tensor, k: Tensor, drive: Tensor, root: Tensor, scale: Tensor, mask: Tensor
        ) -> Tensor:
            z = z * (mask > 0)
            flow = graph.differences(scale * (z @ k.T) + drive, root).tanh()
            diffused = scale * graph.sums(flow, root) @ k
            return (1 - step) * z - step * mask * diffused

        params = (k, drive, graph.root, graph.scale, mask)
        z: Tensor = self.steady_state(
            damped, params, torch.zeros_like(h), propagation, contraction=1 - step
        )
        return graph.scale * z if self.rescale else z
