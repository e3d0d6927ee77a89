r"""Equilibria as differentiable functions of bias, weight and edge weights.

With :math:`Z = \gamma P^m Z W + B` and a cotangent :math:`G`, the adjoint equation is

.. math::  U = \gamma (P^{\top})^m U W^{\top} + G,

and :math:`\partial B = U`, :math:`\partial W = \gamma (P^m Z)^{\top} U`. It has the same form and
the same contraction constant, so it is solved by the same methods with the same certificate, and
is differentiable in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mgnni.graph.product import OpArguments, check_one_operator
from mgnni.graph.propagation import Propagation
from mgnni.implicit.cache import Cache
from mgnni.implicit.check import check_gamma, check_tensors, report_failure
from mgnni.implicit.gradients import gradients
from mgnni.implicit.vmap import folded, for_each_cotangent
from mgnni.solve.equation import Equations
from mgnni.solve.plan import Plan
from mgnni.solve.prepare import prepare
from mgnni.solve.result import Options, Records, SolveLog
from mgnni.solve.weights import WIDE, Weights, check_finite_weight

is_deferred: ContextVar[bool] = ContextVar("deferred", default=False)


@contextmanager
def deferred() -> Iterator[None]:
    """Context manager in which solves on a device do not wait for their own records.

    The caller reads ``Records.deferred`` and repeats what missed its tolerance: nothing raises.
    """
    token = is_deferred.set(True)
    try:
        yield
    finally:
        is_deferred.reset(token)


@dataclass(eq=False)
class Request:
    """One stack of equations to solve, without the tensors that autograd tracks.

    The forward pass stores its plan and :math:`P^m Z` here for the backward pass.
    """

    propagation: Propagation
    scales: tuple[int, ...]
    gamma: float
    psd_norm: float | None
    options: Options
    cache: Cache | None
    log: SolveLog = field(default_factory=SolveLog)
    deferred: bool = field(default_factory=is_deferred.get)
    grad_enabled: bool = field(default_factory=torch.is_grad_enabled)
    keeps_states: bool = True  # whether the cache may keep states; compiled graphs overwrite them
    order: int = 0  # 0 for the equations, 1 for their adjoint, 2 for the adjoint of that
    plan: Plan | None = None
    hop: Tensor | None = field(default=None, repr=False)

    def adjoint(self) -> Request:
        """Returns the request for the adjoint equations; second derivatives are not logged."""
        return replace(
            self,
            propagation=self.propagation.adjoint(),
            log=self.log if self.order == 0 else SolveLog(),
            order=self.order + 1,
            plan=None if self.plan is None else self.plan.adjoint(),
        )

    def repeated(self, times: int) -> Request:
        """Returns the request for several copies of the stack, as one stack."""
        return replace(self, scales=self.scales * times, plan=None)

    def prepare(self, weight: Tensor) -> Plan:
        """Returns the plan for a weight."""
        agreed = self.propagation.agreed if self.propagation.is_sharded else None
        weights = Weights(weight.detach(), self.psd_norm, agreed=agreed)
        equations = Equations(self.propagation, self.scales, self.gamma, weights)
        # A copy of wide weights is as large as many states.
        low = self.options.memory != "fast" and weights.channels > WIDE
        if self.cache is None or self.order > 0 or low:
            return prepare(equations, self.options)
        return self.cache.prepare(equations, self.options)

    def check(self, records: Records, weight: Tensor, bias: Tensor) -> None:
        """Raises or warns about equations that were not solved."""
        name = "the gradient that reached the equilibrium" if self.order else "'bias'"
        equation = "adjoint" if self.order else "equilibrium"
        for stats in records.stats:
            if not stats.converged:
                check_finite_weight(weight)
                report_failure(stats, equation, name, bias, self.options.on_failure)


class Equilibrium(torch.autograd.Function):
    """Solves a stack of equations; differentiates by the adjoint equation, any number of times."""

    @staticmethod
    def forward(values: Tensor | None, weight: Tensor, bias: Tensor, request: Request) -> Tensor:
        """Solve, and keep what the backward pass needs in the request."""
        cache, order, fast = request.cache, request.order, request.options.memory == "fast"
        plan = request.prepare(weight) if request.plan is None else request.plan
        operator = plan.equations.operator
        # Solutions are compared by number, which must not make an asynchronous plan wait.
        keeps = order == 0 and fast and plan.synchronises and request.keeps_states
        solution = cache.solution(plan, bias) if cache is not None and keeps else None
        kind, starts = (order, request.grad_enabled), request.options.warm_start and order < 2
        if solution is None:
            start = cache.start(kind, operator, bias) if cache is not None and starts else None
            solution = plan.solve(bias, start, request.deferred)
            if cache is not None and keeps:
                cache.keep_solution(plan, bias, solution)
        if cache is not None and starts:
            z = solution.z if request.keeps_states else solution.z.clone()
            cache.keep_start(kind, operator, z)
        request.plan = plan
        request.hop = solution.hop if fast else None
        if order == 0:
            request.log.forward_records += (solution.records,)
        elif order == 1:
            request.log.backward_records += (solution.records,)
        if plan.synchronises or not request.deferred:
            request.check(solution.records, plan.equations.weights.tensor, bias)
        return solution.z

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        """Save tensors for the backward pass."""
        _, weight, _, ctx.request = inputs
        # Autograd frees what it saved after the backward pass.
        ctx.save_for_backward(output, weight, ctx.request.hop)
        ctx.request.hop = None

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Solve the adjoint equation."""
        (grad,) = grads
        with torch.autocast(grad.device.type, enabled=False):
            z, weight, hop = ctx.saved_tensors
            wanted = ctx.needs_input_grad[:3]
            found = partial(gradients, Equilibrium.apply, ctx.request, z, weight, hop, wanted)
            return *for_each_cotangent(found, grad), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], values: Tensor | None, *inputs: Any
    ) -> tuple[Tensor, int]:
        """Solves a batch of stacks as one stack: equations over one operator share products."""
        check_one_operator(in_dims[0])
        weight, bias, request = inputs
        size = info.batch_size
        stacks = [folded(weight, in_dims[1], size), folded(bias, in_dims[2], size)]
        z = Equilibrium.apply(values, *stacks, request.repeated(size))  # type: ignore[no-untyped-call]
        return z.unflatten(0, (size, -1)), 0


def equilibria(
    propagation: Propagation,
    weight: Tensor,  # shape: (scales, channels, channels)
    bias: Tensor,  # shape: (num_nodes, channels)
    scales: tuple[int, ...],
    gamma: float,
    *,
    options: Options = Options(),  # noqa: B008 (immutable)
    cache: Cache | None = None,
    psd_norm: float | None = None,
    adjoint: bool = False,
) -> tuple[Tensor, SolveLog]:
    r"""Solves the equations of all scales together, differentiably.

    Args:
        propagation (Propagation): The operator.
        weight (Tensor): One weight per scale.
        bias (Tensor): The bias, shared by all scales.
        scales (tuple[int, ...]): The scales.
        gamma (float): The factor :math:`\gamma`.
        options (Options, optional): How to solve.
        cache (Cache, optional): What the layer keeps between passes.
        psd_norm (float, optional): Bound on the Frobenius norm of weights that are symmetric,
            positive semidefinite and of spectral norm at most one, as
            :func:`mgnni.normalized_gram` returns them. :obj:`None` if this is not known.
            (default: :obj:`None`)
        adjoint (bool, optional): Whether to use the transposed operator. (default: :obj:`False`)

    Returns:
        The states, shape ``(scales, num_nodes, channels)``, and the log of the solves. A compiled
        graph leaves its log in the cache, and the returned one is empty.
    """
    gamma = check_gamma(gamma)
    z: Tensor
    stack = bias.unsqueeze(0).expand(len(scales), *bias.shape)
    check_tensors(propagation, weight, stack, len(scales))
    if torch.compiler.is_compiling():  # one op of mgnni.implicit.custom_ops, and no Python
        # Other processes load an exported graph, and do not have this cache. torch.export runs
        # without Dynamo, unless it is strict; is_exporting() is always true in that of torch 2.11.
        compiled = torch.compiler.is_dynamo_compiling()
        handle = cache.handle if compiled and cache is not None else None
        z = torch.ops.mgnni.equilibrium(
            *OpArguments.of(propagation, adjoint),
            *(weight, bias, handle, scales, gamma, psd_norm),
            *(options.solver, options.tol, options.max_iter, options.warm_start),
            *(options.memory, options.on_failure, torch.is_grad_enabled()),
        )[0]
        return z, SolveLog()
    propagation = propagation.adjoint() if adjoint else propagation
    request = Request(propagation, scales, gamma, psd_norm, options, cache)
    if cache is not None:
        cache.log = request.log
    values = propagation.values if propagation.values.requires_grad else None
    z = Equilibrium.apply(values, weight, stack, request)  # type: ignore[no-untyped-call]
    return z, request.log
