"""States of unit length."""

from __future__ import annotations

import torch
from torch import Tensor

EPS = 1e-12  # as in torch.nn.functional.normalize


def unit_rows(z: Tensor) -> Tensor:
    r"""Scale every row to unit length, as :func:`torch.nn.functional.normalize` does.

    Rows of zeros do not change, and neither does their gradient, which ``normalize`` multiplies by
    :math:`10^{12}`: beside such a gradient, an adjoint equation loses the gradients of all other
    rows.

    Args:
        z (Tensor): The states.

    Shapes:
        - **z, output:** :math:`(|\mathcal{V}|, F)`
    """
    length = torch.linalg.vector_norm(z, dim=-1, keepdim=True)
    return z / torch.where(length == 0, 1.0, length.clamp(min=EPS))
