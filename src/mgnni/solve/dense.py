"""Dense products that want care: large ones on a CPU, and long sums.

NumPy's BLAS halves the work of a matrix times its own transpose. With one thread it was also faster
than torch's at the other large products, with two no slower by much. Its threads are those of the
machine, or as many as ``OMP_NUM_THREADS`` says.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

TALL, SHORT = 2**13, 2**10  # rows that are added in single precision; on an accelerator
LARGE = 512  # rows and columns of a result from which on it matters


def is_large(*tensors: Tensor) -> bool:
    """Whether the product of the first and the last is one for :func:`large_product`.

    Not if autograd or a transform has to see it.
    """
    functorch = torch._C._functorch
    return (
        min(tensors[0].size(-2), tensors[-1].size(-1)) > LARGE
        and tensors[0].dtype in (torch.float32, torch.float64)
        and all(x.device.type == "cpu" for x in tensors)
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))
        and not any(functorch.is_functorch_wrapped_tensor(x) for x in tensors)
        and not any(functorch.is_legacy_batchedtensor(x) for x in tensors)
    )


def large_product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return ``a @ b``, of stacks too."""
    left, right = a.detach().numpy(), b.detach().numpy()
    if out is None:
        return torch.from_numpy(np.matmul(left, right))
    np.matmul(left, right, out=out.numpy())
    return out


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` by whatever is fastest at it."""
    return large_product(a, b) if is_large(a, b) else a @ b


def tall_product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a.mT @ b`` of stacks with many rows, in parts that are added in float64.

    One long sum in single precision loses digits with the number of nodes; and on an accelerator
    a result of few numbers keeps few processors busy, where its parts keep all of them so.
    """
    rows, width = a.shape[-2:]
    size = TALL if a.device.type == "cpu" else max(SHORT, width)
    count = rows // size
    if count < 2 or a.dtype is torch.float64 or torch.is_grad_enabled():
        return product(a.mT, b)
    even = count * size
    lead = (*a.shape[:-2], count, size)
    x, y = (one[..., :even, :].reshape(*lead, one.size(-1)) for one in (a, b))
    total: Tensor = (x.mT @ y).sum(-3, dtype=torch.float64)
    if even < rows:
        total += a[..., even:, :].mT @ b[..., even:, :]
    return total.to(a.dtype)
