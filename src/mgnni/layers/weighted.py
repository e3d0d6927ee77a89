"""Sums over neighbours by weights that differ from pass to pass, as attention makes them.

A row for every edge is never made: memory grows with nodes times channels, and with edges.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.graph.pattern import Pattern
from mgnni.implicit.vmap import folded


def weighted_sum(weight: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
    r"""Return :math:`\sum_u w_{vuk} x_{uk}` for every node :math:`v` and head :math:`k`.

    Args:
        weight: of every entry of the pattern, shape ``(nnz, heads)``.
        x: shape ``(num_nodes, heads, channels)``.
        pattern: which nodes a node sums over.
    """
    dtype = torch.float64 if x.dtype is torch.float64 else torch.float32
    with torch.autocast(x.device.type, enabled=False):
        heads = weight.T.to(dtype), x.transpose(0, 1).to(dtype)
        total: Tensor = _Sum.apply(*heads, pattern)  # type: ignore[no-untyped-call]
    return total.transpose(0, 1).to(x.dtype).contiguous()


def _folded(info: Any, dims: tuple[Any, ...], tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """Make one dimension of that of ``vmap`` and that of heads."""
    return [folded(t, dim, info.batch_size) for t, dim in zip(tensors, dims, strict=True)]


def _split(info: Any, merged: Tensor) -> Tensor:
    size = info.batch_size
    return merged.view(size, merged.size(0) // size, *merged.shape[1:])


class _Sum(torch.autograd.Function):
    """A sparse product for each head; ``weight`` is ``(heads, nnz)``, ``x`` begins with heads."""

    @staticmethod
    def forward(weight: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
        total = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
        if pattern.nnz and x.numel():
            for out, w, head in zip(total, weight.contiguous(), x.contiguous(), strict=True):
                out.addmm_(pattern.matrix(w), head, beta=0)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        weight, x, ctx.pattern = inputs
        ctx.save_for_backward(weight, x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        weight, x = ctx.saved_tensors
        other, order = ctx.pattern.transposed
        of_weight: Tensor = _Sampled.apply(grads[0], x, ctx.pattern)  # type: ignore[no-untyped-call]
        of_x: Tensor = _Sum.apply(weight[:, order], grads[0], other)  # type: ignore[no-untyped-call]
        return of_weight, of_x, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], weight: Tensor, x: Tensor, pattern: Pattern
    ) -> tuple[Tensor, int]:
        """Runs are more heads."""
        total: Tensor = _Sum.apply(*_folded(info, in_dims[:2], (weight, x)), pattern)  # type: ignore[no-untyped-call]
        return _split(info, total), 0


class _Sampled(torch.autograd.Function):
    """``left[v] . right[u]`` for every entry and head, shape ``(heads, nnz)``."""

    @staticmethod
    def forward(left: Tensor, right: Tensor, pattern: Pattern) -> Tensor:
        heads = zip(left, right, strict=True)
        return torch.stack([pattern.sampled_product(a, b) for a, b in heads])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        left, right, ctx.pattern = inputs
        ctx.save_for_backward(left, right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right = ctx.saved_tensors
        other, order = ctx.pattern.transposed
        of_left: Tensor = _Sum.apply(grads[0], right, ctx.pattern)  # type: ignore[no-untyped-call]
        of_right: Tensor = _Sum.apply(grads[0][:, order], left, other)  # type: ignore[no-untyped-call]
        return of_left, of_right, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], left: Tensor, right: Tensor, pattern: Pattern
    ) -> tuple[Tensor, int]:
        """Runs are more heads."""
        value: Tensor = _Sampled.apply(*_folded(info, in_dims[:2], (left, right)), pattern)  # type: ignore[no-untyped-call]
        return _split(info, value), 0
