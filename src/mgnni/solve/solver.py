"""The solvers by name: what each needs of the equations, and how it proposes a solution."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_choice
from mgnni.solve.anderson import Anderson
from mgnni.solve.cg import ConjugateGradients
from mgnni.solve.chebyshev import chebyshev
from mgnni.solve.equation import Equations
from mgnni.solve.gmres import GMRES
from mgnni.solve.iterate import Method, iterate
from mgnni.solve.picard import Picard
from mgnni.solve.series import neumann
from mgnni.solve.spectral import spectral
from mgnni.solve.sweep import sweep
from mgnni.solve.weights import WIDE
from mgnni.solve.wide import wide

FEW_STEPS = 0.55  # a contraction with which plain iteration needs no help: 1e-6 in 24 steps


class Proposal(NamedTuple):
    """A point that a solver believes to be near enough; the certificate decides."""

    z: Tensor  # shape: (equations, nodes, channels)
    iterations: Tensor  # shape: (equations, graphs)
    exhausted: bool  # whether max_iter stood in the way
    hop: Tensor | None = None  # P^m z, where that came about
    image: Tensor | None = None  # gamma P^m z W + B, likewise


class Solver(ABC):
    """Proposes a solution of a stack of equations to a relative tolerance."""

    needs_symmetric_operator = False
    needs_symmetric_weight = False

    @abstractmethod
    def propose(self, equations: Equations, tol: float, max_iter: int) -> Proposal:
        """Return a point whose relative residual should be at most ``tol``."""


@dataclass(frozen=True)
class Iterative(Solver):
    """One equation after another by an iteration."""

    method: Method
    needs_symmetric_operator: bool = False
    needs_symmetric_weight: bool = False

    def propose(self, equations: Equations, tol: float, max_iter: int) -> Proposal:
        """Iterate every equation to its own end."""
        z = torch.empty(
            equations.bias.shape, dtype=equations.bias.dtype, device=equations.bias.device
        )
        steps, exhausted = [], False
        for index in range(len(equations)):
            z[index], count, over = iterate(equations[index], self.method, tol, max_iter)
            steps.append(count)
            exhausted |= over
        return Proposal(z, torch.stack(steps), exhausted)


@dataclass(frozen=True)
class Sweep(Solver):
    """All equations together by one sweep of products with the operator."""

    chebyshev: bool
    needs_symmetric_operator: bool = False
    needs_symmetric_weight: bool = True

    def propose(self, equations: Equations, tol: float, max_iter: int) -> Proposal:
        """Sweep as far as the proven bounds ask for."""
        known = equations.weights.polynomials
        bound = equations.operator.norm_bound
        key = (self.chebyshev, tol, max_iter, equations.scales, equations.gamma, bound)
        if key not in known:
            build = chebyshev if self.chebyshev else neumann
            known[key] = build(equations, tol, max_iter)
        polynomials, short = known[key]
        z, taken = sweep(equations, polynomials)
        steps = torch.tensor(taken).unsqueeze(1)
        if not self.chebyshev:  # terms of the series: each takes as many products as the scale
            steps = steps // torch.tensor(equations.scales).unsqueeze(1)
        return Proposal(z, steps.expand(-1, equations.operator.num_graphs), short)


@dataclass(frozen=True)
class ClosedForm(Solver):
    """The closed form from eigenpairs."""

    needs_symmetric_operator: bool = True
    needs_symmetric_weight: bool = True

    def propose(self, equations: Equations, tol: float, max_iter: int) -> Proposal:
        """Evaluate the closed form; it takes no iterations."""
        steps = torch.zeros(len(equations), equations.operator.num_graphs, dtype=torch.long)
        return Proposal(spectral(equations), steps, False)


@dataclass(frozen=True)
class Wide(Solver):
    """Every node of the eigenbasis by itself, the outliers of the weight set apart."""

    needs_symmetric_operator: bool = True
    needs_symmetric_weight: bool = True

    def propose(self, equations: Equations, tol: float, max_iter: int) -> Proposal:
        """Expand as far as the rest of the spectrum asks for."""
        z, degrees, short = wide(equations, tol, max_iter)
        steps = torch.tensor(degrees).unsqueeze(1)
        return Proposal(z, steps.expand(-1, equations.operator.num_graphs), short)


SOLVERS: dict[str, Solver] = {
    "picard": Iterative(Picard()),
    "anderson": Iterative(Anderson()),
    "cg": Iterative(ConjugateGradients(), True, True),
    "gmres": Iterative(GMRES()),
    "series": Sweep(chebyshev=False),
    "chebyshev": Sweep(chebyshev=True, needs_symmetric_operator=True),
    "spectral": ClosedForm(),
    "wide": Wide(),
}


def choose(name: str, equations: Equations) -> str:
    """Return the solver to use, after checking that it admits the equations.

    ``"auto"`` goes by what is proven and by size. A symmetric weight that is not very wide is
    decoupled and swept: by Chebyshev expansion if the operator is symmetric too, else by
    Neumann's series; small graphs whose eigenpairs are at hand have a closed form. What cannot be
    decoupled goes node by node in the eigenbasis of symmetric graphs that have no more nodes than
    channels, whose eigenpairs cost no more than a few products with the weight; or else is
    iterated: by conjugate gradients where all is symmetric, by Picard where few steps will do, else
    by GMRES.
    """
    name = check_choice("solver", name, (*SOLVERS, "auto"))
    symmetric = equations.operator.symmetric
    if name == "auto":
        if equations.weights.symmetric and equations.channels <= WIDE:
            if symmetric and equations.operator.prefers_spectrum:
                return "spectral"
            return "chebyshev" if symmetric else "series"
        if equations.weights.symmetric and symmetric:
            small = equations.operator.largest_graph <= equations.channels
            return "wide" if small else "cg"
        return "picard" if max(equations.contractions) <= FEW_STEPS else "gmres"
    solver = SOLVERS[name]
    for needed, given, what in (
        (solver.needs_symmetric_operator, symmetric, "operator"),
        (solver.needs_symmetric_weight, equations.weights.symmetric, "weight"),
    ):
        if needed and not given:
            raise ArgumentError(
                f"'solver' must not be {name!r} here, because it needs a symmetric {what} (got "
                "one that differs from its transpose); use solver='auto' or 'gmres'"
            )
    return name


def sufficient(equations: Equations, tol: float) -> int:
    """Return a number of iterations that the contraction proves to be enough, with room."""
    worst = max(equations.contractions, default=0.0)
    if worst == 0:
        return 10
    digits = math.log(tol * (1 - worst) * 1e-3 / max(equations.operator.num_nodes, 1))
    return 10 + math.ceil(2 * digits / math.log(worst))
