"""MIGNN: an implicit graph neural network with a well-posed weight."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.product import multiplied
from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.regularization import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.layers.unit_rows import unit_rows
from mgnni.layers.well_posed import MonotoneWeight, OrthogonalWeight
from mgnni.models.base import EncoderModel
from mgnni.solve.result import SolveLog

PARAMETRIZATIONS = ("orthogonal", "monotone")
ROUNDING = 1e-6  # relative rounding error of a weight in float32


class MIGNN(EncoderModel):
    r"""MIGNN: monotone implicit graph neural network.

    From Baker, Wang, Hauck and Wang, "Implicit Graph Neural Networks: A Monotone Operator
    Viewpoint", ICML 2023.

    .. math::
        \mathbf{Z} = \mathrm{ReLU}(\mathbf{G} \mathbf{Z} \mathbf{W}^{\top} + \mathbf{G} \mathbf{X}
        \mathbf{\Omega}^{\top}), \qquad \mathbf{Y} = \mathbf{Z} \mathbf{V}^{\top}

    ``orthogonal``
        :math:`\mathbf{G} = \mathbf{P}`, and :math:`\mathbf{W}` is an orthogonal matrix times a
        factor below :math:`\kappa`, see :class:`~mgnni.layers.well_posed.OrthogonalWeight`. The
        map contracts by :math:`\kappa`.
    ``monotone``
        :math:`\mathbf{G} = \mathbf{I} - \mathbf{P}`, the normalised Laplacian of an undirected
        graph, and the symmetric part of :math:`\mathbf{W}` is bounded from above, see
        :class:`~mgnni.layers.well_posed.MonotoneWeight`. The map need not contract, but the
        forward-backward step :math:`\mathrm{ReLU}(\mathbf{Z} - \alpha F(\mathbf{Z}))` with
        :math:`F(\mathbf{Z}) = \mathbf{Z} - \mathbf{G} \mathbf{Z} \mathbf{W}^{\top} - \mathbf{G}
        \mathbf{X} \mathbf{\Omega}^{\top}` has the same solution and does: :math:`F` is strongly
        monotone with constant :math:`c = \min(1, m)` and has the Lipschitz constant :math:`\ell =
        1 + 2 \|\mathbf{W}\|_2`, so that :math:`\alpha = c / \ell^2` gives the contraction constant
        :math:`(1 - c^2 / \ell^2)^{1/2}`.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the equilibrium.
        out_channels (int): Number of classes or labels.
        parametrization (str, optional): Parametrization of the weight, :obj:`"orthogonal"` or
            :obj:`"monotone"`. (default: :obj:`"orthogonal"`)
        kappa (float, optional): Bound on the norm of an orthogonal weight, above 0 and below 1.
            (default: :obj:`0.9`)
        unit_rows (bool, optional): Whether to normalise the states of each node to unit length.
            (default: :obj:`False`)
        encoder (bool, optional): Whether a linear map with a bias precedes the equation, with
            dropout after it instead of after the equation, and graphs are read out by a linear map
            of summed states: the authors' model for graph classification.
            (default: :obj:`False`)
        dropout (float, optional): Dropout probability of the states. (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`True`)
        solver (str, optional): Solver of the equation, :obj:`"anderson"` or :obj:`"picard"`.
            (default: :obj:`"anderson"`)
        tol (float, optional): Relative residual to reach in every graph, in the forward and the
            backward pass. (default: :obj:`1e-6`)

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, F_{in})`,
          edge indices :math:`(2, |\mathcal{E}|)`,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*,
          batch vector :math:`(|\mathcal{V}|)` *(optional)*
        - **output:** logits :math:`(|\mathcal{V}|, F_{out})` or :math:`(|\mathcal{G}|, F_{out})`
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
        encoder: bool = False,
        dropout: float = 0.5,
        level: str = "auto",
        self_loops: bool = True,
        solver: str = "anderson",
        tol: float = 1e-6,
    ) -> None:
        graph = GraphOptions(self_loops=self_loops)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_choice("parametrization", parametrization, PARAMETRIZATIONS)
        self.steady_state = SteadyState(solver, tol, None)
        self.weight: OrthogonalWeight | MonotoneWeight = (
            OrthogonalWeight(hidden_channels, kappa)
            if parametrization == "orthogonal"
            else MonotoneWeight(hidden_channels)
        )
        # The step size of "monotone" is a Python number computed from the weights.
        self.supports_vmap = parametrization == "orthogonal"
        self.unit_rows = unit_rows
        self.encoder: nn.Module = nn.Identity()
        if encoder:
            self.encoder = nn.Sequential(nn.Linear(in_channels, hidden_channels), Dropout(dropout))
            self.readout, self.node_channels = None, out_channels  # a sum of logits
        width = hidden_channels if encoder else in_channels
        self.input_weight = nn.Linear(width, hidden_channels, bias=False)
        self.dropout = Dropout(0.0 if encoder else dropout)
        self.decoder = (
            nn.Linear(hidden_channels, out_channels, bias=False)
            if self.readout is None
            else nn.Identity()
        )

    @property
    def solve_log(self) -> SolveLog:
        """How the equation of the last pass was solved."""
        return self.steady_state.log

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the decoded states."""
        with torch.autocast(x.device.type, enabled=False):  # a certificate needs full precision
            z = self.states(x, propagation).to(x.dtype)
        if self.unit_rows:
            z = unit_rows(z)
        out: Tensor = self.decoder(self.dropout(z))
        return out

    def states(self, x: Tensor, propagation: Propagation) -> Tensor:
        r"""Return the solution of the equation.

        Args:
            x (Tensor): Node features.
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **input:** node features :math:`(|\mathcal{V}|, F_{in})`
            - **output:** states :math:`(|\mathcal{V}|, F)`
        """
        weight = self.weight().to(propagation.dtype)
        bias = self.input_weight(self.encoder(x)).to(propagation.dtype)
        if isinstance(self.weight, OrthogonalWeight):
            step, contraction = None, _contraction(self.weight.kappa, propagation)
        else:
            step, contraction = _forward_backward(weight, self.weight, propagation)

        def image(z: Tensor, weight: Tensor, bias: Tensor, values: Tensor) -> Tensor:
            drive = z @ weight.mT + bias
            hop = multiplied(values, drive, propagation)
            if step is None:
                return hop.relu()
            return (z - step * (z - drive + hop)).relu()

        params = (weight, bias, propagation.values)
        z: Tensor = self.steady_state(
            image, params, torch.zeros_like(bias), propagation, contraction=contraction
        )
        return z


def _contraction(kappa: float, propagation: Propagation) -> float | None:
    r"""Return the contraction constant of :math:`Z \mapsto P Z W^{\top}` with norm ``kappa`` of W.

    The bound on :math:`W` holds in the Euclidean norm, so nothing is proven if :math:`P` is
    bounded in another norm.
    """
    if propagation.norm.kind != "frobenius":
        return None
    return kappa * propagation.norm_bound * (1 + ROUNDING)


def _forward_backward(
    weight: Tensor, monotone: MonotoneWeight, propagation: Propagation
) -> tuple[float, float]:
    """Return the step size and the contraction constant of the forward-backward step."""
    if not propagation.symmetric or propagation.norm_bound > 1:
        raise ArgumentError(
            "the graph must be undirected with an operator of norm at most one for "
            f"parametrization='monotone' (got symmetric={propagation.symmetric}, norm bound "
            f"{propagation.norm_bound:.4g}), so that the eigenvalues of the Laplacian lie in "
            "[0, 2]; make it undirected, or use parametrization='orthogonal'"
        )
    constant = min(1.0, float(monotone.mu.detach().exp())) * (1 - ROUNDING)
    norm = float(torch.linalg.matrix_norm(weight.detach().double(), 2))
    lipschitz = (1 + 2 * norm) * (1 + ROUNDING)
    return constant / lipschitz**2, (1 - (constant / lipschitz) ** 2) ** 0.5
