"""MIGNN: an implicit graph network whose weight keeps its equation well posed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.csr import Product
from mgnni.graph.propagation import Propagation
from mgnni.layers.dropout import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.layers.well_posed import MonotoneWeight, OrthogonalWeight
from mgnni.models.base import GraphModel
from mgnni.solve.result import SolveLog

PARAMETRIZATIONS = ("orthogonal", "monotone")
ROUNDING = 1e-6  # relative; of a weight in float32


class MIGNN(GraphModel):
    r"""MIGNN of `Baker et al., ICML 2023`: implicit graph networks by monotone operators.

    .. math::  Z = \mathrm{ReLU}(G Z W^{\top} + G X \Omega^{\top}), \qquad
               \text{logits} = Z V^{\top}.

    ``orthogonal``
        :math:`G = P`, and :math:`W` is orthogonal up to a factor below :math:`\kappa`, see
        :class:`~mgnni.layers.well_posed.OrthogonalWeight`. The map contracts by :math:`\kappa`.
    ``monotone``
        :math:`G = I - P`, the normalised Laplacian of an undirected graph, and :math:`W` is
        bounded from one side, see :class:`~mgnni.layers.well_posed.MonotoneWeight`. The map need
        not contract, but its forward-backward step
        :math:`\mathrm{ReLU}(Z - \alpha F(Z))`, :math:`F(Z) = Z - G Z W^{\top} - G X \Omega^{\top}`,
        which has the same solution, does: :math:`F` is strongly monotone with a constant
        :math:`c = \min(1, m)` and has the Lipschitz constant :math:`\ell = 1 + 2 \|W\|_2`, so that
        :math:`\alpha = c / \ell^2` gives the factor :math:`(1 - c^2 / \ell^2)^{1/2}`.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the equilibrium.
        out_channels: classes, or labels.
        parametrization: of the weight; orthogonal, or monotone.
        kappa: bound on the norm of an orthogonal weight, above 0 and below 1.
        unit_rows: scale the states of every node to length one, as on chains.
        dropout: probability, of the states.
        level: ``"node"``, ``"graph"``, or ``"auto"``, by graph if a ``batch`` is given.
        self_loops: add a self-loop to every node.
        solver: anderson, or picard.
        tol: relative residual to be reached in every graph, forward and backward.

    Shapes:
        - **input:** ``x``, ``(num_nodes, in_channels)``; ``edge_index``, ``(2, num_edges)``
        - **output:** logits, ``(num_nodes or num_graphs, out_channels)``
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        parametrization: str = "orthogonal",
        kappa: float = 0.9,
        unit_rows: bool = False,
        dropout: float = 0.5,
        level: str = "auto",
        self_loops: bool = True,
        solver: str = "anderson",
        tol: float = 1e-6,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            self_loops=self_loops,
        )
        check_choice("parametrization", parametrization, PARAMETRIZATIONS)
        self.steady_state = SteadyState(solver, tol, None)
        self.weight: OrthogonalWeight | MonotoneWeight = (
            OrthogonalWeight(hidden_channels, kappa)
            if parametrization == "orthogonal"
            else MonotoneWeight(hidden_channels)
        )
        # The step of the other one is a number read from the weights of one run.
        self.shares_graph = parametrization == "orthogonal"
        self.unit_rows = unit_rows
        self.input_weight = nn.Linear(in_channels, hidden_channels, bias=False)
        self.dropout = Dropout(dropout)
        self.decoder = (
            nn.Linear(hidden_channels, out_channels, bias=False)
            if self.readout is None
            else nn.Identity()
        )

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved, forward and, once run, backward."""
        return self.steady_state.log

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return ``(num_nodes, row_channels)``."""
        with torch.autocast(x.device.type, enabled=False):  # a certificate needs full precision
            z = self.states(x, propagation).to(x.dtype)
        if self.unit_rows:
            z = nn.functional.normalize(z, dim=-1)
        rows: Tensor = self.decoder(self.dropout(z))
        return rows

    def states(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the equilibrium :math:`Z`, shape ``(num_nodes, hidden_channels)``."""
        weight = self.weight().to(propagation.dtype)
        bias = self.input_weight(x).to(propagation.dtype)
        if isinstance(self.weight, OrthogonalWeight):
            step, contraction = None, _contraction(self.weight.kappa, propagation)
        else:
            step, contraction = _forward_backward(weight, self.weight, propagation)

        def image(z: Tensor, weight: Tensor, bias: Tensor, values: Tensor) -> Tensor:
            drawn = z @ weight.mT + bias
            hop: Tensor = Product.apply(values, drawn, propagation)  # type: ignore[no-untyped-call]
            if step is None:
                return hop.relu()
            return (z - step * (z - drawn + hop)).relu()

        params = (weight, bias, propagation.values)
        z: Tensor = self.steady_state(
            image, params, torch.zeros_like(bias), propagation, contraction=contraction
        )
        return z


def _contraction(kappa: float, propagation: Propagation) -> float | None:
    r"""What is proven of :math:`Z \mapsto P Z W^{\top}` if :math:`W` has the norm ``kappa``.

    Rows are mixed by :math:`P` and columns by :math:`W`, which is bounded in the Euclidean norm
    alone; where :math:`P` is bounded in another one, nothing is.
    """
    if propagation.norm.kind != "frobenius":
        return None
    return kappa * propagation.norm_bound * (1 + ROUNDING)


def _forward_backward(
    weight: Tensor, monotone: MonotoneWeight, propagation: Propagation
) -> tuple[float, float]:
    """Return the step that contracts, and by how much it does."""
    if not propagation.symmetric or propagation.norm_bound > 1:
        raise ArgumentError(
            "the graph must be undirected and its operator of norm one at most with "
            "parametrization='monotone' (got another one), for the eigenvalues of the Laplacian "
            "to lie in [0, 2]; make it undirected, or use parametrization='orthogonal'"
        )
    constant = min(1.0, float(monotone.mu.detach().exp())) * (1 - ROUNDING)
    norm = float(torch.linalg.matrix_norm(weight.detach().double(), 2))
    lipschitz = (1 + 2 * norm) * (1 + ROUNDING)
    return constant / lipschitz**2, (1 - (constant / lipschitz) ** 2) ** 0.5
