"""Configurations of a training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mgnni.errors import ArgumentError, check_choice, closest
from mgnni.models.catalog import MGNNI, find_model
from mgnni.plain_data import convert, from_dict

STOPPING = ("metric", "loss", "authors")
SCHEDULES = ("constant", "cosine", "step")
CLASS_WEIGHTS = ("none", "balanced")
PRECISIONS = ("32", "tf32", "64", "bf16")


def options_class(architecture: str) -> type[Any]:
    """Return the dataclass with the options of a model, derived from its signature.

    Args:
        architecture (str): Name of the model, see :data:`mgnni.models.catalog.MODELS`.
    """
    return find_model(architecture).options()


ModelConfig: type[Any] = options_class(MGNNI)
# The public name of MGNNI's options.
ModelConfig.__name__ = ModelConfig.__qualname__ = "ModelConfig"
ModelConfig.__module__ = __name__


@dataclass(frozen=True)
class Config:
    """Model and training hyperparameters: everything but the data and the seed."""

    model: Any = field(default_factory=ModelConfig)
    """Options of the model, as made by :func:`options_class`."""
    architecture: str = MGNNI
    """Name of the model; ``mgnni models`` lists them."""
    undirected: bool | None = None
    """Make the graph undirected; none leaves it as it is."""
    lr: float = 0.01
    """Learning rate of Adam."""
    weight_decay: float = 5e-4
    """L2 penalty, added to the gradient by Adam."""
    schedule: str = "constant"
    """Learning rate schedule; cosine decays to zero, step by a factor after every period."""
    lr_period: int | None = None
    """Epochs of a step, or until a cosine restarts; none is all of them."""
    lr_decay: float = 0.5
    """Factor of the learning rate after every step."""
    lr_steps: int | None = None
    """Largest number of steps; none is no limit."""
    clip: float | None = None
    """Largest norm of the gradient of a run; none disables clipping."""
    epochs: int = 1000
    """Largest number of epochs."""
    patience: int | None = 100
    """Epochs without improvement on the validation set before a run stops; none disables it."""
    stopping: str = "metric"
    """What counts as improvement: the metric (ties by loss), the loss, or the authors' rule."""
    batch_size: int = 128
    """Graphs per batch, if there are several graphs."""
    batches_per_epoch: int | None = None
    """Batches of an epoch, each drawn from all graphs; none is one pass over the graphs."""
    shuffle: bool = True
    """Draw new batches in every epoch, instead of once."""
    class_weight: str = "none"
    """Weight of each class in the loss; balanced is inversely proportional to its training rows."""
    precision: str = "32"
    """Numerical precision; bf16 is mixed, outside of the equilibrium equations."""

    def __post_init__(self) -> None:
        options = options_class(self.architecture)
        if not isinstance(self.model, options):
            raise ArgumentError(
                f"'model' must hold the options of {self.architecture}, a {options.__name__} (got "
                f"{type(self.model).__name__}); pass its options, or set 'architecture'"
            )
        check_choice("stopping", self.stopping, STOPPING)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("class_weight", self.class_weight, CLASS_WEIGHTS)
        check_choice("precision", self.precision, PRECISIONS)
        for name, least in (
            ("lr", 0),
            ("weight_decay", 0),
            ("epochs", 1),
            ("patience", 1),
            ("batch_size", 1),
            ("batches_per_epoch", 1),
            ("lr_period", 1),
            ("lr_decay", 0),
            ("lr_steps", 0),
            ("clip", 0),
        ):
            value = getattr(self, name)
            if value is not None and not least <= value < float("inf"):
                raise ArgumentError(f"'{name}' must be at least {least} and finite (got {value})")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle plain data: the options of models are dataclasses made at run time."""
        return Config.from_dict, (self.to_dict(),)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, the inverse of :meth:`from_dict`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Config:
        """Build a configuration from plain data; omitted fields have their defaults.

        Args:
            data (Mapping[str, Any]): As returned by :meth:`to_dict`, or read from JSON.
        """
        if isinstance(data, Mapping):
            options = options_class(data.get("architecture", MGNNI))
            data = {**data, "model": convert(options, data.get("model", {}), "config.model")}
        return from_dict(cls, data, "config")


def changed(config: Config, changes: Mapping[str, Any]) -> Config:
    """Return a configuration with some fields replaced.

    Args:
        config (Config): The configuration.
        changes (Mapping[str, Any]): New values by name, of the training and of the model.
    """
    own = {one.name for one in dataclasses.fields(Config)} - {"model", "architecture"}
    model = vars(config.model)
    for key in changes:
        if key not in own | model.keys():
            near = closest(key, own | model.keys())
            hint = (
                f"did you mean {near!r}?"
                if near
                else f"`mgnni models {config.architecture}` lists them"
            )
            raise ArgumentError(f"unknown option {key!r} of {config.architecture}; {hint}")
    return Config.from_dict(
        {
            **vars(config),
            **{key: value for key, value in changes.items() if key in own},
            "model": {**model, **{key: value for key, value in changes.items() if key in model}},
        }
    )


def with_training_options(config: Config, changes: Mapping[str, Any]) -> Config:
    """Return a configuration with the changed options of the training; those of models are ignored.

    Args:
        config (Config): The configuration.
        changes (Mapping[str, Any]): New values by name, of the training and of any model.
    """
    own = {one.name for one in dataclasses.fields(Config)} - {"model", "architecture"}
    return changed(config, {key: value for key, value in changes.items() if key in own})
