"""Sparse products whose entries change in every pass, as with attention or dropout."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mgnni.graph.csr import Pattern


def weighted_sum(weight: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
    r"""Return :math:`\sum_u w_{vuk} x_{uk}` for every node :math:`v` and attention head :math:`k`.

    No message is stored per edge: memory is linear in nodes times channels, plus edges.

    Args:
        weight (Tensor): Weight of every entry of the pattern, per head.
        x (Tensor): Node features per head.
        pattern (Pattern): The neighbours of each node; or the pattern of any sparse matrix, with
            one row of ``x`` per column.

    Shapes:
        - **weight:** :math:`(\mathrm{nnz}, K)`
        - **x:** :math:`(|\mathcal{V}|, K, F)`
        - **output:** :math:`(|\mathcal{V}|, K, F)`
    """
    dtype = torch.float64 if x.dtype is torch.float64 else torch.float32
    if torch.compiler.is_compiling():  # in plain ops, with one row per edge
        message = weight.to(dtype).unsqueeze(-1) * x.to(dtype)[pattern.col.long()]
        total = message.new_zeros(pattern.num_nodes, *x.shape[1:])
        return total.index_add(0, pattern.row, message).to(x.dtype)
    with torch.autocast(x.device.type, enabled=False):
        heads = weight.T.to(dtype), x.transpose(0, 1).to(dtype)
        sums: Tensor = _WeightedSum.apply(*heads, pattern)  # type: ignore[no-untyped-call]
    return sums.transpose(0, 1).to(x.dtype).contiguous()


class _PerHead(torch.autograd.Function):
    """A function of two stacks with one matrix or vector per head, and of a pattern."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.pattern = inputs
        ctx.save_for_backward(*tensors)

    @classmethod
    def vmap(
        cls,
        info: Any,
        in_dims: tuple[int | None, ...],
        left: Tensor,
        right: Tensor,
        pattern: Pattern,
    ) -> tuple[Tensor, int]:
        """Merge the dimension of ``vmap`` with that of the heads."""
        size = info.batch_size
        merged = []
        for stack, dim in zip((left, right), in_dims[:2], strict=True):
            moved = stack.expand(size, *stack.shape) if dim is None else stack.movedim(dim, 0)
            merged.append(moved.flatten(0, 1))
        out: Tensor = cls.apply(*merged, pattern)  # type: ignore[no-untyped-call]
        return out.view(size, out.size(0) // size, *out.shape[1:]), 0


class _WeightedSum(_PerHead):
    """A sparse product per head: ``weight`` is ``(heads, nnz)``, ``x`` starts with the heads."""

    @staticmethod
    def forward(weight: Tensor, x: Tensor, pattern: Pattern) -> Tensor:
        total = x.new_zeros(x.size(0), pattern.num_nodes, x.size(2))
        if pattern.nnz and x.numel():
            for out, w, head in zip(total, weight.contiguous(), x.contiguous(), strict=True):
                out.addmm_(pattern.matrix(w), head, beta=0)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        weight, x = ctx.saved_tensors
        of_weight = of_x = None
        if ctx.needs_input_grad[0]:
            of_weight = _Sampled.apply(grads[0], x, ctx.pattern)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[1]:
            other, order = ctx.pattern.transposed
            of_x = _WeightedSum.apply(weight[:, order], grads[0], other)  # type: ignore[no-untyped-call]
        return of_weight, of_x, None


class _Sampled(_PerHead):
    """``left[v] @ right[u]`` for every entry and head, shape ``(heads, nnz)``."""

    @staticmethod
    def forward(left: Tensor, right: Tensor, pattern: Pattern) -> Tensor:
        heads = zip(left, right, strict=True)
        return torch.stack([pattern.sampled_product(a, b) for a, b in heads])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right = ctx.saved_tensors
        other, order = ctx.pattern.transposed
        of_left: Tensor = _WeightedSum.apply(grads[0], right, ctx.pattern)  # type: ignore[no-untyped-call]
        of_right: Tensor = _WeightedSum.apply(grads[0][:, order], left, other)  # type: ignore[no-untyped-call]
        return of_left, of_right, None
