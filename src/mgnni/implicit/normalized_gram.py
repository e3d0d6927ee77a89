r"""The parametrisation that makes every equilibrium equation a contraction.

With :math:`W = g(F)`, :math:`G = F^{\top} F`, a cotangent :math:`D` of :math:`W`, and the gradient
:math:`U` of the norm :math:`N` of :math:`G`,

.. math::  \partial F = F\,(D + D^{\top} - 2\,\langle D, W \rangle\,U)\,/\,(N + \epsilon), \qquad
           U = (G / N)^{p - 1}

for the Schatten norm of order :math:`p`. With :math:`p = 2`, the Frobenius norm, this is one
product as wide as :math:`F`. Second derivatives use the same formula.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.errors import check_choice
from mgnni.implicit.cache import Cache, Gram
from mgnni.solve.products import gram, is_large, large_product
from mgnni.solve.scratch import scratch

NORMS = ("frobenius", "spectral")
ORDER = 512  # of the Schatten norm that stands for the spectral norm; a power of two
SQUARINGS = ORDER.bit_length() - 2  # of the Gram matrix, whose Frobenius norm has order two
TINY = torch.finfo(torch.float64).tiny


def normalized_gram(
    factor: Tensor, eps: float = 1e-12, *, norm: str = "frobenius", cache: Cache | None = None
) -> Tensor:
    r"""Returns :math:`g(F) = F^{\top} F / (\|F^{\top} F\| + \epsilon)` for a stack of factors.

    The result is symmetric, positive semidefinite, and :math:`\|g(F)\|_2 < 1` up to rounding, so
    that :math:`Z = \gamma P^m Z\, g(F) + B` has exactly one solution.

    With the Frobenius norm, as in the MGNNI paper, the squares of the eigenvalues of :math:`g(F)`
    sum to one at most, so that few directions propagate far. With the spectral norm all of them
    can; :math:`g(F) = I` is possible. It is computed as the Schatten norm of order 512, which is
    smooth and exceeds the spectral norm of :math:`h` channels by a factor of at most
    :math:`h^{1/512}`, below 1.01 for 128 channels.

    Args:
        factor (Tensor): The factors :math:`F`.
        eps (float, optional): The constant :math:`\epsilon`. (default: :obj:`1e-12`)
        norm (str, optional): ``"frobenius"`` or ``"spectral"``. (default: :obj:`"frobenius"`)
        cache (Cache, optional): The cache of a layer. Its last result is returned if the factors
            are the same, compared number by number.

    Shapes:
        - **factor:** ``(..., channels, channels)``
        - **output:** ``(..., channels, channels)``
    """
    weight: Tensor
    check_choice("norm", norm, NORMS)
    if torch.compiler.is_compiling():
        weight = torch.ops.mgnni.normalized_gram(factor, eps, norm)[0]
    else:
        weight = _NormalizedGram.apply(factor, eps, norm, cache)[0]  # type: ignore[no-untyped-call]
    return weight


class _NormalizedGram(torch.autograd.Function):
    """Returns the weight, and the norm of the Gram matrix for the backward pass."""

    @staticmethod
    def forward(factor: Tensor, eps: float, norm: str, cache: Cache | None) -> tuple[Tensor, ...]:
        # Comparing the factors would make the host wait for a device.
        if cache is None or factor.device.type != "cpu":
            return _gram_and_norm(factor, eps, norm)
        return _cached(factor, eps, norm, cache)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        factor, ctx.eps, ctx.norm, _ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(factor, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        factor, weight, size = ctx.saved_tensors
        with torch.autocast(factor.device.type, enabled=False):
            found = _pulled_back(factor, weight, size, ctx.eps, ctx.norm, grads[0])
        return found, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], factor: Tensor, *rest: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        stack = factor.movedim(in_dims[0], 0)
        return _NormalizedGram.apply(stack, *rest), (0, 0)  # type: ignore[no-untyped-call]


def _gram_and_norm(factor: Tensor, eps: float, norm: str) -> tuple[Tensor, Tensor]:
    """Returns :math:`g(F)`, and the norm of the Gram matrix, shape ``(..., 1, 1)``.

    With the spectral norm all is computed in float64, and the norm is returned in it.
    """
    square = gram(factor.double() if norm == "spectral" else factor)
    size = _schatten_norm(square) if norm == "spectral" else _norm(square)
    return square.div_(size + eps).to(factor.dtype), size


def _cached(factor: Tensor, eps: float, norm: str, cache: Cache) -> tuple[Tensor, Tensor]:
    last = cache.gram
    if (
        last is None
        or last.settings != (eps, norm)
        or last.factor.shape != factor.shape
        or last.factor.dtype != factor.dtype
        or last.weight._version != last.version
        or not torch.equal(last.factor, factor)
    ):
        cache.gram = last = None  # free the old entry before allocating the new one
        weight, size = _gram_and_norm(factor, eps, norm)
        if weight.is_inference():  # cannot be used in training, and has no version
            return weight, size
        last = Gram(factor.detach().clone(), (eps, norm), weight, size, weight._version)
        cache.gram = last
    return last.weight.detach(), last.norm.detach()


def _pulled_back(
    factor: Tensor, weight: Tensor, size: Tensor, eps: float, norm: str, grad: Tensor
) -> Tensor:
    """Returns the gradient of the factor, given the weight and the norm of the Gram matrix."""
    if norm == "spectral":
        return _pulled_back_spectral(factor, size, eps, grad)
    if torch.is_grad_enabled():  # second derivatives need the whole graph
        square = factor.mT @ factor
        size = _norm(square)
        weight = square / (size + eps)
    elif is_large(factor, weight, grad):
        return _pulled_back_large(factor, weight, size, eps, grad)
    below = size.clamp(min=torch.finfo(size.dtype).tiny)  # a factor of zeros has gradient zero
    beta = (grad * weight).sum((-2, -1), keepdim=True) * (1 + eps / below)
    return factor @ (grad + grad.mT).addcmul(weight, beta, value=-2) / (size + eps)


def _pulled_back_large(
    factor: Tensor, weight: Tensor, norm: Tensor, eps: float, grad: Tensor
) -> Tensor:
    """As :func:`_pulled_back`, one factor at a time in scratch memory."""
    out = torch.empty_like(factor, memory_format=torch.contiguous_format)
    flat = [x.reshape(-1, *x.shape[-2:]) for x in (factor, weight, grad, norm)]
    with scratch(factor) as take:
        inner = take(*factor.shape[-2:])
        for f, w, d, size, result in zip(*flat, out.view_as(flat[0]), strict=True):
            below = size.clamp(min=torch.finfo(size.dtype).tiny)
            beta = float(torch.dot(d.reshape(-1), w.reshape(-1)) * (1 + eps / below))
            torch.add(d, d.T, out=inner)
            inner.add_(w, alpha=-2 * beta).div_(float(size + eps))
            large_product(f, inner, out=result)
    return out


def _pulled_back_spectral(factor: Tensor, norm: Tensor, eps: float, grad: Tensor) -> Tensor:
    double, grad = factor.double(), grad.double()
    square = double.mT @ double
    if torch.is_grad_enabled():  # second derivatives need the whole graph
        norm = _schatten_norm(square)
    size = norm + eps
    beta = (grad * square / size).sum((-2, -1), keepdim=True)
    inner = grad + grad.mT - 2 * beta * _norm_gradient(square / norm.clamp(min=TINY))
    return (double @ (inner / size)).to(factor.dtype)


def _norm(square: Tensor) -> Tensor:
    """The Frobenius norm, row by row: one long float32 sum of squares loses digits."""
    rows = torch.linalg.vector_norm(square, dim=-1, keepdim=True)
    norm: Tensor = torch.linalg.vector_norm(rows, dim=-2, keepdim=True)
    return norm


def _schatten_norm(square: Tensor) -> Tensor:
    """The Schatten norm of a positive semidefinite matrix, shape ``(..., 1, 1)``.

    The power comes from repeated squaring; every square is divided by its norm.
    """
    scale = _norm(square).clamp(min=TINY)
    power, log, share = square / scale, scale.log(), 1.0
    for _ in range(SQUARINGS):
        power, share = power @ power, share / 2
        size = _norm(power).clamp(min=TINY)
        power, log = power / size, log + share * size.log()
    return log.exp()


def _norm_gradient(base: Tensor) -> Tensor:
    """The gradient of the Schatten norm: the power of one order less of a matrix of norm one."""
    gradient = base
    for _ in range(SQUARINGS):
        base = base @ base
        gradient = gradient @ base
    return gradient


# The op that torch.compile and torch.export record; see mgnni.implicit.custom_ops.
torch.library.define(
    "mgnni::normalized_gram",
    "(Tensor factor, float eps, str norm) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
torch.library.define(
    "mgnni::normalized_gram_backward",
    "(Tensor factor, Tensor weight, Tensor size, float eps, str norm, Tensor grad) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


@torch.library.impl("mgnni::normalized_gram", "default")
@torch.no_grad()
def _op(factor: Tensor, eps: float, norm: str) -> tuple[Tensor, Tensor]:
    return _gram_and_norm(factor, eps, norm)


@torch.library.register_fake("mgnni::normalized_gram")  # type: ignore[untyped-decorator]
def _(factor: Tensor, eps: float, norm: str) -> tuple[Tensor, Tensor]:
    channels, dtype = factor.size(-1), torch.float64 if norm == "spectral" else factor.dtype
    weight = factor.new_empty(*factor.shape[:-2], channels, channels)
    return weight, factor.new_empty(*factor.shape[:-2], 1, 1, dtype=dtype)


@torch.library.impl("mgnni::normalized_gram_backward", "default")
@torch.no_grad()
def _op_backward(
    factor: Tensor, weight: Tensor, size: Tensor, eps: float, norm: str, grad: Tensor
) -> Tensor:
    return _pulled_back(factor, weight, size, eps, norm, grad)


@torch.library.register_fake("mgnni::normalized_gram_backward")  # type: ignore[untyped-decorator]
def _(factor: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(factor, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor, float, str], output: tuple[Tensor, Tensor]) -> None:
    factor, ctx.eps, ctx.norm = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(factor, *output)


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    saved = ctx.saved_tensors
    found = torch.ops.mgnni.normalized_gram_backward(*saved, ctx.eps, ctx.norm, grad)
    return found, None, None


torch.library.register_autograd("mgnni::normalized_gram", _backward, setup_context=_save)
