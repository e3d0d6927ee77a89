"""The implicit layer: one equilibrium equation a scale, solved together."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mgnni.errors import check_choice
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_gamma, check_options, check_propagation, check_scales
from mgnni.implicit.linear import MEMORY, ON_FAILURE, equilibria
from mgnni.implicit.log import SolveLog
from mgnni.layers.contraction import KnownContraction, contraction
from mgnni.solve.known import Known
from mgnni.solve.solve import Options
from mgnni.solve.solver import SOLVERS


class MultiscaleEquilibrium(nn.Module):
    r"""The equilibria of a graph at several scales.

    Returns, for every scale :math:`m`, the unique :math:`Z_m` with

    .. math::  Z_m = \gamma\, P^m Z_m\, g(F_m) + B, \qquad
               g(F) = F^{\top} F / (\|F^{\top} F\|_F + \epsilon).

    Args:
        channels: width :math:`h` of the states.
        scales: the powers :math:`m`, distinct.
        gamma: the contraction factor :math:`\gamma \in [0, 1)`.
        solver, tol, max_iter, memory, on_failure: see :func:`mgnni.solve_equilibrium`.
        warm_start: start from the states of the last pass over the same graph. They are solved
            for to the same tolerance, but within it depend on what was solved before.

    Attributes:
        factor: :math:`F_m`, stacked, shape ``(scales, channels, channels)``.
        log: how the last pass was solved; its ``backward`` fills when gradients arrive.

    Shapes:
        - **input:** :math:`B`, ``(num_nodes, channels)``, and the operator
        - **output:** ``(scales, num_nodes, channels)``
    """

    def __init__(
        self,
        channels: int,
        scales: Sequence[int] = (1, 2),
        gamma: float = 0.8,
        *,
        solver: str = "auto",
        tol: float = 1e-6,
        max_iter: int | None = None,
        memory: str = "fast",
        on_failure: str = "raise",
        warm_start: bool = False,
    ) -> None:
        super().__init__()
        self.scales = check_scales(scales)
        self.gamma = check_gamma(gamma)
        check_options(tol, max_iter)
        check_choice("solver", solver, (*SOLVERS, "auto"))
        self.options = Options(solver, tol, max_iter, warm_start)
        self.memory = check_choice("memory", memory, MEMORY)
        self.on_failure = check_choice("on_failure", on_failure, ON_FAILURE)
        self.factor = nn.Parameter(torch.empty(len(self.scales), channels, channels))
        self.log = SolveLog()
        self._known = Known()
        self._contraction = KnownContraction() if memory == "fast" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw every factor anew, by Xavier's rule."""
        for factor in self.factor:
            nn.init.xavier_uniform_(factor)

    def forward(self, bias: Tensor, propagation: Propagation) -> Tensor:
        """Solve for the states of every scale."""
        check_propagation(propagation)
        # An accelerator would have to wait for the answer.
        known = self._contraction if bias.device.type == "cpu" else None
        with torch.autocast(bias.device.type, enabled=False):  # a certificate needs full precision
            factor = self.factor.to(propagation.dtype)
            z, self.log = equilibria(
                propagation,
                contraction(factor, known=known),
                bias.to(propagation.dtype),
                self.scales,
                self.gamma,
                options=self.options,
                memory=self.memory,
                on_failure=self.on_failure,
                known=self._known,
                normed=True,
            )
        return z

    def extra_repr(self) -> str:
        """Scales, contraction factor and solver."""
        channels = self.factor.size(-1)
        return (
            f"{channels}, scales={self.scales}, gamma={self.gamma}, "
            f"solver={self.options.solver!r}, tol={self.options.tol:g}"
        )
