"""The projection that keeps a weight within a norm."""

from __future__ import annotations

import torch
from torch import Tensor


def project_l1_ball_rows(weight: Tensor, radius: float) -> Tensor:
    r"""Return, for every row, the nearest row with :math:`\sum_j |w_j| \le r`.

    The largest row sum of absolute values being :math:`\|W\|_\infty`, this is the nearest matrix
    with :math:`\|W\|_\infty \le r`. A row that lies within stays as it is; of another, each entry
    comes closer to zero by the same :math:`\alpha`, down to zero at most. Sorted,
    :math:`a_1 \ge a_2 \ge \dots`, it is the largest :math:`(\sum_{j \le k} a_j - r) / k`.

    Args:
        weight: of shape ``(..., channels)``.
        radius: :math:`r`, not negative; it may be infinite.
    """
    size = weight.abs().double()  # sums of many entries, less a radius that may be small
    largest_first = size.sort(dim=-1, descending=True).values
    count = torch.arange(1, weight.size(-1) + 1, dtype=size.dtype, device=weight.device)
    alpha = (largest_first.cumsum(-1) - radius) / count
    if weight.size(-1):
        alpha = alpha.amax(-1, keepdim=True)
    projected = weight.sign() * (size - alpha).clamp(min=0).to(weight.dtype)
    return torch.where(size.sum(-1, keepdim=True) > radius, projected, weight)
