"""What a pass leaves to the next one, which may ask for the very same."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mgnni.kernels.launches import new_basis
from mgnni.solve.equation import Equations
from mgnni.solve.operator import Operator
from mgnni.solve.solve import Options, Solution, solve
from mgnni.solve.weights import KnownWeights, Weights

LARGEST = 2**24  # numbers in the states of all equations, past which they are not kept


@dataclass(frozen=True, eq=False)
class _Solved:
    """Equations and their solution."""

    operator: weakref.ref[Operator]
    weights: Weights
    setting: tuple[Any, ...]
    bias: Tensor
    solution: Solution
    version: int  # of the states, which are in other hands too


class KnownSolution:
    """The last equations solved, with their solution.

    A validation pass and the training pass after it ask for the same states where nothing random
    stands before them. Operator and weights must be the same objects, the bias is compared number
    by number, and states that were changed in place are not given out again. Copies and pickles
    start empty.
    """

    def __init__(self) -> None:
        self._last: _Solved | None = None

    def of(self, equations: Equations, options: Options) -> Solution | None:
        """Return the solution, if it is of these very equations."""
        last = self._last
        if last is None or not (
            last.operator() is equations.operator
            and last.weights is equations.weights
            and last.setting == _setting(equations, options)
            and last.version == last.solution.z._version
        ):
            return None
        bias = _one(equations)
        if last.bias.shape != bias.shape or not torch.equal(last.bias, bias):
            return None
        z = last.solution.z.detach()  # the same memory, outside of any pass so far
        return Solution(z, last.solution.hop, last.solution.stats)

    def keep(self, equations: Equations, options: Options, solution: Solution) -> None:
        """Remember a solution in place of the last one."""
        self._last = None
        z = solution.z
        if z.numel() > LARGEST or z.is_inference() or equations.operator.values.requires_grad:
            return
        self._last = _Solved(
            weakref.ref(equations.operator),
            equations.weights,
            _setting(equations, options),
            _one(equations).clone(),
            # Autograd will tie the states themselves to their pass, and to all that it holds.
            Solution(z.detach(), solution.hop, solution.stats),
            z._version,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownSolution, ()


class KnownBases:
    """Eigenvectors from which an accelerator starts to look for those of the next weights.

    They are no more than a start, so nothing depends on whose they are. Copies and pickles start
    empty.
    """

    def __init__(self) -> None:
        # One for each shape, and none is ever let go: a recorded pass goes on to write there.
        self._room: dict[Any, Tensor] = {}

    def of(self, weight: Tensor) -> Tensor:
        """Return the room for weights of this shape."""
        key = weight.shape, weight.device
        if key not in self._room:
            with torch.inference_mode(False):
                self._room[key] = new_basis(weight)
        return self._room[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownBases, ()


class KnownStarts:
    """The last states, for the next solve to start from: of equations and of their adjoints.

    A kind is an order of differentiation, and whether gradients may be asked for: passes with and
    without have their own, as dropout sets them apart. Copies and pickles start empty.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[int, bool], tuple[weakref.ref[Operator], Tensor]] = {}

    def of(self, kind: tuple[int, bool], equations: Equations) -> Tensor | None:
        """Return the last states over the same operator, if there are any of this shape."""
        last = self._last.get(kind)
        if last is None or last[0]() is not equations.operator:
            return None
        z, bias = last[1], equations.bias
        return z if (z.shape, z.dtype, z.device) == (bias.shape, bias.dtype, bias.device) else None

    def keep(self, kind: tuple[int, bool], equations: Equations, z: Tensor) -> None:
        """Remember states in place of the last ones of the kind."""
        if not z.is_inference():
            self._last[kind] = (weakref.ref(equations.operator), z.detach())

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownStarts, ()


@dataclass(eq=False)
class Known:
    """The last weights, solutions and eigenvectors of a layer."""

    weights: KnownWeights = field(default_factory=KnownWeights)
    solution: KnownSolution = field(default_factory=KnownSolution)
    bases: KnownBases = field(default_factory=KnownBases)
    starts: KnownStarts = field(default_factory=KnownStarts)

    def solve(
        self,
        equations: Equations,
        options: Options,
        deferred: bool = False,
        start: Tensor | None = None,
    ) -> Solution:
        """Solve the equations, unless they are the last ones.

        Weights that have not been compared with the last ones are those whose numbers shall not
        be looked at; nor is the bias, then.
        """
        compared = self.weights.holds(equations.weights)
        solution = self.solution.of(equations, options) if compared else None
        if solution is None:
            solution = solve(equations, options, deferred, start)
            if compared:
                self.solution.keep(equations, options, solution)
        return solution


def _setting(equations: Equations, options: Options) -> tuple[Any, ...]:
    return equations.scales, equations.gamma, options, equations.shared_bias


def _one(equations: Equations) -> Tensor:
    """The bias, once if all equations share it."""
    return equations.bias[:1] if equations.shared_bias else equations.bias
