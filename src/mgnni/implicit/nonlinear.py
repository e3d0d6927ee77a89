r"""Fixed points of any map as differentiable functions of its parameters.

With :math:`z = T(z, p)` and a cotangent :math:`g`, the implicit function theorem gives

.. math::  u = \left(\frac{\partial T}{\partial z}\right)^{\top} u + g, \qquad
           \partial p = \left(\frac{\partial T}{\partial p}\right)^{\top} u.

The adjoint equation is a fixed point too, of a map with parameters :math:`z`, :math:`g` and
:math:`p`. It is solved to the same tolerance, and is differentiable in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import vjp, vmap

from mgnni.errors import ArgumentError, check_choice
from mgnni.graph.normalize import NodeNorm
from mgnni.implicit.check import (
    check_contraction,
    check_map,
    check_options,
    check_states,
    report_failure,
)
from mgnni.implicit.vmap import folded, for_each_cotangent
from mgnni.solve.certify import graph_magnitude, spread
from mgnni.solve.fixed_point import SOLVERS, FixedPoint, Map, StateNorm
from mgnni.solve.plan import full_precision
from mgnni.solve.result import ON_FAILURE, SolveLog, SolveResult

NORMS = ("frobenius", "max")


@dataclass(eq=False)
class _Request:
    """One fixed point to find, without the tensors that autograd tracks."""

    at: Callable[..., Map]  # returns the map for given parameters
    problem: FixedPoint
    on_failure: str
    log: SolveLog
    order: int = 0  # 0 for the equation itself, 1 for its adjoint, 2 for the adjoint of that

    def adjoint(self) -> _Request:
        """Returns the request for the adjoint equation; second derivatives are not logged."""
        at = self.at

        def adjoint_at(z: Tensor, grad: Tensor, *params: Tensor) -> Map:
            pull = vjp(at(*params), z)[1]  # recorded once, used in every step
            return lambda u: pull(u)[0] + grad

        problem = replace(self.problem, norm=self.problem.norm.dual())
        log = self.log if self.order == 0 else SolveLog()
        return _Request(adjoint_at, problem, self.on_failure, log, self.order + 1)

    def mapped(self, size: int, z0: Tensor, dims: Sequence[int | None]) -> _Request:
        """Returns the request for several problems over the same nodes, as one problem."""
        at, problem, nodes = self.at, self.problem, z0.size(0) // size
        batch = torch.arange(size, device=z0.device).repeat_interleave(nodes)
        if problem.batch is not None:
            batch = batch * problem.num_graphs + problem.batch.repeat(size)

        def mapped_at(*params: Tensor) -> Map:
            every = vmap(lambda z, *params: at(*params)(z), (0, *dims))
            return lambda z: every(z.view(size, nodes, z.size(1)), *params).flatten(0, 1)

        whole = replace(
            problem,
            norm=problem.norm.repeated(size),
            batch=batch,
            num_graphs=size * problem.num_graphs,
            runs=size * problem.runs,
        )
        return replace(self, at=mapped_at, problem=whole)

    def run(self, z0: Tensor, unit: Tensor | None, params: Sequence[Tensor]) -> Tensor:
        """Solves, logs, and raises or warns on failure."""
        with full_precision(z0.device):
            z, records = self.problem.solve(self.at(*params), z0, unit)
        if self.order == 0:
            self.log.forward_records += (records,)
        elif self.order == 1:
            self.log.backward_records += (records,)
        name = "the gradient that reached the fixed point" if self.order else None
        equation = "adjoint" if self.order else "fixed point"
        for one in records.stats:
            if not one.converged:
                report_failure(one, equation, name, z0, self.on_failure)
        return z.clone() if z is z0 else z  # autograd does not accept an input as output


class _FixedPoint(torch.autograd.Function):
    """Finds a fixed point; differentiates by the adjoint equation, any number of times."""

    @staticmethod
    def forward(request: _Request, z0: Tensor, unit: Tensor | None, *params: Tensor) -> Tensor:
        return request.run(z0, unit, params)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.request, _, _, *params = inputs
        ctx.save_for_backward(output, *params)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        with torch.autocast(grad.device.type, enabled=False):
            return None, None, None, *for_each_cotangent(partial(_gradients, ctx), grad)

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[Any, ...],
        request: _Request,
        z0: Tensor,
        unit: Tensor | None,
        *params: Tensor,
    ) -> tuple[Tensor, int]:
        """Solves a batch of problems as one; each stops separately."""
        size = info.batch_size
        z0 = folded(z0, in_dims[1], size)
        unit = None if unit is None else folded(unit, in_dims[2], size)
        whole = request.mapped(size, z0, in_dims[3:])
        z = _FixedPoint.apply(whole, z0, unit, *params)  # type: ignore[no-untyped-call]
        return z.unflatten(0, (size, z.size(0) // size)), 0


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """Solves the adjoint equation and returns the gradients of the parameters."""
    z, *params = ctx.saved_tensors
    request: _Request = ctx.request
    # The adjoint equation is linear, so it is solved in units in which tiny numbers keep digits.
    unit = _units(request.problem, grad)
    factor = spread(request.problem, unit)
    grad = grad / factor
    adjoint = request.adjoint()
    if torch.is_grad_enabled():  # second derivatives may need tensors that the map does not see
        check_map(lambda u, *params: adjoint.at(*params)(u), grad, (z, grad, *params))
    u = _FixedPoint.apply(  # type: ignore[no-untyped-call]
        adjoint, grad.detach(), unit, z, grad, *params
    )
    wanted = [index for index, needs in enumerate(ctx.needs_input_grad[3:]) if needs]

    def image(*chosen: Tensor) -> Tensor:
        changed = dict(zip(wanted, chosen, strict=True))
        return request.at(*[changed.get(i, p) for i, p in enumerate(params)])(z)

    pull = vjp(image, *[params[index] for index in wanted])[1]
    found = dict(zip(wanted, pull(u * factor), strict=True))
    return tuple(found.get(index) for index in range(len(params)))


def _units(problem: FixedPoint, grad: Tensor) -> Tensor:
    """Powers of two near the largest entry of each graph, or ones; shape ``(num_graphs,)``."""
    size = graph_magnitude(problem, grad.detach())
    usable = (size > 0) & size.isfinite()
    return torch.where(usable, size.log2().floor(), 0.0).exp2()


def implicit_fixed_point(
    map: Callable[..., Tensor],
    z0: Tensor,  # shape: (num_nodes, channels)
    params: Sequence[Tensor] = (),
    *,
    contraction: float | None = None,
    norm: str | NodeNorm = "frobenius",
    solver: str = "anderson",
    tol: float = 1e-6,
    max_iter: int | None = None,
    on_failure: str = "raise",
    batch: Tensor | None = None,  # shape: (num_nodes,)
    num_graphs: int = 1,
    log: SolveLog | None = None,
) -> SolveResult:
    r"""Solves :math:`z = T(z, p)`, with a certificate if the map is known to contract.

    The result is differentiable in ``params`` by the implicit function theorem, as often as the
    map is; no iteration is recorded. Gradients reach nothing else: pass every tensor that
    requires grad to the map through ``params``.

    Args:
        map (Callable): The map :math:`T`, called as ``map(z, *params)``. The states of a graph
            must not depend on the other graphs of the batch.
        z0 (Tensor): The initial states. The solution does not depend on them.
        params (Sequence[Tensor], optional): The tensors that the map depends on.
        contraction (float, optional): A constant :math:`L < 1` that you guarantee, with
            :math:`\|T(z) - T(z')\| \le L \|z - z'\|`. Without one, no error is certified.
            (default: :obj:`None`)
        norm (str or NodeNorm, optional): The norm in which the map contracts: ``"frobenius"``;
            ``"max"``, the largest absolute entry; or the ``norm`` of a
            :class:`~mgnni.Propagation`, with the maximum over channels.
            (default: :obj:`"frobenius"`)
        solver (str, optional): ``"anderson"`` or ``"picard"``. (default: :obj:`"anderson"`)
        tol (float, optional): Bound on :math:`\|T(z) - z\|_F` relative to the larger of
            :math:`\|z\|_F` and :math:`\|T(z)\|_F`, in each graph. Also used for the adjoint
            equation. (default: :obj:`1e-6`)
        max_iter (int, optional): Largest number of steps. By default, a number that provably
            suffices, or 1000 if no ``contraction`` is given.
        on_failure (str, optional): ``"raise"`` a :class:`~mgnni.ConvergenceError`, or ``"warn"``.
            (default: :obj:`"raise"`)
        batch (Tensor, optional): Graph of each node. Each graph is a separate problem and stops
            separately. (default: :obj:`None`)
        num_graphs (int, optional): Number of graphs. (default: :obj:`1`)
        log (SolveLog, optional): Receives the records of this solve and of its adjoint.

    Returns:
        The fixed point with its residual, iterations, status and ``error_bound``. The bound is
        infinite without a ``contraction``. It allows for eight units in the last place of rounding
        in the map.

    Shapes:
        - **z0:** ``(num_nodes, channels)``
        - **batch:** ``(num_nodes,)``
        - **output:** ``value`` has shape ``(num_nodes, channels)``
    """
    check_options(tol, max_iter)
    check_choice("solver", solver, SOLVERS)
    check_choice("on_failure", on_failure, ON_FAILURE)
    if isinstance(norm, str):
        check_choice("norm", norm, NORMS)
    check_contraction(contraction)
    check_states(z0, batch, num_graphs)
    given = params if isinstance(params, (tuple, list)) else (None,)
    if not all(isinstance(one, Tensor) for one in given):
        raise ArgumentError(
            "'params' must be a sequence of tensors (got "
            f"{type(params).__name__}); write (weight,) for a single one"
        )
    check_map(map, z0, params)
    log = SolveLog() if log is None else log
    problem = FixedPoint(StateNorm.of(norm), contraction, solver, tol, max_iter, batch, num_graphs)
    request = _Request(lambda *params: lambda z: map(z, *params), problem, on_failure, log)
    before = len(log.forward)
    value = _FixedPoint.apply(request, z0.detach(), None, *params)  # type: ignore[no-untyped-call]
    return SolveResult.of(value, log.forward[before:])
