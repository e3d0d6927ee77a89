r"""Fixed points :math:`z = T(z)` of any map: iterate, stop graph by graph, certify.

If :math:`T` contracts by :math:`L < 1` in some norm, :math:`\|z - z^\star\| \le \|T(z) - z\| /
(1 - L)`. Nothing else is known of the map, so no solver can do without evaluating it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.solve.certify import graph_max, graph_sum, spread
from mgnni.solve.mixing import Mixing
from mgnni.solve.operator import Graphs, Norm
from mgnni.solve.result import SolveStats, Status

SOLVERS = ("anderson", "picard")
STALL = 50  # steps without a new lowest residual after which rounding is all that is left,
NEAR = 1e4  # if it is so many units in the last place; before, it may have to grow first
LOOK = 4  # steps on an accelerator between two looks at how far it is
LOOKS = {"cpu": 1}  # and elsewhere
AIM = 0.9  # of the tolerance, where a graph stops: sums on an accelerator round anew every time
ROUNDING = 8  # units in the last place that one evaluation of a map is taken to lose
BUDGET = 1000  # steps, if nothing is proven

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class StateNorm:
    r"""A norm of states: one over the nodes, then one over the channels.

    Attributes:
        kind: over the nodes, ``"frobenius"``, ``"max"`` or ``"sum"``, as
            :class:`~mgnni.graph.normalize.NodeNorm` has them.
        weight: of the nodes, or none for ones.
        channels: over the channels, ``"frobenius"``, ``"max"`` or ``"sum"``.
    """

    kind: str = "frobenius"
    weight: Tensor | None = None  # shape: (num_nodes,), positive
    channels: str = "frobenius"

    @classmethod
    def of(cls, norm: str | Norm) -> StateNorm:
        """That of a name, or an operator's own, of which the channel with the largest counts."""
        if isinstance(norm, str):
            return cls(norm, None, norm)
        return cls(norm.kind, norm.weight, "max")

    def dual(self) -> StateNorm:
        """The norm in which the adjoint contracts by the same factor."""
        other = {"frobenius": "frobenius", "max": "sum", "sum": "max"}
        return StateNorm(other[self.kind], self.weight, other[self.channels])

    def repeated(self, times: int) -> StateNorm:
        """The norm of so many copies of the nodes."""
        weight = None if self.weight is None else self.weight.repeat(times)
        return StateNorm(self.kind, weight, self.channels)

    def __call__(self, graphs: Graphs, x: Tensor) -> Tensor:
        """Return the norm of each graph, in float64."""
        columns = x.double().abs().T  # shape: (channels, num_nodes)
        if self.kind == "frobenius":
            columns = graph_sum(graphs, columns.square()).sqrt()
        elif self.kind == "max":
            weighted = columns if self.weight is None else columns / self.weight
            columns = graph_max(graphs, weighted)
        else:
            weighted = columns if self.weight is None else columns * self.weight
            columns = graph_sum(graphs, weighted)
        if self.channels == "max":
            return columns.amax(0) if len(columns) else columns.sum(0)
        return columns.square().sum(0).sqrt() if self.channels == "frobenius" else columns.sum(0)

    def to_frobenius(self, graphs: Graphs, like: Tensor) -> Tensor:
        """The factor from this norm to the Frobenius norm of states, one a graph."""
        ones = like.new_ones(like.size(0), dtype=torch.float64)
        weight = ones if self.weight is None else self.weight.double()
        if self.kind == "max":
            factor = graph_sum(graphs, weight.square()).sqrt()
        elif self.kind == "sum":
            factor = graph_max(graphs, 1 / weight)
        else:
            factor = graph_sum(graphs, torch.zeros_like(ones)) + 1
        return factor * (like.size(1) ** 0.5 if self.channels == "max" else 1.0)


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """What is asked of a fixed point, and known of its map; graphs of a batch are separate."""

    norm: StateNorm
    contraction: float | None
    solver: str
    tol: float
    max_iter: int | None
    batch: Tensor | None
    num_graphs: int
    runs: int = 1  # so many problems of as many graphs each, one record a run

    @property
    def budget(self) -> int:
        """Most steps: as many as the contraction proves to be enough, with room."""
        if self.max_iter is not None:
            return self.max_iter
        if self.contraction is None:
            return BUDGET
        if self.contraction == 0:
            return 10
        digits = math.log(self.tol * (1 - self.contraction) * 1e-3)
        return 10 + math.ceil(2 * digits / math.log(self.contraction))

    def size(self, x: Tensor) -> Tensor:
        """Frobenius norm of each graph; float64 throughout, as squares of float32 may vanish."""
        rows: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)
        return graph_sum(self, rows.square()).sqrt()

    @torch.no_grad()
    def solve(
        self, step: Map, z: Tensor, unit: Tensor | None = None
    ) -> tuple[Tensor, tuple[SolveStats, ...]]:
        """Iterate from ``z``.

        A graph that is done is frozen where it is measured, on the device; how often the host
        looks changes nothing.

        Args:
            step: the map.
            z: where to start.
            unit: what the numbers of each graph were divided by.

        Returns:
            The point, and one record a run.
        """
        mixing: Mixing | None = None
        every = LOOKS.get(z.device.type, LOOK)
        image = step(z)
        running = torch.ones(self.num_graphs, dtype=torch.bool, device=z.device)
        steps = torch.zeros_like(running, dtype=torch.long)
        lowest = torch.full_like(running, math.inf, dtype=torch.float64)
        lowest_at = torch.zeros_like(steps)
        budget, near = self.budget, NEAR * torch.finfo(z.dtype).eps
        for count in range(budget + 1):
            residual = image - z
            size, reference = self.size(residual), torch.maximum(self.size(z), self.size(image))
            lowest_at = torch.where(size < lowest, count, lowest_at)
            lowest = torch.minimum(lowest, size)
            stalled = (count - lowest_at >= STALL) & (lowest < near * reference)
            running = running & (size > AIM * self.tol * reference) & ~stalled
            if count == budget or (count % every == 0 and not bool(running.any())):
                break
            steps = steps + running
            following = image
            if mixing is not None:
                following = mixing.step(image, residual, size)
            elif self.solver == "anderson":
                mixing = Mixing(self, image, residual, size)
            z = torch.where(spread(self, running), following, z)
            image = step(z)
        return z, self._records(z, image, size, reference, steps, running, unit)

    def _records(
        self,
        z: Tensor,
        image: Tensor,
        size: Tensor,
        reference: Tensor,
        steps: Tensor,
        running: Tensor,
        unit: Tensor | None,
    ) -> tuple[SolveStats, ...]:
        """What was measured, read from the device once."""
        bound = torch.full_like(size, math.inf)
        if self.contraction is not None:
            own = [self.norm(self, x) for x in (image - z, z, image)]
            rounding = ROUNDING * torch.finfo(z.dtype).eps / 2 * torch.maximum(own[1], own[2])
            bound = (own[0] + rounding) / (1 - self.contraction)
            bound = bound * self.norm.to_frobenius(self, z)
        scale = torch.ones_like(size) if unit is None else unit.double()
        numbers = torch.stack([size, reference, bound, scale, steps.double(), running.double()])
        per_run = numbers.cpu().view(len(numbers), self.runs, -1).unbind(1)
        return tuple(self._record(*run.unbind()) for run in per_run)

    def _record(
        self,
        size: Tensor,
        reference: Tensor,
        bound: Tensor,
        unit: Tensor,
        steps: Tensor,
        running: Tensor,
    ) -> SolveStats:
        relative = torch.where(size == 0, 0.0, size / reference)
        relative_bound = torch.where(bound == 0, 0.0, bound / reference)
        if bool((relative <= self.tol).all()):
            status = Status.CONVERGED
        elif not bool(relative.isfinite().all()):
            status = Status.NOT_FINITE
        else:
            status = Status.MAX_ITER if bool(running.any()) else Status.STAGNATED
        bound = bound * unit
        return SolveStats(
            residual=_worst(size * unit),
            relative_residual=_worst(relative),
            iterations=int(_worst(steps)),
            status=status,
            error_bound=_worst(bound),
            relative_error_bound=_worst(relative_bound),
            contraction=math.inf if self.contraction is None else self.contraction,
            norm=self.norm.kind,
            tol=self.tol,
            solver=self.solver,
            scale=1,
            graph_relative_residual=relative,
            graph_error_bound=bound,
            graph_iterations=steps.long(),
        )


def _worst(numbers: Tensor) -> float:
    return float(numbers.max()) if numbers.numel() else 0.0
