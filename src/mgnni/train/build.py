"""From a configuration to a model."""

from __future__ import annotations

import torch

from mgnni.models.mgnni import MGNNI
from mgnni.train.config import Config


def build_model(config: Config, in_channels: int, out_channels: int, level: str) -> MGNNI:
    """Make the model that a configuration describes."""
    options = dict(vars(config.model))
    hidden = options.pop("hidden_channels")
    hidden = in_channels if hidden is None else hidden
    return MGNNI(in_channels, hidden, out_channels, level=level, **options)


def num_parameters(config: Config, in_channels: int, out_channels: int, level: str) -> int:
    """Count the parameters of the model, or say why it cannot be made; nothing is drawn."""
    with torch.device("meta"):
        model = build_model(config, in_channels, out_channels, level)
    return sum(parameter.numel() for parameter in model.parameters())
