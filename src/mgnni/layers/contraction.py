r"""The parametrisation that keeps every equilibrium equation a contraction.

With :math:`W = g(F)`, :math:`G = F^{\top} F` and a cotangent :math:`D` of :math:`W`,

.. math::  \partial F = F\,(D + D^{\top} - 2\,\beta\,W)\,/\,(\|G\|_F + \epsilon), \qquad
           \beta = \langle D, W \rangle\,(1 + \epsilon / \|G\|_F),

one product of the width of :math:`F`; a second derivative goes through the same formula.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.solve.dense import gram, is_large, large_product
from mgnni.solve.scratch import scratch


class KnownContraction:
    """The last factors met and their :math:`g(F)`, compared number by number.

    A validation pass and the training pass after it have the same factors. Copies and pickles
    start empty.
    """

    def __init__(self) -> None:
        self._last: tuple[Tensor, float, Tensor, Tensor] | None = None

    def of(self, factor: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        """Return :math:`g(F)` and the norm of the Gram matrix."""
        last = self._last
        if last is None or not (
            last[1] == eps
            and last[0].shape == factor.shape
            and last[0].dtype == factor.dtype
            and last[0].device == factor.device
            and torch.equal(last[0], factor)
        ):
            self._last = None  # two at a time would be one too many
            last = (factor.detach().clone(), eps, *_normed_gram(factor, eps))
            # Memory of an inference pass cannot serve training.
            self._last = None if last[2].is_inference() else last
        return last[2].detach(), last[3].detach()

    def __reduce__(self) -> tuple[Any, ...]:
        return KnownContraction, ()


def contraction(
    factor: Tensor, eps: float = 1e-12, *, known: KnownContraction | None = None
) -> Tensor:
    r"""Return :math:`g(F) = F^{\top} F / (\|F^{\top} F\|_F + \epsilon)` for a stack of factors.

    It is symmetric, positive semidefinite, and :math:`\|g(F)\|_2 \le \|g(F)\|_F < 1`.

    Args:
        factor: :math:`F`.
        eps: :math:`\epsilon`.
        known: the factors of the pass before, in case they are the same.

    Shapes:
        - **factor:** ``(..., channels, channels)``
        - **output:** as ``factor``
    """
    weight: Tensor = _Contraction.apply(factor, eps, known)[0]  # type: ignore[no-untyped-call]
    return weight


class _Contraction(torch.autograd.Function):
    """Return the weight, and the norm of the Gram matrix, which is no output for others."""

    @staticmethod
    def forward(factor: Tensor, eps: float, known: KnownContraction | None) -> tuple[Tensor, ...]:
        return _normed_gram(factor, eps) if known is None else known.of(factor, eps)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        factor, ctx.eps, _ = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(factor, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        factor, weight, norm = ctx.saved_tensors
        with torch.autocast(factor.device.type, enabled=False):
            if torch.is_grad_enabled():  # second derivatives need the graph of it all
                square = factor.mT @ factor
                norm = _norm(square)
                weight = square / (norm + ctx.eps)
            elif is_large(factor, weight, grads[0]):
                return _pulled_back_large(factor, weight, norm, ctx.eps, grads[0]), None, None
            return _pulled_back(factor, weight, norm, ctx.eps, grads[0]), None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], factor: Tensor, eps: float, known: Any
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        stack = factor.movedim(in_dims[0], 0)
        return _Contraction.apply(stack, eps, known), (0, 0)  # type: ignore[no-untyped-call]


def _pulled_back(factor: Tensor, weight: Tensor, norm: Tensor, eps: float, grad: Tensor) -> Tensor:
    below = norm.clamp(min=torch.finfo(norm.dtype).tiny)  # a factor of zeros has gradient zero
    beta = (grad * weight).sum((-2, -1), keepdim=True) * (1 + eps / below)
    return factor @ (grad + grad.mT).addcmul(weight, beta, value=-2) / (norm + eps)


def _pulled_back_large(
    factor: Tensor, weight: Tensor, norm: Tensor, eps: float, grad: Tensor
) -> Tensor:
    """As :func:`_pulled_back`, one factor at a time and in memory that is used again."""
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


def _norm(square: Tensor) -> Tensor:
    """The Frobenius norm, row by row: one long sum of squares loses digits in single precision."""
    rows = torch.linalg.vector_norm(square, dim=-1, keepdim=True)
    norm: Tensor = torch.linalg.vector_norm(rows, dim=-2, keepdim=True)
    return norm


def _normed_gram(factor: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return :math:`g(F)` and the norm of the Gram matrix, shape ``(..., 1, 1)``."""
    square = gram(factor)
    norm = _norm(square)
    return square.div_(norm + eps), norm
