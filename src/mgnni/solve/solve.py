"""Propose, measure, refine: the one place where it is decided that an equation is solved."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.kernels.nvrtc import enter
from mgnni.solve.certify import Measurement, frobenius, graph_magnitude, measure, spread
from mgnni.solve.equation import Equations
from mgnni.solve.planned import Pending, fits, solve_planned, unseen
from mgnni.solve.planned_wide import fits_wide, solve_planned_wide
from mgnni.solve.reduced import propose
from mgnni.solve.result import SolveStats, Status
from mgnni.solve.solver import SOLVERS, Proposal, Solver, choose, sufficient

ROUNDS = 8  # corrections at most; each must halve the residual
GAIN = 0.05  # what a correction should leave of it
NEAR = 0.1  # relative residual up to which a start is worth its own measurement


@dataclass(frozen=True)
class Options:
    """How equations shall be solved; see :func:`mgnni.solve_equilibrium`."""

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int | None = None
    warm_start: bool = False


Planned = Callable[[Equations, float], tuple[Tensor, Tensor, Pending]]


@dataclass(frozen=True, eq=False)
class Solution:
    """The solved stack: states, :math:`P^m Z` at them, and one record an equation."""

    z: Tensor  # shape: (equations, nodes, channels)
    hop: Tensor
    stats: tuple[SolveStats, ...] | Pending


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Keep products in float32 at float32, whatever is allowed around: a certificate needs it."""
    before = torch.get_float32_matmul_precision()
    if device.type != "cuda" and before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def plan_for(equations: Equations, solver: str) -> Planned | None:
    """The way to solve equations whose length is known beforehand, if there is one."""
    if fits_wide(equations, solver):
        return solve_planned_wide
    return solve_planned if fits(equations, solver) else None


def looks(plan: Planned | None, equations: Equations) -> bool:
    """Whether a plan looks at a number on the way, which no CUDA graph can."""
    return plan is None or (plan is solve_planned and not unseen(equations))


@torch.no_grad()
def solve(
    equations: Equations,
    options: Options,
    deferred: bool = False,
    start: Tensor | None = None,
) -> Solution:
    """Solve the equations and certify the result; failure is recorded, not raised.

    Args:
        equations: the equations.
        options: how they shall be solved.
        deferred: leave the records on an accelerator where that can be; who asked for it reads
            them, and solves again what missed its tolerance.
        start: states to start from. A solve that looks at nothing takes no notice.
    """
    device = equations.bias.device
    with torch.autocast(device.type, enabled=False), full_precision(device):
        planned = None if options.max_iter is not None else plan_for(equations, options.solver)
        looked = looks(planned, equations)
        if looked and start is not None and equations.operator.batch is None:
            planned = None  # from there it is not as far
        if planned is not None:
            enter(device)
            z, hop, pending = planned(equations, options.tol)
            if deferred and not looked:
                return Solution(z, hop, pending)
            stats = pending.records()
            solved = all(one.converged for one in stats)
            if solved or not bool(equations.weights.tensor.isfinite().all()):
                return Solution(z, hop, stats)  # weights that are not finite have no eigenvalues
            if planned is solve_planned:
                equations.weights.decompose_anew()
        equations.require_contraction()
        name = choose(options.solver, equations)
        if equations.bias.numel() == 0:
            return _empty(equations, options, name)
        return _solve_in_units(equations, options, name, start)


def _units(equations: Equations) -> Tensor | None:
    """Powers of two by which to divide the bias, one a graph; None if it is of ordinary size.

    Gradients of a model that fits perfectly are tiny, and squares of float32 numbers under 1e-19
    vanish. The equations being linear, the unit is free.
    """
    bias = equations.bias[:1] if equations.shared_bias else equations.bias
    low, high = (1e-8, 1e8) if equations.bias.dtype is torch.float32 else (1e-80, 1e80)
    # Norms are found faster, and say as much unless they are tiny, when squares have vanished.
    norm = frobenius(equations.operator, bias)
    if bool(((norm > low * bias[0].numel() ** 0.5) & (norm < high)).all()):
        return None
    size = graph_magnitude(equations.operator, bias).double().cpu()
    if bool(((size == 0) | ((size > low) & (size < high))).all()):
        return None
    usable = (size > 0) & size.isfinite()
    units = torch.where(usable, 2.0 ** size.log2().floor(), 1.0)
    return units.expand(len(equations), -1)


def _solve_in_units(
    equations: Equations, options: Options, name: str, start: Tensor | None
) -> Solution:
    """Solve in units that suit the bias, and translate the answer."""
    units = _units(equations)
    if units is None:
        z, found, iterations, exhausted = _correct(equations, options, name, start)
        stats = _stats(equations, options, name, found, iterations, exhausted)
        return Solution(z, found.hop.to(z.dtype), stats)
    factor = spread(equations.operator, units.to(equations.bias.device))
    dtype = equations.bias.dtype
    equations = equations.with_bias((equations.bias.double() / factor).to(dtype))
    z, _, iterations, exhausted = _correct(equations, options, name)
    # Numbers at the end of the range lose digits, or overflow: what is measured is what is left.
    z = (z.double() * factor).to(dtype)
    found = measure(equations.double(), z.double() / factor)
    hop = (found.hop * factor).to(dtype)
    # A residual of single last digits is all that such numbers can have.
    info = torch.finfo(dtype)
    digits = 4 * info.smallest_normal * info.eps * equations.bias[0].numel() ** 0.5
    found = found.scaled(units, exempt=digits)
    return Solution(z, hop, _stats(equations, options, name, found, iterations, exhausted))


def _propose(
    equations: Equations, tol: float, budget: int, solver: Solver, start: Tensor | None
) -> Proposal:
    """Solve from zero, or from a start that is near: then for what is missing, to fewer digits."""
    if start is None or equations.operator.batch is not None:  # no graph depends on its company
        return propose(solver, equations, tol, budget)
    found = measure(equations, start)
    gap = float(found.relative.max())
    if not gap < NEAR:  # nan too
        return propose(solver, equations, tol, budget)
    if gap <= tol:
        return Proposal(start, torch.zeros(len(equations), 1, dtype=torch.long), False)
    # Relative to a correction, which may be larger than its right-hand side by 1 / (1 - L).
    target = tol / gap * (1 - max(equations.contractions))
    change = propose(solver, equations.with_bias(found.residual), target, budget)
    return Proposal(start + change.z, change.iterations, change.exhausted)


def _correct(
    equations: Equations, options: Options, name: str, start: Tensor | None = None
) -> tuple[Tensor, Measurement, Tensor, bool]:
    """Solve, then solve for the residual, until the measured residual meets the tolerance.

    A float32 solve that misses it is refined with residuals taken in float64, which brings it
    down to the rounding of the returned states themselves.

    Returns:
        The states, their measurement, the iterations, and whether the budget ran out.
    """
    tol, solver = options.tol, SOLVERS[name]
    budget = options.max_iter or sufficient(equations, tol)
    proposal = _propose(equations, 0.7 * tol, budget, solver, start)
    z, iterations, exhausted = proposal[:3]
    found = measure(equations, z, *proposal[3:])
    # Whether a graph is corrected, and how far, depends on that graph alone.
    open_ = ~(found.relative <= tol) & found.residual_norm.isfinite()  # (equations, graphs)
    if exhausted or not bool(open_.any()):
        return z, found, iterations, exhausted
    exact = equations.double()
    if exact is not equations:
        found = measure(exact, z.double())
        open_ &= ~(found.relative <= tol)
    # A correction may be larger than its right-hand side by 1 / (1 - L), and with it whatever is
    # relative to it.
    target = GAIN * (1 - max(equations.contractions))
    for _ in range(ROUNDS):
        if exhausted or not bool(open_.any()):
            break
        chosen = spread(equations.operator, open_.to(z.device))
        correction = equations.with_bias((found.residual * chosen).to(z.dtype))
        left = max(budget - int(iterations.max()), 1)
        dz, steps, exhausted = propose(solver, correction, target, left)[:3]
        better = measure(exact, (z + dz).double())
        improved = open_ & (better.relative < found.relative)
        open_ = improved & (better.relative > tol) & (better.relative <= 0.5 * found.relative)
        z = torch.where(spread(equations.operator, improved.to(z.device)), z + dz, z)
        found = found.replaced(better, improved, equations.operator)
        iterations = iterations + steps * improved
    return z, found, iterations, exhausted


def _stats(
    equations: Equations,
    options: Options,
    name: str,
    found: Measurement,
    iterations: Tensor,
    exhausted: bool,
) -> tuple[SolveStats, ...]:
    records = []
    relative = found.relative
    numbers = [found.residual_norm, relative, found.error_bound, found.relative_bound]
    worst = torch.stack(numbers, 1).amax(-1).tolist()
    steps = iterations.amax(-1).tolist()
    met = ((relative <= options.tol) | found.exempt).all(-1).tolist()
    for index, scale in enumerate(equations.scales):
        residual, relative_residual, error_bound, relative_bound = worst[index]
        if met[index]:
            status = Status.CONVERGED
        elif not math.isfinite(residual):
            status = Status.NOT_FINITE
        else:
            status = Status.MAX_ITER if exhausted else Status.STAGNATED
        records.append(
            SolveStats(
                residual=residual,
                relative_residual=relative_residual,
                iterations=steps[index],
                status=status,
                error_bound=error_bound,
                relative_error_bound=relative_bound,
                contraction=equations.contractions[index],
                norm=equations.operator.norm.kind,
                tol=options.tol,
                solver=name,
                scale=scale,
                graph_relative_residual=relative[index],
                graph_error_bound=found.error_bound[index],
                graph_iterations=iterations[index],
            )
        )
    return tuple(records)


def _empty(equations: Equations, options: Options, name: str) -> Solution:
    """No nodes or no channels: the empty state solves the equation."""
    count, graphs = len(equations), equations.operator.num_graphs
    zero = torch.zeros(count, max(graphs, 1), dtype=torch.float64)
    z = torch.zeros_like(equations.bias)
    found = Measurement(z, z, zero, zero, zero, zero.bool())
    return Solution(z, z, _stats(equations, options, name, found, zero.long(), False))
