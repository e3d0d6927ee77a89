r"""Equilibria as differentiable functions of bias, weight and edge weights.

With :math:`Z = \gamma P^m Z W + B` and a cotangent :math:`G`, the adjoint equation is

.. math::  U = \gamma (P^{\top})^m U W^{\top} + G,

and :math:`\partial B = U`, :math:`\partial W = \gamma (P^m Z)^{\top} U`. It is an equation of
the same kind with the same contraction constant, so it is solved by the same solvers with the
same certificate, and is differentiable in turn.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, ConvergenceError, ConvergenceWarning, check_choice
from mgnni.graph.csr import check_one_operator
from mgnni.graph.propagation import Propagation
from mgnni.implicit.batched import folded, for_each_cotangent
from mgnni.implicit.check import (
    check_finite_weight,
    check_gamma,
    check_options,
    check_tensors,
)
from mgnni.implicit.log import SolveLog
from mgnni.solve.dense import tall_product
from mgnni.solve.equation import Equations
from mgnni.solve.known import Known
from mgnni.solve.planned import solve_planned
from mgnni.solve.result import SolveStats, Status
from mgnni.solve.solve import Options, looks, plan_for, solve
from mgnni.solve.weights import WIDE, Weights

MEMORY = ("fast", "low")
ON_FAILURE = ("raise", "warn")

_deferred: ContextVar[bool] = ContextVar("deferred", default=False)


@contextmanager
def deferred() -> Iterator[None]:
    """Within, solves on an accelerator do not wait for their own records.

    The caller reads ``pending`` of the log, and does again what missed its tolerance: nothing
    raises by itself.
    """
    token = _deferred.set(True)
    try:
        yield
    finally:
        _deferred.reset(token)


@dataclass(eq=False)
class _Request:
    """One stack of equations to solve, apart from the tensors that autograd must see."""

    propagation: Propagation
    scales: tuple[int, ...]
    gamma: float
    options: Options
    memory: str
    on_failure: str
    log: SolveLog
    known: Known | None = None
    normed: bool = False
    deferred: bool = False
    graded: bool = False  # whether gradients may be asked for
    order: int = 0  # 0 for the equation itself, 1 for its adjoint, 2 for the adjoint of that
    equations: Equations | None = None  # what is known of the weights, once solved
    hop: Tensor | None = field(default=None, repr=False)

    def adjoint(self) -> _Request:
        """The request for the adjoint equation; second derivatives have a log of their own."""
        return replace(
            self,
            propagation=self.propagation.adjoint(),
            log=self.log if self.order == 0 else SolveLog(),
            order=self.order + 1,
        )

    def repeated(self, times: int) -> _Request:
        """The request for so many copies of the stack, as one stack."""
        return replace(self, scales=self.scales * times, equations=None)

    def run(self, weight: Tensor, bias: Tensor) -> Tensor:
        """Solve, record, and raise or warn on failure."""
        if self.equations is None:
            equations = self._equations(weight, bias)
        else:
            equations = self.equations.adjoint(bias)
        known = None if self.order or self.memory == "low" else self.known
        solve_ = solve if known is None else known.solve
        starts = None
        if self.known is not None and self.options.warm_start and self.order < 2:
            starts = self.known.starts  # second derivatives are of other equations each time
        kind = (self.order, self.graded)
        start = None if starts is None else starts.of(kind, equations)
        solution = solve_(equations, self.options, self.deferred, start)
        if starts is not None:
            starts.keep(kind, equations, solution.z)
        self.equations = equations.with_bias(bias.new_empty(len(self.scales), 0, 0))
        self.hop = solution.hop if self.memory == "fast" else None
        if self.order == 1:
            self.log._backward = solution.stats
        elif self.order == 0:
            self.log._forward = solution.stats
        if isinstance(solution.stats, tuple):
            for stats in solution.stats:
                if not stats.converged:
                    self._fail(stats, bias)
        return solution.z

    def _equations(self, weight: Tensor, bias: Tensor) -> Equations:
        weights = Weights(weight, self.normed)
        equations = Equations(self.propagation, self.scales, self.gamma, weights, bias)
        plan = plan_for(equations, self.options.solver)
        if not looks(plan, equations):
            if self.known is not None and plan is solve_planned:
                weights = replace(weights, basis=self.known.bases.of(weight))
            return replace(equations, weights=weights)
        if not bool(weight.sum().isfinite()):  # one number tells, unless the sum overflowed
            check_finite_weight(weight)
        if self.known is None or (self.memory == "low" and weights.channels > WIDE):
            return equations  # of wide weights a copy is as large as many states
        return replace(equations, weights=self.known.weights.of(weight, self.normed))

    def _fail(self, stats: SolveStats, bias: Tensor) -> None:
        if self.equations is not None:
            check_finite_weight(self.equations.weights.tensor)
        if stats.status is Status.NOT_FINITE and not bool(torch.isfinite(bias).all()):
            name = "the gradient that reached the equilibrium" if self.order else "'bias'"
            raise ArgumentError(
                f"{name} must be finite (got nan or inf in it); check the features and the loss "
                "with torch.isfinite"
            )
        message = f"{'adjoint' if self.order else 'equilibrium'} equation: {stats.failure()}"
        if self.on_failure == "raise":
            raise ConvergenceError(message)
        warnings.warn(message, ConvergenceWarning, stacklevel=2)


class _Equilibrium(torch.autograd.Function):
    """Solve a stack of equations; differentiate by the adjoint equation, any number of times."""

    @staticmethod
    def forward(values: Tensor | None, weight: Tensor, bias: Tensor, request: _Request) -> Tensor:
        return request.run(weight, bias)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, weight, _, ctx.request = inputs
        # Kept by autograd, which lets go of it after the backward pass.
        ctx.save_for_backward(output, weight, ctx.request.hop)
        ctx.request.hop = None

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        with torch.autocast(grad.device.type, enabled=False):
            return for_each_cotangent(partial(_gradients, ctx), grad)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], values: Tensor | None, *inputs: Any
    ) -> tuple[Tensor, int]:
        """Solve a batch of stacks as one stack: equations over one operator share its products."""
        check_one_operator(in_dims[0])
        weight, bias, request = inputs
        size = info.batch_size
        stacks = [folded(weight, in_dims[1], size), folded(bias, in_dims[2], size)]
        z = _Equilibrium.apply(values, *stacks, request.repeated(size))  # type: ignore[no-untyped-call]
        return z.unflatten(0, (size, -1)), 0


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Solve the adjoint equation and return the gradients of values, weight and bias."""
    z, weight, hop = ctx.saved_tensors
    request: _Request = ctx.request
    wants_values, wants_weight, wants_bias, _ = ctx.needs_input_grad
    adjoint = request.adjoint()
    values = adjoint.propagation.values
    u: Tensor = _Equilibrium.apply(  # type: ignore[no-untyped-call]
        values if values.requires_grad else None, weight.mT, grad, adjoint
    )
    grad_values = grad_weight = None
    if wants_weight:
        if hop is None or torch.is_grad_enabled():  # second derivatives need its graph
            hop = _hop(request.propagation, z, request.scales)
        grad_weight = request.gamma * tall_product(hop, u)
    if wants_values:
        grad_values = _grad_values(request, z, request.gamma * (u @ weight.mT))
    return grad_values, grad_weight, u if wants_bias else None, None


def _hop(propagation: Propagation, z: Tensor, scales: Sequence[int]) -> Tensor:
    return torch.stack([propagation.apply(z[i], scale) for i, scale in enumerate(scales)])


def _grad_values(request: _Request, z: Tensor, cotangent: Tensor) -> Tensor:
    r"""Differentiate :math:`P^m Z` by the entries of ``P``, :math:`Z` being held fixed.

    :math:`\sum_k ((P^{\top})^k V) (P^{m-1-k} Z)^{\top}`, sampled where ``P`` has entries.
    """
    forward, backward = request.propagation, request.propagation.adjoint()
    total = torch.zeros_like(forward.values)
    for index, scale in enumerate(request.scales):
        states = [z[index]]
        for _ in range(scale - 1):
            states.append(forward.apply(states[-1]))
        v = cotangent[index]
        for state in reversed(states):
            total = total + forward.pattern.sampled_product(v, state)
            v = backward.apply(v)
    return total


def equilibria(
    propagation: Propagation,
    weight: Tensor,  # shape: (scales, channels, channels)
    bias: Tensor,  # shape: (num_nodes, channels)
    scales: tuple[int, ...],
    gamma: float,
    *,
    options: Options = Options(),  # noqa: B008 (immutable)
    memory: str = "fast",
    on_failure: str = "raise",
    known: Known | None = None,
    normed: bool = False,
) -> tuple[Tensor, SolveLog]:
    """Solve the equations of all scales together, differentiably.

    What was found out about the weights of the pass before, and its solution, is taken from
    ``known`` where the two passes are the same. Weights are ``normed`` if they are symmetric,
    positive semidefinite, and of Frobenius norm one at most, as
    :func:`~mgnni.layers.contraction.contraction` makes them.

    Returns:
        The states, shape ``(scales, num_nodes, channels)``, and the log of the solves.
    """
    gamma = check_gamma(gamma)
    check_options(options.tol, options.max_iter)
    check_choice("memory", memory, MEMORY)
    check_choice("on_failure", on_failure, ON_FAILURE)
    stack = bias.unsqueeze(0).expand(len(scales), *bias.shape)
    check_tensors(propagation, weight, stack, len(scales))
    log = SolveLog()
    request = _Request(propagation, scales, gamma, options, memory, on_failure, log, known, normed)
    request.deferred, request.graded = _deferred.get(), torch.is_grad_enabled()
    values = propagation.values if propagation.values.requires_grad else None
    z: Tensor = _Equilibrium.apply(values, weight, stack, request)  # type: ignore[no-untyped-call]
    return z, log
