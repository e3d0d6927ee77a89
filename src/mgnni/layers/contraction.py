"""The parametrisation that keeps every equilibrium equation a contraction."""

from __future__ import annotations

import torch
from torch import Tensor


def contraction(factor: Tensor, eps: float = 1e-12) -> Tensor:
    r"""Return :math:`g(F) = F^{\top} F / (\|F^{\top} F\|_F + \epsilon)` for a stack of factors.

    It is symmetric, positive semidefinite, and :math:`\|g(F)\|_2 \le \|g(F)\|_F < 1`.

    Shapes:
        - **factor:** ``(..., channels, channels)``
        - **output:** as ``factor``
    """
    gram = factor.mT @ factor
    weight: Tensor = gram / (torch.linalg.matrix_norm(gram, keepdim=True) + eps)
    return weight
