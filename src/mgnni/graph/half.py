"""Products with float16 features, for sweeps that store their vectors in half the memory."""

from __future__ import annotations

import torch
from torch import Tensor

from mgnni.graph.memo import memoize
from mgnni.graph.propagation import Propagation


@memoize
def half_matrix(operator: Propagation) -> Tensor:
    """Return the operator with float16 entries as a sparse CSR tensor, cached per operator.

    Args:
        operator (Propagation): The operator.

    Shapes:
        - **output:** ``(num_nodes, num_nodes)``, sparse
    """
    return operator.pattern.matrix(operator.values.detach().half())


def multiply_half_into(
    operator: Propagation, out: Tensor, x: Tensor, factor: float = 1.0, beta: float = 0.0
) -> Tensor:
    """Overwrite ``out`` with ``factor * P x + beta * out``, and accumulate sums in float32.

    Args:
        operator (Propagation): The operator.
        out (Tensor): The result, float16.
        x (Tensor): The features, float16.
        factor (float, optional): Factor of the product. (default: :obj:`1.0`)
        beta (float, optional): Factor of the old values of ``out``. (default: :obj:`0.0`)

    Shapes:
        - **out, x, output:** ``(num_nodes, channels)``
    """
    if x.is_cuda and operator.pattern.nnz and x.numel():
        return out.addmm_(half_matrix(operator), x, beta=beta, alpha=factor)
    wide = out.to(operator.dtype) if beta else torch.empty_like(x, dtype=operator.dtype)
    return out.copy_(operator.multiply_into(wide, x.to(operator.dtype), factor, beta))
