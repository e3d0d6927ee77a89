"""Batching rules for ``vmap`` and ``torch.autograd.grad(..., is_grads_batched=True)``.

Vectorised Jacobians (``torch.autograd.functional.jacobian(vectorize=True)``, used by PyG's
``total_influence``) run backward passes under the legacy vmap, which ignores the ``vmap`` rule of a
:class:`torch.autograd.Function`. There, the batch dimension is removed by hand.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

DEEPEST = 8  # largest nesting of vectorised Jacobians


def folded(stack: Tensor, dim: int | None, size: int) -> Tensor:
    """Folds a batch of stacks, batched at ``dim`` or not batched, into one stack.

    Args:
        stack (Tensor): The stacks.
        dim (int, optional): The batch dimension; :obj:`None` repeats one stack.
        size (int): Batch size.

    Shapes:
        - **stack:** ``(equations, *)``, with the batch dimension at ``dim`` if there is one
        - **output:** ``(size * equations, *)``
    """
    moved = stack.expand(size, *stack.shape) if dim is None else stack.movedim(dim, 0)
    return moved.flatten(0, 1)


def batched_level(x: Tensor) -> int | None:
    """Returns the innermost level at which ``x`` is batched by the legacy vmap, or None.

    torch counts the nesting per thread, and backward passes on a device run in other threads, so
    the level is found from the tensor itself. Removing a batch dimension at a level that the
    tensor does not have returns a batch of the requested size.

    Args:
        x (Tensor): A tensor of any shape.
    """
    if not torch._C._functorch.is_legacy_batchedtensor(x):
        return None
    for level in range(DEEPEST, 0, -1):
        one, two = (torch._remove_batch_dim(x, level, size, 0).size(0) for size in (1, 2))
        if one == two:
            return level
    raise RuntimeError(f"Jacobians are nested more than {DEEPEST} deep; use fewer levels")


def for_each_cotangent(
    gradients: Callable[[Tensor], tuple[Tensor | None, ...]], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Returns the gradients, also for the batched cotangents of a vectorised Jacobian.

    Args:
        gradients (Callable): Returns the gradients for one cotangent.
        grad (Tensor): The cotangent.

    Shapes:
        - **grad:** the shape of the output that is differentiated
        - **output:** the shapes that ``gradients`` returns
    """
    level = batched_level(grad)
    if level is None:
        return gradients(grad)
    plain: Tensor = torch._remove_batch_dim(grad, level, 1, 0)  # the batch is its first dimension
    found = [for_each_cotangent(gradients, one) for one in plain]
    return tuple(
        None if one[0] is None else torch._add_batch_dim(torch.stack(one), 0, level)
        for one in zip(*found, strict=True)
    )
