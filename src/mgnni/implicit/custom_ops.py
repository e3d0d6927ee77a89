r"""Equilibria as a custom op of ``torch.library``.

``torch.compile`` and ``torch.export`` record one call of this op per layer, with the graph as
tensors, where eager mode uses :class:`mgnni.implicit.linear.Equilibrium`. Both run the same solver.
The op is differentiable once, which is what a compiled graph can be.
"""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from mgnni.graph.custom_ops import COUNT, TAGS, operator_of, save_operator, saved_operator
from mgnni.graph.product import SCHEMA, OpArguments
from mgnni.graph.propagation import Propagation
from mgnni.implicit.cache import Cache
from mgnni.implicit.gradients import gradients
from mgnni.implicit.linear import Equilibrium, Request
from mgnni.solve.plan import Plan
from mgnni.solve.result import Options, SolveLog
from mgnni.solve.weights import Weights

SETTINGS = (
    "Tensor? cache, int[] scales, float gamma, float? psd_norm, str solver, float tol, "
    "int? max_iter, bool warm_start, str memory, str on_failure, bool grad_enabled"
)
KEPT = 8  # layers of a model without handles whose weights are remembered per operator

torch.library.define(
    "mgnni::equilibrium",
    f"({SCHEMA}, Tensor weight, Tensor bias, {SETTINGS}) -> (Tensor, Tensor)",
    tags=TAGS,
)
torch.library.define(
    "mgnni::equilibrium_backward",
    f"({SCHEMA}, Tensor weight, Tensor z, Tensor hop, Tensor grad, bool[] wanted, {SETTINGS}) -> "
    "(Tensor, Tensor, Tensor)",
    tags=TAGS,
)

_unnamed: WeakKeyDictionary[Propagation, list[Cache]] = WeakKeyDictionary()


class _Settings(NamedTuple):
    """The arguments of :data:`SETTINGS`; from ``solver`` on those of :class:`Options`."""

    cache: Tensor | None
    scales: list[int]
    gamma: float
    psd_norm: float | None
    solver: str
    tol: float
    max_iter: int | None
    warm_start: bool
    memory: str
    on_failure: str
    grad_enabled: bool

    def cache_of(self, operator: Propagation, weight: Tensor) -> Cache:
        """Returns the cache of the layer, or another one if it was exported."""
        cache = None if self.cache is None else Cache.find(self.cache)
        return _cache_of(operator, Weights(weight, self.psd_norm)) if cache is None else cache

    def request(self, operator: Propagation, cache: Cache) -> Request:
        """Returns the request to solve the equations."""
        return Request(
            operator,
            tuple(self.scales),
            self.gamma,
            self.psd_norm,
            Options(*self[4:-1]),
            cache,
            cache.log,
            grad_enabled=self.grad_enabled,
            keeps_states=False,
        )


def _cache_of(operator: Propagation, weights: Weights) -> Cache:
    """Returns the cache in which these weights were last used with the operator, or a new one."""
    caches = _unnamed.setdefault(operator, [])
    for cache in caches:
        if cache.previous is not None and cache.previous.has_weights(weights):
            return cache
    caches[:] = [*caches, Cache()][-KEPT:]
    return caches[-1]


def _has(plan: Plan, weight: Tensor) -> bool:
    """Whether a plan is for these weights; on a device, only if they are the same tensor."""
    mine = plan.equations.weights.tensor
    if mine.data_ptr() == weight.data_ptr() or mine.shape != weight.shape or mine.is_cuda:
        return mine.data_ptr() == weight.data_ptr() and mine.shape == weight.shape
    return torch.equal(mine, weight)


def _owned(result: Tensor | None, like: Tensor, *others: Tensor) -> Tensor:
    """Returns a result as an op may: a tensor that shares no memory with its inputs."""
    if result is None:
        return like.new_empty(0)
    shared = any(result.data_ptr() == other.data_ptr() for other in others)
    return result.clone() if shared or not result.is_contiguous() else result


@torch.library.impl("mgnni::equilibrium", "default")
@torch.no_grad()
def _solve(*args: Any) -> tuple[Tensor, Tensor]:
    operator = operator_of(OpArguments(*args[:COUNT]))
    weight, bias = (one.detach() for one in args[COUNT : COUNT + 2])
    settings = _Settings(*args[COUNT + 2 :])
    cache = settings.cache_of(operator, weight)
    cache.log = SolveLog()
    request = settings.request(operator, cache)
    stack = bias.expand(len(request.scales), *bias.shape)
    # Compiled graphs run with tracking of views, which costs an eighth of a small solve.
    with torch.autograd.grad_mode._force_original_view_tracking(False):
        z = Equilibrium.forward(None, weight, stack, request)
    # A plan references its operator, with which a cache that is not of a layer is freed.
    keeps = settings.grad_enabled and settings.cache is not None
    cache.pending = request.plan if keeps else None
    z = _owned(z, bias, bias)
    return z, _owned(request.hop, bias, z)


@torch.library.register_fake("mgnni::equilibrium")  # type: ignore[untyped-decorator]
def _(*args: Any) -> tuple[Tensor, Tensor]:
    bias, settings = args[COUNT + 1], _Settings(*args[COUNT + 2 :])
    z = bias.new_empty(len(settings.scales), *bias.shape)
    return z, torch.empty_like(z) if settings.memory == "fast" else bias.new_empty(0)


@torch.library.impl("mgnni::equilibrium_backward", "default")
@torch.no_grad()
def _differentiate(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    arguments = OpArguments(*args[:COUNT])
    operator = operator_of(arguments)
    weight, z, hop, grad = (one.detach() for one in args[COUNT : COUNT + 4])
    wanted, settings = args[COUNT + 4], _Settings(*args[COUNT + 5 :])
    cache = settings.cache_of(operator, weight)
    request = settings.request(operator, cache)
    plan, cache.pending = cache.pending, None
    # The plan of the forward pass, unless another pass of the layer came between.
    fits = plan is not None and plan.equations.operator is operator and _has(plan, weight)
    request.plan = plan if fits else request.prepare(weight)
    kept = hop if settings.memory == "fast" else None
    tensors = (z, weight, kept, wanted, grad)
    of_values, of_weight, of_bias = gradients(Equilibrium.forward, request, *tensors)
    of_bias = None if of_bias is None else of_bias.sum(0)  # all scales share it
    if of_values is not None and arguments.adjoint and not arguments.symmetric:
        # In the order of the transpose.
        order = operator_of(arguments._replace(adjoint=False)).pattern.transposed[1]
        of_values = torch.empty_like(of_values).index_copy_(0, order, of_values)
    return _owned(of_values, z), _owned(of_weight, z), _owned(of_bias, z, grad)


@torch.library.register_fake("mgnni::equilibrium_backward")  # type: ignore[untyped-decorator]
def _(*args: Any) -> tuple[Tensor, Tensor, Tensor]:
    weight, z, wanted = args[COUNT], args[COUNT + 1], args[COUNT + 4]
    whole = (torch.empty_like(args[2]), torch.empty_like(weight), torch.empty_like(z[0]))
    values, of_weight, bias = (
        one if wants else z.new_empty(0) for one, wants in zip(whole, wanted, strict=True)
    )
    return values, of_weight, bias


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    weight, handle = inputs[COUNT], inputs[COUNT + 2]
    ctx.mark_non_differentiable(output[1])
    save_operator(ctx, inputs, weight, *output, handle)
    ctx.settings = inputs[COUNT + 3 :]


def _backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
    graph, (weight, z, hop, handle) = saved_operator(ctx)
    wanted = [ctx.needs_input_grad[place] for place in (2, COUNT, COUNT + 1)]
    found = torch.ops.mgnni.equilibrium_backward(
        *graph, weight, z, hop, grads[0], wanted, handle, *ctx.settings
    )
    values, of_weight, bias = (
        one if wants else None for one, wants in zip(found, wanted, strict=True)
    )
    settings = (None,) * (1 + len(ctx.settings))
    return (None, None, values, *(None,) * (COUNT - 3), of_weight, bias, *settings)


torch.library.register_autograd("mgnni::equilibrium", _backward, setup_context=_save)
