"""An implicit layer that solves in another way, to take the place of the library's own."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from mgnni.graph.propagation import Propagation
from mgnni.implicit.contraction import contraction
from mgnni.models.mgnni import MGNNI
from mgnni.solve.result import SolveLog


class Solve(Protocol):
    """Solves the equations of all scales, differentiably."""

    def __call__(
        self,
        propagation: Propagation,
        weight: Tensor,
        bias: Tensor,
        scales: tuple[int, ...],
        gamma: float,
    ) -> Tensor:
        """Return the states, shape ``(scales, num_nodes, channels)``."""


class EquilibriumBy(nn.Module):
    """As :class:`~mgnni.layers.equilibrium.MultiscaleEquilibrium`, by a solver from elsewhere.

    Args:
        factor: the parameters :math:`F_m`.
        scales: the powers :math:`m`.
        gamma: the contraction factor.
        solve: the solver.
    """

    def __init__(self, factor: Tensor, scales: tuple[int, ...], gamma: float, solve: Solve) -> None:
        super().__init__()
        self.factor = nn.Parameter(factor.detach().clone())
        self.scales, self.gamma, self.solve = scales, gamma, solve
        self.log = SolveLog()  # such solvers certify nothing

    def forward(self, bias: Tensor, propagation: Propagation) -> Tensor:
        """Solve for the states of every scale."""
        return self.solve(propagation, contraction(self.factor), bias, self.scales, self.gamma)


def solved_by(model: MGNNI, solve: Solve) -> MGNNI:
    """Have a model's equations solved by another solver; the model is changed."""
    old = model.equilibrium
    layer = EquilibriumBy(old.factor, old.scales, old.gamma, solve)
    model.add_module("equilibrium", layer)
    return model
