"""Batch norm that rounds alike for one run and for many together."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BatchNorm(nn.BatchNorm1d):
    """As :class:`torch.nn.BatchNorm1d` for nodes, written out.

    The built-in one is mapped over runs as one wide norm, whose backward pass adds in another
    order; sums of its own keep a run the same, to the last bit, in any company.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise every channel over the nodes in training, by what was seen before else."""
        running_mean, running_var = self.running_mean, self.running_var
        rate, count = self.momentum, x.size(0)
        if running_mean is None or running_var is None or rate is None:
            return super().forward(x)
        if not self.training or count < 2:
            return super().forward(x)
        mean = x.mean(0)
        centred = x - mean
        var = (centred * centred).mean(0)
        with torch.no_grad():
            running_mean.mul_(1 - rate).add_(mean.detach().to(running_mean.dtype), alpha=rate)
            unbiased = var.detach().to(running_var.dtype) * (count / (count - 1))
            running_var.mul_(1 - rate).add_(unbiased, alpha=rate)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        return centred * torch.rsqrt(var + self.eps) * self.weight + self.bias
