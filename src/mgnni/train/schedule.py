"""Learning rate schedules."""

from __future__ import annotations

import math

from mgnni.train.config import Config


def depends_on_epochs(schedule: str, lr_period: int | None) -> bool:
    """Return whether the learning rate of an epoch depends on the largest number of epochs."""
    return schedule == "cosine" and lr_period is None


def lr_factor(config: Config, epoch: int) -> float:
    r"""Return the factor of the learning rate in an epoch.

    With :math:`t` epochs before this one, a period :math:`p`, a decay :math:`d` and at most
    :math:`s` steps:

    - ``"constant"``: 1,
    - ``"step"``: :math:`d^{\min(\lfloor t / p \rfloor, s)}`, without a limit :math:`s` as
      :class:`torch.optim.lr_scheduler.StepLR`,
    - ``"cosine"``: :math:`(1 + \cos(\pi (t \bmod p) / p)) / 2`, as
      :class:`torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`; without a period it falls to
      zero once, after the last epoch.

    Args:
        config (Config): Its ``schedule``, ``lr_period``, ``lr_decay``, ``lr_steps`` and ``epochs``.
        epoch (int): Number of the epoch, from 1.
    """
    before, period = epoch - 1, config.lr_period or config.epochs
    if config.schedule == "constant":
        return 1.0
    if config.schedule == "step":
        steps = before // period
        limit = steps if config.lr_steps is None else config.lr_steps
        return float(config.lr_decay ** min(steps, limit))
    return 0.5 * (1 + math.cos(math.pi * (before % period) / period))
