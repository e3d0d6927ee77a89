"""Dense products that need care: large ones on a CPU, and long sums.

The BLAS that torch was built with may be slow for the processor. oneDNN comes with torch, compiles
its kernels for the processor, and runs in torch's own threads. It has no float64, so float64 uses
NumPy's BLAS, whose threads keep spinning after a product and slow down what follows.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

TALL = 2**13  # number of rows that are summed in float32
SHORT, PARTS = 2**7, 2**9  # on CUDA: fewest rows per part, and largest number of parts
ONE_BY_ONE = 4  # stack size up to which parts are views instead of copies
LARGE = 512  # size of two of the three dimensions past which the library matters
FEW = 16  # smallest size of the third dimension
STRIPS = 8  # of a Gram matrix; more strips would save more work but be too narrow

_linear = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


@lru_cache
def has_onednn() -> bool:
    """Whether oneDNN works as expected: its function is not part of torch's public API."""
    one = torch.tensor([[1.0, 2.0]])
    try:
        return torch.equal(_times_transposed(one, one), torch.tensor([[5.0]]))
    except (RuntimeError, TypeError, NotImplementedError):
        return False


def is_large(*tensors: Tensor) -> bool:
    """Whether :func:`large_product` should multiply the first by the last tensor.

    Not if autograd or a functorch transform has to track the product.
    """
    functorch = torch._C._functorch
    sizes = sorted([tensors[0].size(-2), *tensors[-1].shape[-2:]])
    return (
        sizes[0] >= FEW
        and sizes[1] > LARGE
        and tensors[0].dtype in (torch.float32, torch.float64)
        and all(x.device.type == "cpu" for x in tensors)
        and not (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))
        and not any(functorch.is_functorch_wrapped_tensor(x) for x in tensors)
        and not any(functorch.is_legacy_batchedtensor(x) for x in tensors)
    )


def large_product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Returns ``a @ b``, also for stacks.

    Args:
        a (Tensor): The left factor, on the CPU.
        b (Tensor): The right factor, on the CPU.
        out (Tensor, optional): Memory for the product. (default: :obj:`None`)

    Shapes:
        - **a:** ``(*, n, k)``
        - **b:** ``(*, k, m)``
        - **out, output:** ``(*, n, m)``
    """
    if not _by_onednn(a):
        left, right = a.detach().numpy(), b.detach().numpy()
        if out is None:
            return torch.from_numpy(np.matmul(left, right))
        np.matmul(left, right, out=out.numpy())
        return out
    if a.dim() == 2:
        product = _times_transposed(a, b.mT)
        return product if out is None else out.copy_(product)
    out = a.new_empty(*a.shape[:-1], b.size(-1)) if out is None else out
    for one, left_, right_ in zip(out, a, b, strict=True):
        large_product(left_, right_, one)
    return out


def gram(factor: Tensor) -> Tensor:
    """Returns ``factor.mT @ factor``, also for stacks; large ones take half of the work.

    Args:
        factor (Tensor): The factors.

    Shapes:
        - **factor:** ``(*, rows, columns)``
        - **output:** ``(*, columns, columns)``
    """
    if not is_large(factor.mT, factor):
        return factor.mT @ factor
    if not _by_onednn(factor):  # NumPy detects the transpose
        return large_product(factor.mT, factor)
    width = factor.size(-1)
    cuts = [width * i // STRIPS for i in range(STRIPS + 1)]
    out = factor.new_empty(*factor.shape[:-2], width, width)
    flat = out.view(-1, width, width)
    for one, f in zip(flat, factor.detach().reshape(-1, *factor.shape[-2:]), strict=True):
        turned = f.T.contiguous()
        for start, stop in pairwise(cuts):
            strip = _times_transposed(turned[start:stop], turned[:stop])
            one[start:stop, :stop] = strip
            one[:start, start:stop] = strip[:, :start].T
    return out


def _by_onednn(x: Tensor) -> bool:
    return x.dtype is torch.float32 and has_onednn()


def _times_transposed(a: Tensor, b: Tensor) -> Tensor:
    """Returns ``a @ b.T`` by oneDNN, which is very slow for non-contiguous inputs."""
    a = a.detach().contiguous()
    b = b.detach() if b.T.is_contiguous() else b.detach().contiguous()
    product: Tensor = _linear(a, b, None, "none", [], "")  # type: ignore[misc]
    return product


def product(a: Tensor, b: Tensor) -> Tensor:
    """Returns ``a @ b`` by the fastest library.

    Args:
        a (Tensor): The left factor.
        b (Tensor): The right factor.

    Shapes:
        - **a:** ``(*, n, k)``
        - **b:** ``(*, k, m)``
        - **output:** ``(*, n, m)``
    """
    return large_product(a, b) if is_large(a, b) else a @ b


def biased_product(bias: Tensor, a: Tensor, b: Tensor, alpha: float) -> Tensor:
    """Returns ``bias + alpha * a @ b`` for stacks by the fastest library.

    Args:
        bias (Tensor): The bias.
        a (Tensor): The left factor.
        b (Tensor): The right factor.
        alpha (float): Factor of the product.

    Shapes:
        - **bias, output:** ``(equations, n, m)``
        - **a:** ``(equations, n, k)``
        - **b:** ``(equations, k, m)``
    """
    if is_large(a, b):
        return large_product(a, b).mul_(alpha).add_(bias)
    return torch.baddbmm(bias, a, b, alpha=alpha)


def tall_product(a: Tensor, b: Tensor) -> Tensor:
    """Returns ``a.mT @ b`` for stacks with many rows, in parts that are added in float64.

    One long float32 sum loses digits with the number of nodes. On a CUDA device, a small result
    occupies few processors, and its parts occupy all of them.

    Args:
        a (Tensor): The left factor, transposed.
        b (Tensor): The right factor.

    Shapes:
        - **a:** ``(*, rows, k)``
        - **b:** ``(*, rows, m)``
        - **output:** ``(*, k, m)``
    """
    rows, width = a.shape[-2:]
    size = TALL if a.device.type == "cpu" else max(SHORT, width, rows // PARTS)
    if rows < 2 * size or a.dtype is torch.float64 or torch.is_grad_enabled():
        return product(a.mT, b)
    if a.dim() > 2 and len(a) <= ONE_BY_ONE:
        return torch.stack([_in_parts(x, y, size) for x, y in zip(a, b, strict=True)])
    return _in_parts(a, b, size)


def _in_parts(a: Tensor, b: Tensor, size: int) -> Tensor:
    rows = a.size(-2)
    count = rows // size
    even = count * size
    lead = (*a.shape[:-2], count, size)
    x, y = (one[..., :even, :].reshape(*lead, one.size(-1)) for one in (a, b))
    total: Tensor = (x.mT @ y).sum(-3, dtype=torch.float64)
    if even < rows:
        total += a[..., even:, :].mT @ b[..., even:, :]
    return total.to(a.dtype)
