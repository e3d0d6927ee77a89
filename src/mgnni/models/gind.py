"""GIND: the equilibrium of nonlinear diffusion along edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mgnni.errors import check_dropout
from mgnni.graph.incidence import incidence
from mgnni.graph.propagation import Propagation
from mgnni.layers.graph_module import GraphOptions
from mgnni.layers.regularization import Dropout
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import EncoderModel
from mgnni.solve.result import SolveLog


class GIND(EncoderModel):
    r"""GIND: graph implicit nonlinear diffusion.

    From the `"Optimization-Induced Graph Implicit Nonlinear Diffusion"
    <https://arxiv.org/abs/2206.14418>`_ paper.

    With :math:`\mathbf{H} = \mathbf{X} \mathbf{\Omega} + \mathbf{b}`, the scaled incidence matrix
    :math:`\hat{\mathbf{G}} = \mathbf{G} \mathbf{D}^{-1/2}` and :math:`\sigma = \tanh`,

    .. math::
        \mathbf{Z} = -\hat{\mathbf{G}}^{\top} \sigma(\hat{\mathbf{G}} \mathbf{Z} \mathbf{K}^{\top} +
        \mathbf{G} \mathbf{H} \mathbf{U}^{\top})\, \mathbf{K}, \qquad
        \mathbf{Y} = (\mathbf{D}^{-1/2} \mathbf{Z} + \mathbf{H})\, \mathbf{\Theta}.

    The right-hand side is the negative gradient of a convex function with Lipschitz constant
    :math:`2 \|\mathbf{K}\|_2^2`. So :math:`\mathbf{Z}` is the minimiser of a strongly convex
    function for any :math:`\mathbf{K}`, and the damped map :math:`(1 - \alpha) \mathbf{Z} + \alpha
    T(\mathbf{Z})` with :math:`\alpha = 1 / (1 + \|\mathbf{K}\|_2^2)` contracts by
    :math:`1 - \alpha`.

    Args:
        in_channels (int): Size of each input sample.
        hidden_channels (int): Size of the states.
        out_channels (int): Number of classes or labels.
        rescale (bool, optional): Whether the features enter the diffusion unscaled and the
            states are divided by the square root of their degree after it, as in the equation. If
            :obj:`False`, it is the features that are scaled, not the states after the diffusion.
            (default: :obj:`True`)
        double_linear (bool, optional): Whether features have a weight of their own inside the
            diffusion instead of that of the states. (default: :obj:`True`)
        state_dropout (float, optional): Probability of an entry of the states to be fixed at zero
            during a pass. (default: :obj:`0.0`)
        dropout (float, optional): Dropout probability of the features and before the last layer.
            (default: :obj:`0.5`)
        level (str, optional): Output level, :obj:`"node"`, :obj:`"graph"`, or :obj:`"auto"`, which
            returns logits per graph if ``batch`` is given. (default: :obj:`"auto"`)
        self_loops (bool, optional): Whether to add self-loops to the input graph.
            (default: :obj:`False`)
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

    supports_vmap = False  # the step size is a Python number computed from the weights

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
        graph = GraphOptions("none", self_loops)
        super().__init__(in_channels, hidden_channels, out_channels, dropout, level, graph)
        check_dropout("state_dropout", state_dropout)
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
        """Resets all learnable parameters of the module."""
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
        """How the equation of the last pass was solved."""
        return self.steady_state.log

    def encode(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the decoded states."""
        h = self.encoder(self.input_dropout(x))
        with torch.autocast(x.device.type, enabled=False):  # a certificate needs full precision
            states = self.states(h.to(propagation.dtype), propagation).to(h.dtype)
        out: Tensor = self.decoder(self.dropout(states + h))
        return out

    def states(self, h: Tensor, propagation: Propagation) -> Tensor:
        r"""Return the contribution of the diffusion to the node features.

        Args:
            h (Tensor): Encoded node features.
            propagation (Propagation): The operator of the graph.

        Shapes:
            - **input:** node features :math:`(|\mathcal{V}|, F)`
            - **output:** node features :math:`(|\mathcal{V}|, F)`
        """
        graph = incidence(propagation)
        k = self.weight.weight.to(h.dtype)
        own = k if self.input_weight is None else self.input_weight.weight.to(h.dtype)
        mask = self.state_dropout(torch.ones_like(h))
        drive = h @ own.T if self.rescale else graph.scale * (h @ own.T)
        # Entries that are not fixed at zero are scaled up by the dropout mask.
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
