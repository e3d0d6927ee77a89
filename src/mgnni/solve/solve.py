"""Propose, measure, refine: the one place where it is decided that an equation is solved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.solve.certify import Measurement, graph_magnitude, measure, spread
from mgnni.solve.equation import Equations
from mgnni.solve.result import SolveStats, Status
from mgnni.solve.solver import SOLVERS, choose, sufficient

ROUNDS = 8  # corrections at most; each must halve the residual
GAIN = 0.05  # what a correction should leave of it


@dataclass(frozen=True)
class Options:
    """How equations shall be solved; see :func:`mgnni.solve_equilibrium`."""

    solver: str = "auto"
    tol: float = 1e-6
    max_iter: int | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """The solved stack: states, :math:`P^m Z` at them, and one record an equation."""

    z: Tensor  # shape: (equations, nodes, channels)
    hop: Tensor
    stats: tuple[SolveStats, ...]


@contextmanager
def _full_precision(device: torch.device) -> Iterator[None]:
    """Keep products in float32 at float32, whatever is allowed around: a certificate needs it."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@torch.no_grad()
def solve(equations: Equations, options: Options) -> Solution:
    """Solve the equations and certify the result; failure is recorded, not raised."""
    device = equations.bias.device
    with torch.autocast(device.type, enabled=False), _full_precision(device):
        equations.require_contraction()
        name = choose(options.solver, equations)
        if equations.bias.numel() == 0:
            return _empty(equations, options, name)
        return _solve_in_units(equations, options, name)


def _units(equations: Equations) -> Tensor | None:
    """Powers of two by which to divide the bias, one a graph; None if it is of ordinary size.

    Gradients of a model that fits perfectly are tiny, and squares of float32 numbers under 1e-19
    vanish. The equations being linear, the unit is free.
    """
    bias = equations.bias[:1] if equations.shared_bias else equations.bias
    size = graph_magnitude(equations.operator, bias).double().cpu()
    low, high = (1e-8, 1e8) if equations.bias.dtype is torch.float32 else (1e-80, 1e80)
    if bool(((size == 0) | ((size > low) & (size < high))).all()):
        return None
    usable = (size > 0) & size.isfinite()
    units = torch.where(usable, 2.0 ** size.log2().floor(), 1.0)
    return units.expand(len(equations), -1)


def _solve_in_units(equations: Equations, options: Options, name: str) -> Solution:
    """Solve in units that suit the bias, and translate the answer."""
    units = _units(equations)
    if units is None:
        z, found, iterations, exhausted = _correct(equations, options, name)
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


def _correct(
    equations: Equations, options: Options, name: str
) -> tuple[Tensor, Measurement, Tensor, bool]:
    """Solve, then solve for the residual, until the measured residual meets the tolerance.

    A float32 solve that misses it is refined with residuals taken in float64, which brings it
    down to the rounding of the returned states themselves.

    Returns:
        The states, their measurement, the iterations, and whether the budget ran out.
    """
    tol, solver = options.tol, SOLVERS[name]
    budget = options.max_iter or sufficient(equations, tol)
    z, iterations, exhausted = solver.propose(equations, 0.7 * tol, budget)
    found = measure(equations, z)
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
        dz, steps, exhausted = solver.propose(correction, target, left)
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
    for index, scale in enumerate(equations.scales):
        if bool((relative[index] <= options.tol).logical_or(found.exempt[index]).all()):
            status = Status.CONVERGED
        elif not bool(found.residual_norm[index].isfinite().all()):
            status = Status.NOT_FINITE
        else:
            status = Status.MAX_ITER if exhausted else Status.STAGNATED
        records.append(
            SolveStats(
                residual=float(found.residual_norm[index].max()),
                relative_residual=float(relative[index].max()),
                iterations=int(iterations[index].max()),
                status=status,
                error_bound=float(found.error_bound[index].max()),
                relative_error_bound=float(found.relative_bound[index].max()),
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
