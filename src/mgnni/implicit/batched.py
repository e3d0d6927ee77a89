"""Batches of cotangents, as ``torch.autograd.grad(..., is_grads_batched=True)`` hands them over.

Vectorised Jacobians (``torch.autograd.functional.jacobian(vectorize=True)``, and with it PyG's
``total_influence``) run backward passes under an older kind of vmap, which asks no
:class:`torch.autograd.Function` for its rule. The batch is taken off by hand there.
"""

from __future__ import annotations

import torch
from torch import Tensor


def batched_level(x: Tensor) -> int | None:
    """The level at which ``x`` is batched by the older vmap, or None."""
    if not torch._C._functorch.is_legacy_batchedtensor(x):
        return None
    level = int(torch._C._vmapmode_increment_nesting()) - 1
    torch._C._vmapmode_decrement_nesting()
    return level


def unbatch(x: Tensor, level: int) -> Tensor:
    """Return the plain tensor with the batch in front."""
    plain: Tensor = torch._remove_batch_dim(x, level, 1, 0)
    return plain


def rebatch(x: Tensor, level: int) -> Tensor:
    """Return ``x`` as a batch along its first dimension."""
    batch: Tensor = torch._add_batch_dim(x, 0, level)
    return batch
