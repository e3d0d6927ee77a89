"""IGNN: the implicit graph network with a nonlinear equilibrium."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from mgnni.errors import ArgumentError
from mgnni.graph.bounds import perron_bound
from mgnni.graph.csr import Product
from mgnni.graph.propagation import Propagation
from mgnni.layers.dropout import Dropout
from mgnni.layers.l1_ball import project_l1_ball_rows
from mgnni.layers.steady_state import SteadyState
from mgnni.models.base import GraphModel
from mgnni.models.check import check_width, check_widths
from mgnni.solve.result import SolveLog

ROUNDING = 1e-6  # relative; of a weight in float32


class ImplicitGraph(nn.Module):
    r"""One equilibrium :math:`Z = \mathrm{ReLU}(P Z W^{\top} + P X \Omega^{\top})`.

    :math:`W` is kept in :math:`\|W\|_\infty \le \kappa / \lambda`, with a proven bound
    :math:`\lambda` on the norm of :math:`P`. The map then contracts by :math:`\kappa`: take the
    norm of :math:`P` of every channel, and the channel where it is largest.

    Args:
        in_channels: width of the input.
        out_channels: width of the equilibrium.
        kappa: :math:`\kappa \in [0, 1)`.
        solver, tol, max_iter: see
            :func:`~mgnni.implicit.nonlinear.implicit_fixed_point`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kappa: float,
        solver: str,
        tol: float,
        max_iter: int | None,
    ) -> None:
        super().__init__()
        self.kappa = kappa
        self.steady_state = SteadyState(solver, tol, max_iter)
        self.weight = nn.Parameter(torch.empty(out_channels, out_channels))
        self.omega = nn.Parameter(torch.empty(out_channels, in_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw both matrices uniformly from within one over the root of the width."""
        reach = self.weight.size(0) ** -0.5
        nn.init.uniform_(self.weight, -reach, reach)
        nn.init.uniform_(self.omega, -reach, reach)

    def forward(self, x: Tensor, propagation: Propagation, log: SolveLog) -> Tensor:
        """Return the equilibrium, shape ``(num_nodes, out_channels)``."""
        bound = perron_bound(propagation)
        radius = self.kappa / bound.value / (1 + ROUNDING) if bound.value else torch.inf

        def step(z: Tensor, weight: Tensor, bias: Tensor, values: Tensor) -> Tensor:
            hop: Tensor = Product.apply(values, z, propagation)  # type: ignore[no-untyped-call]
            return torch.addmm(bias, hop, weight.T).relu()

        with torch.autocast(x.device.type, enabled=False):
            dtype = propagation.dtype
            bias = propagation.apply(nn.functional.linear(x.to(dtype), self.omega.to(dtype)))
            weight = self.projected(radius).to(dtype)
            z: Tensor = self.steady_state(
                step,
                (weight, bias, propagation.values),
                torch.zeros_like(bias),
                propagation,
                log,
                contraction=self.kappa,
                norm=bound.norm,
            )
            return z

    def projected(self, radius: float) -> Tensor:
        """Return the weight within the ball, with the gradient of the weight itself.

        In training the weight is moved there, so that the optimiser goes on from it: projected
        gradient descent. A pass for evaluation changes no parameter.
        """
        with torch.no_grad():
            inside = project_l1_ball_rows(self.weight, radius)
            if self.training:
                self.weight.copy_(inside)
        return inside + (self.weight - self.weight.detach())

    def extra_repr(self) -> str:
        """Widths and contraction factor."""
        out_channels, in_channels = self.omega.shape
        return f"{in_channels}, {out_channels}, kappa={self.kappa}"


class IGNN(GraphModel):
    r"""IGNN of `Gu et al., NeurIPS 2020`.

    .. math::  Z = \mathrm{ReLU}(P Z W^{\top} + P X \Omega^{\top}), \qquad
               \|W\|_\infty \le \kappa / \lambda_{\mathrm{pf}}(P), \qquad
               \text{logits} = V\, \mathrm{dropout}(Z),

    one equilibrium after the other if there are several. With ``residual``,
    :math:`X \leftarrow \mathrm{ELU}(Z + V X)` after every one, and the last, without an ELU, is as
    wide as there are classes.

    Args:
        in_channels: features of a node.
        hidden_channels: width of the equilibria.
        out_channels: classes, or labels.
        num_layers: equilibria, one after the other.
        widths: of the equilibria, in place of ``num_layers`` and ``hidden_channels``; with
            ``residual`` of those before the last.
        residual: add a linear map of its input to every equilibrium.
        unit_rows: scale the equilibrium of every node to length one, before dropout.
        kappa: contraction factor of the equilibria, in [0, 1).
        dropout: probability, before the last linear map; with ``residual`` before every layer but
            the first.
        level: ``"node"``, ``"graph"``, or ``"auto"``: by graph if a ``batch`` is given.
        normalization: of the graph; ``"none"`` leaves its weights as they are.
        self_loops: add a self-loop to every node.
        flow: which way messages go along an edge.
        solver: ``"anderson"`` or ``"picard"``.
        tol: relative residual to be reached in every graph, forward and backward.
        max_iter: most steps of a solve; by default as many as are proven to be enough.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 1,
        widths: tuple[int, ...] | None = None,
        residual: bool = False,
        unit_rows: bool = False,
        kappa: float = 0.9,
        dropout: float = 0.5,
        level: str = "auto",
        normalization: str = "auto",
        self_loops: bool = True,
        flow: str = "source_to_target",
        solver: str = "anderson",
        tol: float = 1e-6,
        max_iter: int | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            hidden_channels,
            out_channels,
            dropout=dropout,
            level=level,
            normalization=normalization,
            self_loops=self_loops,
            flow=flow,
        )
        if not isinstance(kappa, (int, float)) or not 0 <= kappa < 1:
            raise ArgumentError(f"'kappa' must lie in [0, 1) (got {kappa!r}); 0.9 is usual")
        check_width("num_layers", num_layers)
        if residual and unit_rows:
            raise ArgumentError(
                "'unit_rows' must be False with residual (got True), where the last rows are the "
                "logits; leave it out"
            )
        if widths is None:
            widths = (hidden_channels,) * (num_layers - residual)
        inner = (*check_widths("widths", widths), *([self.row_channels] if residual else []))
        if not inner or (level == "graph" and inner[-1] != hidden_channels):
            raise ArgumentError(
                f"'widths' must end with hidden_channels, {hidden_channels}, if graphs are summed "
                f"up, and not be empty (got {inner})"
            )
        steps = list(pairwise((in_channels, *inner)))
        self.layers = nn.ModuleList(
            [ImplicitGraph(a, b, kappa, solver, tol, max_iter) for a, b in steps]
        )
        self.residuals = nn.ModuleList([nn.Linear(a, b) for a, b in steps] if residual else [])
        self.unit_rows = unit_rows
        self.decoder = None
        if not residual and level != "graph":
            self.decoder = nn.Linear(inner[-1], out_channels, bias=False)
        drops = len(steps) - 1 if residual else int(self.decoder is not None)
        self.dropout = nn.ModuleList([Dropout(dropout) for _ in range(drops)])
        self.log = SolveLog()

    @property
    def solve_log(self) -> SolveLog:
        """How the equations of the last pass were solved, forward and, once run, backward."""
        return self.log

    def rows(self, x: Tensor, propagation: Propagation) -> Tensor:
        """Return the decoded equilibria."""
        self.log = SolveLog()
        rows = self._equilibria(x, propagation)
        if self.unit_rows:
            length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
            rows = rows / torch.where(length == 0, 1.0, length)  # zeros stay zeros
        if self.decoder is None:
            return rows
        logits: Tensor = self.decoder(self.dropout[0](rows))
        return logits

    def _equilibria(self, x: Tensor, propagation: Propagation) -> Tensor:
        for index, layer in enumerate(self.layers):
            if self.residuals and index:
                x = self.dropout[index - 1](nn.functional.elu(x))
            z = layer(x, propagation, self.log).to(x.dtype)
            x = z + self.residuals[index](x) if self.residuals else z
        return x
