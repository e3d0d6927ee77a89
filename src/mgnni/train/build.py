"""From a configuration to a model."""

from __future__ import annotations

import torch

from mgnni.models.base import GraphModel
from mgnni.models.catalog import make_model
from mgnni.train.config import Config


def build_model(config: Config, in_channels: int, out_channels: int, level: str) -> GraphModel:
    """Make the model that a configuration describes."""
    options = dict(vars(config.model))
    hidden = options.pop("hidden_channels")
    made: GraphModel = make_model(
        config.architecture, in_channels, hidden, out_channels, level=level, **options
    )
    return made


def bare_model(config: Config, in_channels: int, out_channels: int, level: str) -> GraphModel:
    """Make the model without its numbers, or say why it cannot be made; nothing is drawn."""
    with torch.device("meta"):
        return build_model(config, in_channels, out_channels, level)


def num_parameters(config: Config, in_channels: int, out_channels: int, level: str) -> int:
    """Count the parameters of the model."""
    model = bare_model(config, in_channels, out_channels, level)
    return sum(parameter.numel() for parameter in model.parameters())
