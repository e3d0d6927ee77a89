"""The interface of a solution method."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor

from mgnni.solve.equation import Equations


class Proposal(NamedTuple):
    """States that a method believes to be accurate enough; the measured residual decides."""

    z: Tensor  # shape: (equations, nodes, channels)
    iterations: Tensor  # shape: (equations, graphs)
    exhausted: bool  # whether max_iter was too low
    hop: Tensor | None = None  # P^m z, if the method computed it
    image: Tensor | None = None  # gamma P^m z W + B, if the method computed it


class Method(ABC):
    """A method prepared for given equations. It proposes solutions and does not measure them.

    The method owns everything that follows from the equations: expansions, divisors and the like.

    Args:
        equations (Equations): The equations to solve.
    """

    name: ClassVar[str]
    needs_symmetric_operator: ClassVar[bool] = False
    needs_symmetric_weight: ClassVar[bool] = False

    def __init__(self, equations: Equations) -> None:
        self.equations = equations

    @abstractmethod
    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Returns states whose relative residual should be at most ``tol``.

        Args:
            bias (Tensor): The bias :math:`B`, shape ``(equations, num_nodes, channels)``.
            tol (float): Relative residual.
            max_iter (int): Largest number of iterations.
        """

    def prepared_for(self, equations: Equations) -> Method:
        """Returns this method for related equations, and shares what both have in common.

        Args:
            equations (Equations): The adjoint equations, or the equations on a part of the graph.
        """
        return type(self)(equations)
