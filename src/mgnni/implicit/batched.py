"""Batches, as ``vmap`` and ``torch.autograd.grad(..., is_grads_batched=True)`` hand them over.

Vectorised Jacobians (``torch.autograd.functional.jacobian(vectorize=True)``, and with it PyG's
``total_influence``) run backward passes under an older kind of vmap, which asks no
:class:`torch.autograd.Function` for its rule. The batch is taken off by hand there.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

DEEPEST = 8  # levels of vectorised Jacobians inside one another


def folded(stack: Tensor, dim: int | None, size: int) -> Tensor:
    """Fold a batch of stacks, batched at ``dim`` or all the same, into one stack."""
    moved = stack.expand(size, *stack.shape) if dim is None else stack.movedim(dim, 0)
    return moved.flatten(0, 1)


def batched_level(x: Tensor) -> int | None:
    """The innermost level at which ``x`` is batched by the older vmap, or None.

    The nesting that torch counts is that of a thread, and backward passes on an accelerator have
    threads of their own; so the tensor itself is asked. Taking a batch off at a level that it
    does not have gives a batch of the size one names.
    """
    if not torch._C._functorch.is_legacy_batchedtensor(x):
        return None
    for level in range(DEEPEST, 0, -1):
        one, two = (torch._remove_batch_dim(x, level, size, 0).size(0) for size in (1, 2))
        if one == two:
            return level
    raise RuntimeError(f"a batch nested more than {DEEPEST} deep; use fewer vectorised Jacobians")


def unbatch(x: Tensor, level: int) -> Tensor:
    """Return the plain tensor with the batch in front."""
    plain: Tensor = torch._remove_batch_dim(x, level, 1, 0)
    return plain


def for_each_cotangent(
    gradients: Callable[[Tensor], tuple[Tensor | None, ...]], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Return the gradients, also for a batch of cotangents from a vectorised Jacobian."""
    level = batched_level(grad)
    if level is None:
        return gradients(grad)
    found = [for_each_cotangent(gradients, one) for one in unbatch(grad, level)]
    stacks = [None if one[0] is None else torch.stack(one) for one in zip(*found, strict=True)]
    return tuple(None if stack is None else rebatch(stack, level) for stack in stacks)


def rebatch(x: Tensor, level: int) -> Tensor:
    """Return ``x`` as a batch along its first dimension."""
    batch: Tensor = torch._add_batch_dim(x, 0, level)
    return batch
