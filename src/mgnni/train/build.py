"""From a configuration to a model."""

from __future__ import annotations

from typing import Any

import torch

from mgnni.models.base import OnGraphs
from mgnni.models.catalog import find_model
from mgnni.train.config import Config


def model_class(config: Config) -> type[Any]:
    """Return the class of the model that a configuration names."""
    return find_model(config.architecture).load()


def build_model(config: Config, in_channels: int, out_channels: int, level: str) -> OnGraphs:
    """Make the model that a configuration describes."""
    options = dict(vars(config.model))
    hidden = options.pop("hidden_channels")
    hidden = in_channels if hidden is None else hidden
    made: OnGraphs = model_class(config)(in_channels, hidden, out_channels, level=level, **options)
    return made


def num_parameters(config: Config, in_channels: int, out_channels: int, level: str) -> int:
    """Count the parameters of the model, or say why it cannot be made; nothing is drawn."""
    with torch.device("meta"):
        model = build_model(config, in_channels, out_channels, level)
    return sum(parameter.numel() for parameter in model.parameters())
