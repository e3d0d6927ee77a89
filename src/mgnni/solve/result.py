"""Results of solves: states, measured residuals, error bounds, and the rule that accepts them."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mgnni.errors import check_choice, check_int, check_number

MEMORY = ("fast", "low", "half")
ON_FAILURE = ("raise", "warn")


class Status(enum.Enum):
    """Why a solve stopped. The value is the advice shown to the user."""

    CONVERGED = "converged"
    MAX_ITER = "the iteration budget ran out; leave max_iter at None or raise it, or loosen tol"
    STAGNATED = "the residual stopped falling because of rounding; loosen tol, or use float64"
    NOT_FINITE = (
        "the states became inf or nan; check the size of the inputs and the norm_bound, if you "
        "gave one, or use float64 if the states exceed the range of float32"
    )


@dataclass(frozen=True, kw_only=True)
class SolveStats:
    r"""How one equation :math:`Z = \gamma P^m Z W + B` was solved.

    For a batch of graphs, each number is the largest over the graphs, and the ``graph_`` tensors
    hold one number per graph.

    Attributes:
        residual (float): :math:`\|\gamma P^m Z W + B - Z\|_F`, measured at the returned :math:`Z`.
        relative_residual (float): ``residual`` divided by the larger of :math:`\|B\|_F` and
            :math:`\|Z\|_F`. This is the number that ``tol`` bounds.
        iterations (int): Number of iterations: evaluations of the map, terms of the series, or
            the degree of the Chebyshev expansion.
        status (Status): Why the solve stopped.
        error_bound (float): Certified bound on :math:`\|Z - Z^\star\|_F`, rounding included;
            infinite if no contraction is proven.
        relative_error_bound (float): ``error_bound`` divided by the larger of :math:`\|B\|_F` and
            :math:`\|Z\|_F`.
        contraction (float): The proven Lipschitz constant :math:`L < 1` used by the certificate.
        norm (str): The norm in which the map contracts by ``contraction``.
        tol (float): The requested tolerance.
        solver (str): The solver that was used; never ``"auto"``.
        scale (int): The scale :math:`m`.
        graph_relative_residual (Tensor): Relative residuals, shape ``(num_graphs,)``.
        graph_error_bound (Tensor): Error bounds, shape ``(num_graphs,)``.
        graph_iterations (Tensor): Numbers of iterations, shape ``(num_graphs,)``.

    Shapes:
        - **graph_relative_residual, graph_error_bound, graph_iterations:** ``(num_graphs,)``
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
        """Returns one sentence on what went wrong and what to do."""
        return (
            f"solver {self.solver!r} at scale {self.scale} stopped after {self.iterations} "
            f"iterations with relative residual {self.relative_residual:.2e} (tol={self.tol:.0e}, "
            f"contraction {self.contraction:.4f}): {self.status.value}"
        )


@dataclass(frozen=True, kw_only=True)
class SolveResult(SolveStats):
    """A solved equation: its statistics and the states :math:`Z`.

    Attributes:
        value (Tensor): The states, shape ``(num_nodes, channels)``.

    Shapes:
        - **value:** ``(num_nodes, channels)``
    """

    value: Tensor = field(repr=False)

    @classmethod
    def of(cls, value: Tensor, records: Sequence[SolveStats]) -> SolveResult:
        """Returns states with the worst of their records; ``vmap`` makes one record per member."""
        worst = max(records, key=lambda one: one.relative_residual)
        return cls(value=value, **{one.name: getattr(worst, one.name) for one in fields(worst)})


class Acceptance(NamedTuple):
    """Whether solves met their tolerance; all arrays have shape ``(equations, graphs)``."""

    relative: NDArray[np.float64]  # residual over reference
    relative_bound: NDArray[np.float64]  # error bound over reference
    met: NDArray[np.bool_]


@dataclass(eq=False)
class Records:
    """The measured numbers of a stack of solves, possibly still on a device.

    A deferred result: reading :attr:`stats` transfers the numbers to the host.

    Args:
        numbers (Tensor): Residual norm, reference norm, error bound, contraction constant and
            iterations; float64, shape ``(5, equations, graphs)``.
        scales (tuple[int, ...]): Scale of each equation.
        norm (str): The norm in which the equations contract.
        tol (float): The requested tolerance.
        solver (str): The solver that was used.
        floor (float, optional): Residuals up to this size consist of subnormal numbers only and
            are accepted. (default: :obj:`0.0`)
        exhausted (Sequence[bool], optional): Per equation, whether the iteration budget ran out.
        owner (object, optional): Kept alive with the numbers: the plan whose device memory a
            recorded CUDA graph reads.
    """

    numbers: Tensor
    scales: tuple[int, ...]
    norm: str
    tol: float
    solver: str
    floor: float = 0.0
    exhausted: tuple[bool, ...] | None = None
    owner: object = field(default=None, repr=False)

    @property
    def deferred(self) -> bool:
        """Whether the numbers have not been read yet; they may still be on a device."""
        return "stats" not in self.__dict__

    def accept(self, numbers: NDArray[np.float64]) -> Acceptance:
        """Decides which equations are solved. This is the only acceptance rule.

        A graph is solved if its residual is at most ``tol`` times the larger of the norms of
        states and bias, or at most ``floor``.
        """
        residual, reference, bound = numbers[:3]
        with np.errstate(invalid="ignore", divide="ignore"):
            relative = np.where(residual == 0, 0.0, residual / reference)
            relative_bound = np.where(bound == 0, 0.0, bound / reference)
        return Acceptance(
            relative, relative_bound, (relative <= self.tol) | (residual <= self.floor)
        )

    @cached_property
    def stats(self) -> tuple[SolveStats, ...]:
        """One record per equation; waits for the device at the first access."""
        on_host = self.numbers.cpu()
        numbers = on_host.numpy()
        residual, _, bound, contraction, iterations = numbers
        relative, relative_bound, met = self.accept(numbers)
        graph_steps = np.where(np.isnan(iterations), 0.0, iterations)
        every = (residual, relative, bound, relative_bound, contraction, graph_steps)
        # Largest number over the graphs of each equation; nan if one is nan.
        worst = np.stack(every).max(-1, initial=0.0).T.tolist()
        accepted = np.all(met, axis=-1, keepdims=True)
        per_graph = torch.from_numpy(relative), on_host[2], torch.from_numpy(graph_steps).long()
        records = []
        for i, scale in enumerate(self.scales):
            if accepted[i, 0]:
                status = Status.CONVERGED
            elif not (math.isfinite(worst[i][0]) and math.isfinite(worst[i][1])):
                status = Status.NOT_FINITE
            elif self.exhausted is not None and self.exhausted[i]:
                status = Status.MAX_ITER
            else:
                status = Status.STAGNATED
            records.append(
                SolveStats(
                    residual=worst[i][0],
                    relative_residual=worst[i][1],
                    iterations=int(worst[i][5]),
                    status=status,
                    error_bound=worst[i][2],
                    relative_error_bound=worst[i][3],
                    contraction=worst[i][4],
                    norm=self.norm,
                    tol=self.tol,
                    solver=self.solver,
                    scale=scale,
                    graph_relative_residual=per_graph[0][i],
                    graph_error_bound=per_graph[1][i],
                    graph_iterations=per_graph[2][i],
                )
            )
        return tuple(records)

    @property
    def converged(self) -> bool:
        """Whether every equation met its tolerance; waits for the device."""
        return all(one.converged for one in self.stats)


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved stack of equations.

    Args:
        z (Tensor): The states, shape ``(equations, num_nodes, channels)``.
        hop (Tensor): :math:`P^m Z` at the states; the gradient of the weight needs it.
        records (Records): How the equations were solved.
    """

    z: Tensor
    hop: Tensor
    records: Records


@dataclass(frozen=True)
class Options:
    """How equations shall be solved; see :func:`mgnni.solve_equilibrium`.

    All but the name of the solver is checked here. Which solvers there are is known to
    :mod:`mgnni.solve.prepare`.
    """

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int | None = None
    warm_start: bool = False
    memory: str = "fast"
    on_failure: str = "raise"

    def __post_init__(self) -> None:
        hint = "it bounds a relative residual; 1e-6 suits float32"
        check_number("tol", self.tol, "(0, 1)", hint)
        if self.max_iter is not None:  # None: a number that provably suffices
            check_int("max_iter", self.max_iter)
        check_choice("memory", self.memory, MEMORY)
        check_choice("on_failure", self.on_failure, ON_FAILURE)


@dataclass
class SolveLog:
    """How the equations of one pass were solved, with one record per scale.

    Args:
        forward_records (tuple[Records, ...], optional): Records of the equations.
        backward_records (tuple[Records, ...], optional): Records of the adjoint equations.
    """

    forward_records: tuple[Records, ...] = ()
    backward_records: tuple[Records, ...] = ()

    @classmethod
    def merged(cls, logs: Iterable[SolveLog]) -> SolveLog:
        """Returns the records of several logs, in their order, as one log."""
        every = list(logs)
        return cls(
            tuple(records for log in every for records in log.forward_records),
            tuple(records for log in every for records in log.backward_records),
        )

    @property
    def forward(self) -> tuple[SolveStats, ...]:
        """How the equations were solved."""
        return tuple(stats for records in self.forward_records for stats in records.stats)

    @property
    def backward(self) -> tuple[SolveStats, ...]:
        """How the adjoint equations were solved; empty until gradients have been computed."""
        return tuple(stats for records in self.backward_records for stats in records.stats)

    @property
    def deferred(self) -> list[Records]:
        """The records that have not been read yet."""
        every = (*self.forward_records, *self.backward_records)
        return [records for records in every if records.deferred]

    @property
    def worst_error_bound(self) -> float:
        """The largest certified error over both passes and all scales."""
        bounds = [stats.error_bound for stats in (*self.forward, *self.backward)]
        return max(bounds, default=0.0)
