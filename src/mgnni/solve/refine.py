"""Propose, measure, correct: how a plan solves equations by one of the methods."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mgnni.graph.propagation import Propagation
from mgnni.solve.certify import (
    Measurement,
    frobenius,
    graph_magnitude,
    graph_max,
    measure,
    spread,
)
from mgnni.solve.equation import Equations, one_if_shared
from mgnni.solve.fixed_point import sufficient_steps
from mgnni.solve.plan import Method, Plan, Proposal, full_precision
from mgnni.solve.result import Options, Solution

ROUNDS = 8  # largest number of corrections; each must halve the residual
GAIN = 0.05  # what a correction should leave of the residual
NEAR = 0.1  # relative residual up to which initial states are worth measuring
SHARE = 0.7  # of the tolerance that a proposal aims at; rounding needs the rest


class Refined(NamedTuple):
    """Corrected states with their measurement."""

    z: Tensor
    found: Measurement
    iterations: Tensor  # shape: (equations, graphs)
    exhausted: bool  # whether the iteration budget ran out


class RefinedPlan(Plan):
    """Solves by a method, and corrects until the measured residual meets the tolerance.

    Args:
        equations (Equations): The equations; every one must contract.
        options (Options): How to solve them.
        method (Method): The method, prepared for these equations.
    """

    synchronises = True

    def __init__(self, equations: Equations, options: Options, method: Method) -> None:
        super().__init__(equations, options)
        self.method, self.expansions = method, method.expansions

    def adjoint(self) -> RefinedPlan:
        """Returns the plan for the adjoint equations; itself if all is symmetric."""
        adjoint = self.equations.adjoint()
        if adjoint is self.equations:
            return self
        return RefinedPlan(adjoint, self.options, self.method.prepared_for(adjoint))

    @torch.no_grad()
    def solve(self, bias: Tensor, start: Tensor | None = None, deferred: bool = False) -> Solution:
        """Solves the equations; see :meth:`Plan.solve`."""
        empty = self.empty(bias, self.method.name)
        if empty is not None:
            return empty
        with full_precision(bias.device):
            units = units_of(self.equations.operator, one_if_shared(bias))
            if units is None:
                refined = self._refine(bias, start)
                return self._solution(refined, refined.found.hop.to(bias.dtype))
            return self._solve_in_units(bias, units.expand(len(bias), -1))

    def _solve_in_units(self, bias: Tensor, units: Tensor) -> Solution:
        """Solves for the bias divided by the units, and multiplies the solution by them."""
        factor = spread(self.equations.operator, units.to(bias.device))
        scaled = (bias.double() / factor).to(bias.dtype)
        refined = self._refine(scaled)
        z = (refined.z.double() * factor).to(bias.dtype)
        # Numbers at the ends of the range lose digits or overflow, so measure these again.
        kept, operator = z.double() / factor, self.equations.operator
        lost = graph_max(operator, (kept != refined.z).any(-1).double()) > 0
        found = refined.found
        if bool(lost.any()):
            again = measure(self.equations.double(), scaled.double(), kept)
            found = found.replaced(again, lost.cpu(), operator)
        hop = (found.hop * factor).to(bias.dtype)
        return self._solution(refined._replace(z=z, found=found.scaled(units)), hop)

    def _propose_from(self, start: Tensor, bias: Tensor, tol: float, budget: int) -> Proposal:
        """Solves for the correction of initial states if these are close, else from zero."""
        found = measure(self.equations, bias, start)
        gap = float(found.relative.max())
        if not gap < NEAR:  # also if it is nan
            return self.method.propose(bias, tol, budget)
        if gap <= tol:
            return Proposal(start, torch.zeros(len(bias), 1, dtype=torch.long), False)
        # Relative to a correction, which may exceed its right-hand side by 1 / (1 - L).
        target = tol / gap * (1 - max(self.equations.contractions))
        change = self.method.propose(found.residual, target, budget)
        return Proposal(start + change.z, change.iterations, change.exhausted)

    def _refine(self, bias: Tensor, start: Tensor | None = None) -> Refined:
        """Solves, then solves for the residual, until the measured residual meets the tolerance.

        A float32 solve that misses it is corrected with residuals computed in float64, which
        brings it down to the rounding of the returned states themselves.
        """
        equations, tol = self.equations, self.options.tol
        worst, nodes = max(equations.contractions, default=0.0), equations.operator.total_nodes
        budget = self.options.max_iter or self.method.budget(sufficient_steps(worst, tol, nodes))
        # The solution of a graph must not depend on the other graphs of its batch.
        if start is None or equations.operator.batch is not None:
            proposal = self.method.propose(bias, SHARE * tol, budget)
        else:
            proposal = self._propose_from(start, bias, SHARE * tol, budget)
        z, iterations, exhausted = proposal[:3]
        found = measure(equations, bias, z, *proposal[3:])
        # Whether and how far a graph is corrected depends on that graph alone.
        open_ = ~(found.relative <= tol) & found.residual_norm.isfinite()  # (equations, graphs)
        # A residual below the rounding of its own evaluation says nothing.
        meaningful = tol >= torch.finfo(bias.dtype).eps / 2
        if exhausted or (meaningful and not bool(open_.any())):
            return Refined(z, found, iterations, exhausted)
        exact = equations
        if bias.dtype is not torch.float64:
            exact = equations.double()
            precise = measure(exact, bias.double(), z.double())
            # A graph that has met the tolerance keeps its measurement: the precise one may be
            # larger by its rounding, and the graph would depend on others that are corrected.
            asked = open_ if meaningful else torch.ones_like(open_)
            found = found.replaced(precise, asked, equations.operator)
            open_ = ~(found.relative <= tol) & found.residual_norm.isfinite()
        # A correction may exceed its right-hand side by 1 / (1 - L), and so may its error.
        target = GAIN * (1 - max(equations.contractions))
        for _ in range(ROUNDS):
            if exhausted or not bool(open_.any()):
                break
            chosen = spread(equations.operator, open_.to(z.device))
            right = (found.residual * chosen).to(z.dtype)
            left = max(budget - int(iterations.max()), 1)
            dz, steps, exhausted = self.method.propose(right, target, left)[:3]
            better = measure(exact, bias.to(exact.weights.tensor.dtype), (z + dz).double())
            improved = open_ & (better.relative < found.relative)
            open_ = improved & (better.relative > tol) & (better.relative <= 0.5 * found.relative)
            z = torch.where(spread(equations.operator, improved.to(z.device)), z + dz, z)
            found = found.replaced(better, improved, equations.operator)
            iterations = iterations + steps * improved
        return Refined(z, found, iterations, exhausted)

    def _solution(self, refined: Refined, hop: Tensor) -> Solution:
        found, z = refined.found, refined.z
        contraction = torch.tensor(self.equations.contractions, dtype=torch.float64).unsqueeze(1)
        numbers = [found.residual_norm, found.reference, found.error_bound]
        numbers += [contraction, refined.iterations.double()]
        table = torch.stack([one.expand_as(numbers[0]) for one in numbers])
        exhausted = (refined.exhausted,) * len(self.equations)
        return Solution(z, hop, self.records(z, table, self.method.name, exhausted))


def units_of(operator: Propagation, bias: Tensor) -> Tensor | None:
    """Returns powers of two to divide biases by, per graph; None if they are of ordinary size.

    Gradients of a model that fits perfectly are tiny, and squares of float32 numbers below 1e-19
    vanish. The equations are linear, so any unit will do.

    Args:
        operator (Propagation): The operator, which knows the graphs.
        bias (Tensor): The biases.

    Shapes:
        - **bias:** ``(equations, num_nodes, channels)``
        - **output:** ``(equations, num_graphs)``
    """
    low, high = (1e-8, 1e8) if bias.dtype is torch.float32 else (1e-80, 1e80)
    # Norms are faster than the largest entry, and suffice unless they are tiny.
    norm, numbers = frobenius(operator, bias), operator.total_nodes * bias.size(-1)
    if bool(((norm > low * numbers**0.5) & (norm < high)).all()):
        return None
    size = graph_magnitude(operator, bias).double().cpu()
    if bool(((size == 0) | ((size > low) & (size < high))).all()):
        return None
    usable = (size > 0) & size.isfinite()
    return torch.where(usable, 2.0 ** size.log2().floor(), 1.0)
