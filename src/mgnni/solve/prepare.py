"""The choice of a method. Nothing else in the library chooses one."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from mgnni.errors import ArgumentError, check_choice
from mgnni.solve import device_rows, device_sweep
from mgnni.solve.closed_form import Dense, Spectral, dense_size
from mgnni.solve.columns import ColumnPlan
from mgnni.solve.core import on_core
from mgnni.solve.deflated import Deflated, decoupled, deflated_rate
from mgnni.solve.device import has_kernels
from mgnni.solve.equation import Equations
from mgnni.solve.fixed_point import Anderson
from mgnni.solve.iterative import GMRES, ConjugateGradients, Picard
from mgnni.solve.plan import Expansions, Method, Plan, Previous
from mgnni.solve.refine import RefinedPlan
from mgnni.solve.result import Options
from mgnni.solve.rows import Wide
from mgnni.solve.sharded import ShardedChebyshev, ShardedSeries
from mgnni.solve.sweep import Chebyshev, Series
from mgnni.solve.weights import WIDE, check_finite_weight

FEW_STEPS = 0.55  # contraction up to which Picard iteration is fast: 1e-6 in 24 steps
FEW_PRODUCTS = 0.3  # rate up to which deflation is fast: 1e-6 in 12 products with the weight
MANY_STEPS = 2000  # iterations past which a dense factorisation is considered
SMALL = 2**20  # numbers in the dense systems of one equation, likewise

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (
        Picard,
        Anderson,
        ConjugateGradients,
        GMRES,
        Series,
        Chebyshev,
        Spectral,
        Wide,
        Deflated,
        Dense,
    )
}
SOLVERS = (*METHODS, "auto")
# Those for nodes that are spread over several processes. Picard iteration, conjugate gradients and
# GMRES sum norms over processes in every step; weights that can be decoupled do not need them.
SHARDED: dict[str, type[Method]] = {
    method.name: method
    for method in (Picard, ConjugateGradients, GMRES, ShardedSeries, ShardedChebyshev)
}


def prepare(equations: Equations, options: Options, previous: Previous | None = None) -> Plan:
    """Chooses a method for equations, and returns the plan to solve them by it.

    Args:
        equations (Equations): The equations.
        options (Options): How to solve them.
        previous (Previous, optional): What the plan of the last pass of the same layer has left.
            Eigenpairs are reused if the weights are the same, and expansions if the graph has the
            same norm bound as well. The eigenvectors of other weights are the initial vectors of
            the eigenvalue kernel.
    """
    kernels = has_kernels(equations, options)
    fallback = partial(_fallback, equations, options)
    if kernels and device_rows.fits(equations, options):
        return device_rows.DeviceRows(equations, options, fallback)
    sweeps = kernels and device_sweep.fits(equations, options)
    before = None if previous is None else previous.device
    if sweeps and not device_sweep.synchronises(equations):
        return device_sweep.DeviceSweep(equations, options, fallback, before)
    weight = equations.weights.tensor
    if not bool(weight.sum().isfinite()):  # a cheap test first, which may overflow
        check_finite_weight(weight)
    expansions, reuse = None, False
    if previous is not None and previous.has_weights(equations.weights):
        # Eigenpairs follow from the weights; expansions also from bound, scales and options.
        equations = replace(equations, weights=previous.weights)
        reuse = previous.settings == Previous.settings_of(equations, options)
        expansions = previous.expansions if reuse else None
    if not sweeps or options.memory != "fast":
        return _refined(equations, options, expansions)
    return device_sweep.DeviceSweep(equations, options, fallback, before, reuse=reuse)


def _fallback(equations: Equations, options: Options) -> RefinedPlan | ColumnPlan:
    """The plan for what a device plan misses; its eigenpairs come from LAPACK."""
    weights = replace(equations.weights, exact=True)
    return _refined(replace(equations, weights=weights), options)


def _refined(
    equations: Equations, options: Options, expansions: Expansions | None = None
) -> RefinedPlan | ColumnPlan:
    equations.require_contraction()
    sharded = equations.operator.is_sharded
    kind = (SHARDED if sharded else METHODS)[choose(equations, options)]
    whole = sharded or equations.operator.batch is not None
    if options.memory != "fast" and issubclass(kind, Series) and not whole:
        return ColumnPlan(equations, options, kind)
    method = kind(equations, expansions)
    return RefinedPlan(equations, options, on_core(method, equations))


def choose(equations: Equations, options: Options) -> str:
    """Returns the name of the method, after checking that it supports the equations.

    ``"auto"`` decides by what is proven and by size. Symmetric weights that are not very wide are
    decoupled: small graphs with known eigenpairs have a closed form, other symmetric operators
    use the Chebyshev expansion, and all others the Neumann series. With wider symmetric weights,
    undirected graphs with no more nodes than channels are solved row by row. On other graphs the
    large eigenvalues are deflated if the others are small. What remains is iterated: by conjugate
    gradients if operator and weights are symmetric, else by Picard iteration where that takes few
    steps, else by GMRES. Tiny graphs that would need thousands of iterations are factorised
    densely. Over several processes, all symmetric weights are decoupled, and nothing is factorised.
    """
    name = check_choice("solver", options.solver, SOLVERS)
    symmetric, weights = equations.operator.symmetric, equations.weights
    both = symmetric and weights.symmetric
    sharded = equations.operator.is_sharded
    if name == "auto":
        if weights.symmetric and (equations.channels <= WIDE or sharded):
            name = "chebyshev" if symmetric else "series"
            if symmetric and equations.operator.prefers_spectrum:
                name = "spectral"
        elif both and equations.operator.largest_graph <= equations.channels:
            name = "wide"
        elif weights.symmetric and deflated_rate(equations) <= FEW_PRODUCTS:
            name = "deflated"
        elif both:
            name = "cg"
        else:
            name = "picard" if max(equations.contractions) <= FEW_STEPS else "gmres"
        if name == "spectral" or sharded:
            return name
        rate = max(equations.contractions, default=0.0)
        if name == "deflated":  # knows the largest eigenvalues, and iterates on their columns
            rate = min(rate, max(decoupled(equations).contractions))
        return "dense" if _prefers_dense(equations, rate, options.tol) else name
    method = METHODS[name]
    if sharded and name not in SHARDED:
        raise ArgumentError(
            f"'solver' must be one of {sorted(SHARDED)} or 'auto' over several processes (got "
            f"{name!r}), which needs the whole graph; use solver='auto'"
        )
    for needed, given, what in (
        (method.needs_symmetric_operator, symmetric, "operator"),
        (method.needs_symmetric_weight, weights.symmetric, "weight"),
    ):
        if needed and not given:
            raise ArgumentError(
                f"'solver' must not be {name!r} here, because it needs a symmetric {what} (got "
                "one that differs from its transpose); use solver='auto' or 'gmres'"
            )
    return name


def _prefers_dense(equations: Equations, rate: float, tol: float) -> bool:
    """Whether a system is tiny and its contraction so close to one that iterations are slow."""
    if equations.operator.symmetric:  # the rate of Chebyshev and conjugate gradients
        rate = rate / (1 + math.sqrt(1 - rate**2))
    if rate <= 0 or max(equations.scales) * math.log(tol) / math.log(rate) <= MANY_STEPS:
        return False
    return dense_size(equations) <= SMALL
