r"""Fixed points :math:`z = T(z)` of any map: iterate, stop graph by graph, certify.

If :math:`T` contracts by :math:`L < 1` in some norm, :math:`\|z - z^\star\| \le \|T(z) - z\| /
(1 - L)`. Nothing else is known about the map, so every step evaluates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.graph.normalize import DUAL, NodeNorm
from mgnni.solve.anderson import AndersonMixing
from mgnni.solve.certify import Graphs, graph_sum, node_norm, spread, to_frobenius
from mgnni.solve.equation import Equations
from mgnni.solve.plan import Method, Proposal
from mgnni.solve.result import Records

SOLVERS = ("anderson", "picard")
STALL = 50  # steps without a new lowest residual after which a graph has stagnated,
NEAR = 1e4  # if its residual is at most this many units in the last place
CHECK_EVERY = 4  # steps between two synchronisations with a device; a CPU checks every step
AIM = 0.9  # of the tolerance, because sums on a device round differently every time
ROUNDING = 8  # units in the last place that one evaluation of the map may lose
BUDGET = 1000  # steps, if no contraction is proven

Map = Callable[[Tensor], Tensor]


def sufficient_steps(contraction: float, tol: float, nodes: int = 1) -> int:
    """Returns twice the number of steps that a contraction constant proves to suffice.

    Args:
        contraction (float): The contraction constant, below one.
        tol (float): The tolerance.
        nodes (int, optional): Number of nodes, if the residual may grow by as much in the
            Frobenius norm while it falls in the norm of the operator. (default: :obj:`1`)
    """
    if contraction == 0:
        return 10
    digits = math.log(tol * (1 - contraction) * 1e-3 / max(nodes, 1))
    return 10 + math.ceil(2 * digits / math.log(contraction))


@dataclass(frozen=True, eq=False)
class StateNorm(NodeNorm):
    r"""A norm of states: a norm over the nodes, then a norm over the channels.

    Args:
        kind (str, optional): Norm over the nodes: ``"frobenius"``, ``"max"`` or ``"sum"``.
            (default: :obj:`"frobenius"`)
        weight (Tensor, optional): Weights of the nodes, ones by default.
        channels (str, optional): Norm over the channels: ``"frobenius"``, ``"max"`` or ``"sum"``.
            (default: :obj:`"frobenius"`)
    """

    kind: str = "frobenius"
    weight: Tensor | None = None  # shape: (num_nodes,), positive
    channels: str = "frobenius"

    @classmethod
    def of(cls, norm: str | NodeNorm) -> StateNorm:
        """Returns the norm of a name, or the norm of an operator with the maximum over channels."""
        if isinstance(norm, str):
            return cls(norm, None, norm)
        return cls(norm.kind, norm.weight, "max")

    def dual(self) -> StateNorm:
        """Returns the norm in which the adjoint contracts by the same factor."""
        return StateNorm(DUAL[self.kind], self.weight, DUAL[self.channels])

    def repeated(self, times: int) -> StateNorm:
        """Returns the norm for several copies of the nodes."""
        weight = None if self.weight is None else self.weight.repeat(times)
        return StateNorm(self.kind, weight, self.channels)

    def __call__(self, graphs: Graphs, x: Tensor) -> Tensor:
        """Returns the norm of each graph in float64."""
        columns = node_norm(graphs, self, x.double().abs().T)  # shape: (channels, num_graphs)
        if self.channels == "max":
            return columns.amax(0) if len(columns) else columns.sum(0)
        return columns.square().sum(0).sqrt() if self.channels == "frobenius" else columns.sum(0)

    def to_frobenius(self, graphs: Graphs, like: Tensor) -> Tensor:
        """Returns the factor from this norm to the Frobenius norm, per graph."""
        weight = like.new_ones(len(like)) if self.weight is None else self.weight
        factor = to_frobenius(graphs, NodeNorm(self.kind, weight.double()))
        if factor is None:
            factor = like.new_ones(graphs.num_graphs, dtype=torch.float64)
        return factor * (like.size(1) ** 0.5 if self.channels == "max" else 1.0)


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """A fixed-point problem. The graphs of a batch are separate problems.

    Args:
        norm (StateNorm): The norm in which the map contracts.
        contraction (float, optional): Its Lipschitz constant, if one is known.
        solver (str): ``"anderson"`` or ``"picard"``.
        tol (float): Relative residual to reach in every graph.
        max_iter (int, optional): Largest number of steps.
        batch (Tensor, optional): Graph of each node, shape ``(num_nodes,)``.
        num_graphs (int): Number of graphs.
        runs (int, optional): Number of independent runs, each with the same number of graphs.
            There is one record per run. (default: :obj:`1`)
    """

    norm: StateNorm
    contraction: float | None
    solver: str
    tol: float
    max_iter: int | None
    batch: Tensor | None
    num_graphs: int
    runs: int = 1

    @property
    def budget(self) -> int:
        """Largest number of steps; by default, twice what the contraction proves to suffice."""
        if self.max_iter is not None:
            return self.max_iter
        if self.contraction is None:
            return BUDGET
        return sufficient_steps(self.contraction, self.tol)

    def size(self, x: Tensor) -> Tensor:
        """Returns the Frobenius norm per graph; in float64, as squares of float32 may vanish."""
        rows: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)
        return graph_sum(self, rows.square()).sqrt()

    @torch.no_grad()
    def solve(self, step: Map, z: Tensor, unit: Tensor | None = None) -> tuple[Tensor, Records]:
        """Iterates from ``z``.

        A graph that has converged is frozen on the device, so the result does not depend on how
        often the host checks.

        Args:
            step (Callable): The map.
            z (Tensor): The initial states.
            unit (Tensor, optional): The number that the states of each graph were divided by.

        Returns:
            The states, and the records with one entry per run.

        Shapes:
            - **z:** ``(num_nodes, channels)``
            - **unit:** ``(num_graphs,)``
        """
        mixing: AndersonMixing | None = None
        every = 1 if z.device.type == "cpu" else CHECK_EVERY
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
                mixing = AndersonMixing(self, image, residual, size)
            z = torch.where(spread(self, running), following, z)
            image = step(z)
        bound = self._error_bound(z, image, size)
        scale = torch.ones_like(size) if unit is None else unit.double()
        constant = math.inf if self.contraction is None else self.contraction
        numbers = torch.stack(
            [
                size * scale,
                reference * scale,
                bound * scale,
                torch.full_like(size, constant),
                steps.double(),
                running.double(),
            ]
        )
        per_run = numbers.cpu().view(len(numbers), self.runs, -1)
        return z, Records(
            per_run[:5],
            scales=(1,) * self.runs,
            norm=self.norm.kind,
            tol=self.tol,
            solver=self.solver,
            exhausted=tuple(per_run[5].bool().any(-1).tolist()),
        )

    def _error_bound(self, z: Tensor, image: Tensor, size: Tensor) -> Tensor:
        if self.contraction is None:
            return torch.full_like(size, math.inf)
        residual, own_z, own_image = (self.norm(self, x) for x in (image - z, z, image))
        rounding = ROUNDING * torch.finfo(z.dtype).eps / 2 * torch.maximum(own_z, own_image)
        bound = (residual + rounding) / (1 - self.contraction)
        return bound * self.norm.to_frobenius(self, z)


class Anderson(Method):
    """Anderson mixing, one equation after another."""

    name = "anderson"

    def propose(self, bias: Tensor, tol: float, max_iter: int) -> Proposal:
        """Iterates every equation from zero."""
        equations, operator = self.equations, self.equations.operator
        states, steps, exhausted = [], [], False
        for index in range(len(equations)):
            equation = equations[index]
            b, weight = bias[index], equation.weights.tensor[0]

            def step(
                z: Tensor, equation: Equations = equation, b: Tensor = b, weight: Tensor = weight
            ) -> Tensor:
                hop = equation.hop(z.unsqueeze(0))[0]
                return torch.addmm(b, hop, weight, alpha=equations.gamma)

            graphs = operator.batch, max(operator.num_graphs, 1)
            problem = FixedPoint(StateNorm(), None, self.name, tol, max_iter, *graphs)
            z, records = problem.solve(step, torch.zeros_like(b))
            states.append(z)
            steps.append(records.numbers[4, 0].long())
            exhausted |= bool(records.exhausted and records.exhausted[0])
        return Proposal(torch.stack(states), torch.stack(steps), exhausted)
