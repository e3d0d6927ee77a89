"""Learning rates against PyTorch's schedulers."""

import pytest
import torch
from torch.optim import lr_scheduler

from mgnni.train.config import Config
from mgnni.train.schedule import lr_factor

EPOCHS = 120


def rates(make) -> list[float]:
    """The rate of every epoch, if a scheduler steps after each of them."""
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=0.01)
    scheduler = make(optimizer)
    found = []
    for _ in range(EPOCHS):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize(
    ("options", "make"),
    [
        (
            {"schedule": "step", "lr_period": 50},
            lambda optimizer: lr_scheduler.StepLR(optimizer, step_size=50, gamma=0.5),
        ),
        (
            {"schedule": "step", "lr_period": 7, "lr_decay": 0.9},
            lambda optimizer: lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.9),
        ),
        (
            {"schedule": "step", "lr_period": 50, "lr_steps": 1},
            lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [50], gamma=0.5),
        ),
        (
            {"schedule": "cosine", "lr_period": 32},
            lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=32),
        ),
        (
            {"schedule": "cosine"},
            lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS),
        ),
        ({"schedule": "constant"}, lambda optimizer: lr_scheduler.ConstantLR(optimizer, 1.0)),
        ({"schedule": "step"}, lambda optimizer: lr_scheduler.ConstantLR(optimizer, 1.0)),
    ],
    ids=str,
)
def test_every_schedule_is_that_of_pytorch(options, make):
    config = Config(epochs=EPOCHS, lr=0.01, **options)
    found = [config.lr * lr_factor(config, epoch) for epoch in range(1, EPOCHS + 1)]
    assert found == pytest.approx(rates(make), rel=1e-12, abs=1e-17)
