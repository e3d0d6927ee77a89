r"""Equilibria as differentiable functions of bias, weight and edge weights.

With :math:`Z = \gamma P^m Z W + B` and a cotangent :math:`G`, the adjoint equation is

.. math::  U = \gamma (P^{\top})^m U W^{\top} + G,

and :math:`\partial B = U`, :math:`\partial W = \gamma (P^m Z)^{\top} U`. It has the same form and
the same contraction constant, so it is solved by the same methods with the same certificate, and
is differentiable in turn.
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
from mgnni.implicit.cache import Cache
from mgnni.implicit.check import check_gamma, check_options, check_tensors
from mgnni.implicit.vmap import folded, for_each_cotangent
from mgnni.solve.columns import COLUMNS
from mgnni.solve.equation import Equations
from mgnni.solve.plan import Plan
from mgnni.solve.prepare import prepare
from mgnni.solve.products import tall_product
from mgnni.solve.result import Options, SolveLog, SolveStats, Status
from mgnni.solve.weights import WIDE, Weights, check_finite_weight

MEMORY = ("fast", "low", "half")
ON_FAILURE = ("raise", "warn")

_deferred: ContextVar[bool] = ContextVar("deferred", default=False)


@contextmanager
def deferred() -> Iterator[None]:
    """Context manager in which solves on a device do not wait for their own records.

    The caller reads ``log.deferred`` and repeats what missed its tolerance: nothing raises.
    """
    token = _deferred.set(True)
    try:
        yield
    finally:
        _deferred.reset(token)


@dataclass(eq=False)
class _Request:
    """One stack of equations to solve, without the tensors that autograd tracks.

    The forward pass stores its plan and :math:`P^m Z` here for the backward pass.
    """

    propagation: Propagation
    scales: tuple[int, ...]
    gamma: float
    gram: float | None
    options: Options
    memory: str
    on_failure: str
    log: SolveLog
    cache: Cache | None
    deferred: bool
    grad_enabled: bool
    order: int = 0  # 0 for the equations, 1 for their adjoint, 2 for the adjoint of that
    plan: Plan | None = None
    hop: Tensor | None = field(default=None, repr=False)

    def adjoint(self) -> _Request:
        """Returns the request for the adjoint equations; second derivatives are not logged."""
        return replace(
            self,
            propagation=self.propagation.adjoint(),
            log=self.log if self.order == 0 else SolveLog(),
            order=self.order + 1,
            plan=None if self.plan is None else self.plan.adjoint(),
        )

    def repeated(self, times: int) -> _Request:
        """Returns the request for several copies of the stack, as one stack."""
        return replace(self, scales=self.scales * times, plan=None)

    def prepare(self, weight: Tensor) -> Plan:
        """Returns the plan for a weight."""
        weights = Weights(weight.detach(), self.gram)
        equations = Equations(self.propagation, self.scales, self.gamma, weights)
        # A copy of wide weights is as large as many states.
        low = self.memory != "fast" and weights.channels > WIDE
        if self.cache is None or self.order > 0 or low:
            return prepare(equations, self.options)
        return self.cache.prepare(equations, self.options)

    def fail(self, stats: SolveStats, weight: Tensor, bias: Tensor) -> None:
        """Raises or warns about an equation that was not solved."""
        check_finite_weight(weight)
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
    """Solves a stack of equations; differentiates by the adjoint equation, any number of times."""

    @staticmethod
    def forward(values: Tensor | None, weight: Tensor, bias: Tensor, request: _Request) -> Tensor:
        cache, order, options = request.cache, request.order, request.options
        plan = request.prepare(weight) if request.plan is None else request.plan
        operator = plan.equations.operator
        # Solutions are compared by number, which must not make an asynchronous plan wait.
        keeps = order == 0 and request.memory == "fast" and plan.synchronises
        solution = cache.solution(plan, bias) if cache is not None and keeps else None
        kind, starts = (order, request.grad_enabled), options.warm_start and order < 2
        if solution is None:
            start = cache.start(kind, operator, bias) if cache is not None and starts else None
            solution = plan.solve(bias, start, request.deferred)
            if cache is not None and keeps:
                cache.keep_solution(plan, bias, solution)
        if cache is not None and starts:
            cache.keep_start(kind, operator, solution.z)
        request.plan = plan
        request.hop = solution.hop if request.memory == "fast" else None
        if order == 0:
            request.log.forward_records = (solution.records,)
        elif order == 1:
            request.log.backward_records = (solution.records,)
        if plan.synchronises or not request.deferred:
            for stats in solution.records.stats:
                if not stats.converged:
                    request.fail(stats, plan.equations.weights.tensor, bias)
        return solution.z

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, weight, _, ctx.request = inputs
        # Autograd frees what it saved after the backward pass.
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
        """Solves a batch of stacks as one stack: equations over one operator share products."""
        check_one_operator(in_dims[0])
        weight, bias, request = inputs
        size = info.batch_size
        stacks = [folded(weight, in_dims[1], size), folded(bias, in_dims[2], size)]
        z = _Equilibrium.apply(values, *stacks, request.repeated(size))  # type: ignore[no-untyped-call]
        return z.unflatten(0, (size, -1)), 0


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Solves the adjoint equation and returns the gradients of values, weight and bias."""
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
            grad_weight = _grad_weight(request, z, u)
        else:
            grad_weight = request.gamma * tall_product(hop, u)
    if wants_values:
        cotangent = request.gamma * (u @ weight.mT)
        grad_values = _grad_values(request.propagation, request.scales, z, cotangent)
    return grad_values, grad_weight, u if wants_bias else None, None


def _grad_weight(request: _Request, z: Tensor, u: Tensor) -> Tensor:
    r"""Returns :math:`\gamma (P^m Z)^{\top} U` of every equation, a few columns at a time."""
    width = max(z.size(-1), 1) if torch.is_grad_enabled() else COLUMNS
    found = []
    for index, scale in enumerate(request.scales):
        parts = (one.contiguous() for one in torch.split(z[index], width, 1))
        hops = (request.propagation.apply(part, scale) for part in parts)
        found.append(torch.cat([tall_product(hop, u[index]) for hop in hops]))
    return request.gamma * torch.stack(found)


def _grad_values(
    propagation: Propagation, scales: Sequence[int], z: Tensor, cotangent: Tensor
) -> Tensor:
    r"""Differentiates :math:`P^m Z` with respect to the entries of ``P``, for fixed :math:`Z`.

    The result is :math:`\sum_k ((P^{\top})^k V) (P^{m-1-k} Z)^{\top}` at the entries of ``P``.
    """
    total = torch.zeros_like(propagation.values)
    for index, scale in enumerate(scales):
        states = [z[index]]
        for _ in range(scale - 1):
            states.append(propagation.apply(states[-1]))
        v = cotangent[index]
        for state in reversed(states):
            total = total + propagation.pattern.sampled_product(v, state)
            v = propagation.adjoint().apply(v)
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
    cache: Cache | None = None,
    gram: float | None = None,
) -> tuple[Tensor, SolveLog]:
    r"""Solves the equations of all scales together, differentiably.

    Args:
        propagation (Propagation): The operator.
        weight (Tensor): One weight per scale.
        bias (Tensor): The bias, shared by all scales.
        scales (tuple[int, ...]): The scales.
        gamma (float): The factor :math:`\gamma`.
        options (Options, optional): How to solve.
        memory (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"fast"`)
        on_failure (str, optional): See :func:`mgnni.solve_equilibrium`. (default: :obj:`"raise"`)
        cache (Cache, optional): What the layer keeps between passes.
        gram (float, optional): Bound on the Frobenius norm of weights that are symmetric,
            positive semidefinite and of spectral norm at most one, as
            :func:`mgnni.normalized_gram` returns them. :obj:`None` if this is not known.
            (default: :obj:`None`)

    Returns:
        The states, shape ``(scales, num_nodes, channels)``, and the log of the solves.
    """
    gamma = check_gamma(gamma)
    check_options(options.tol, options.max_iter)
    check_choice("memory", memory, MEMORY)
    check_choice("on_failure", on_failure, ON_FAILURE)
    stack = bias.unsqueeze(0).expand(len(scales), *bias.shape)
    check_tensors(propagation, weight, stack, len(scales))
    request = _Request(
        propagation,
        scales,
        gamma,
        gram,
        replace(options, memory=memory),
        memory,
        on_failure,
        SolveLog(),
        cache,
        deferred=_deferred.get(),
        grad_enabled=torch.is_grad_enabled(),
    )
    values = propagation.values if propagation.values.requires_grad else None
    z: Tensor = _Equilibrium.apply(values, weight, stack, request)  # type: ignore[no-untyped-call]
    return z, request.log
