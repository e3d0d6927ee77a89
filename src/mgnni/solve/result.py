"""What a solve returns: the point, the residual measured there, and what is certified of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from torch import Tensor


class Status(enum.Enum):
    """Why a solve stopped. The value is the advice shown to the user."""

    CONVERGED = "converged"
    MAX_ITER = "the iteration budget ran out; raise max_iter or loosen tol"
    STAGNATED = (
        "the residual stopped falling, which is where rounding sets in; loosen tol, or use float64"
    )
    NOT_FINITE = (
        "the iterates became inf or nan; check the size of the inputs and the norm_bound, if you "
        "gave one"
    )


@dataclass(frozen=True, kw_only=True)
class SolveStats:
    r"""How one equation :math:`Z = \gamma P^m Z W + B` was solved.

    With several graphs in a batch, each number is that of the graph that has the largest, and
    the ``graph_`` tensors hold one number a graph.

    Attributes:
        residual: :math:`\|\gamma P^m Z W + B - Z\|_F`, measured at the returned :math:`Z`.
        relative_residual: ``residual`` over the larger of :math:`\|B\|_F` and :math:`\|Z\|_F`;
            this is what ``tol`` bounds.
        iterations: steps taken: evaluations of the map, terms of the series, or the degree of
            the Chebyshev expansion.
        status: why the solve stopped.
        error_bound: certified bound on :math:`\|Z - Z^\star\|_F`, rounding included; infinite
            where no contraction is proven.
        relative_error_bound: ``error_bound`` over the larger of :math:`\|B\|_F`, :math:`\|Z\|_F`.
        contraction: the proven constant :math:`L < 1` that the certificate rests on.
        norm: the norm in which the map contracts by ``contraction``.
        tol: the tolerance that was asked for.
        solver: the solver that was used; never ``"auto"``.
        scale: :math:`m`.
    """

    residual: float
    relative_residual: float
    iterations: int
    status: Status
    error_bound: float
    relative_error_bound: float
    contraction: float
    norm: str
    tol: float
    solver: str
    scale: int
    graph_relative_residual: Tensor = field(repr=False)
    graph_error_bound: Tensor = field(repr=False)
    graph_iterations: Tensor = field(repr=False)

    @property
    def converged(self) -> bool:
        """Whether every graph met the tolerance."""
        return self.status is Status.CONVERGED

    def failure(self) -> str:
        """One sentence on what went wrong and what to do."""
        return (
            f"solver {self.solver!r} at scale {self.scale} stopped after {self.iterations} "
            f"iterations with relative residual {self.relative_residual:.2e} (tol={self.tol:.0e}, "
            f"contraction {self.contraction:.4f}): {self.status.value}"
        )


@dataclass(frozen=True, kw_only=True)
class SolveResult(SolveStats):
    """A solved equation: its statistics and :math:`Z` itself."""

    value: Tensor = field(repr=False)
