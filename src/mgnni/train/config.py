"""What a run is made of: frozen, complete, and strict about what it does not know."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mgnni.errors import ArgumentError, check_choice
from mgnni.models.catalog import MGNNI, find_model

STOPPING = ("metric", "loss", "authors")
SCHEDULES = ("constant", "cosine")
PRECISIONS = ("32", "tf32", "64", "bf16")

T = TypeVar("T")


@dataclass(frozen=True)
class ModelConfig:
    """Arguments of :class:`mgnni.MGNNI`; see there."""

    hidden_channels: int | None = 64
    """Width of the equilibria; none: as many as features."""
    scales: tuple[int, ...] = (1, 2)
    """Hops of one implicit step, one equilibrium each."""
    gamma: float = 0.8
    """Contraction factor, at least 0 and below 1."""
    input_map: str = "mlp"
    """What the features go through first: a perceptron, one with a ReLU at its end, or nothing."""
    input_widths: tuple[int, ...] | None = None
    """Hidden widths of the perceptron; none: one layer as wide as the equilibria."""
    dropout: float = 0.5
    """Probability, in the input map and the head."""
    fusion: str = "attention"
    """How a node weighs its scales: by attention, or all alike."""
    attention_channels: int = 16
    """Width of the attention."""
    batch_norm: bool = False
    """Normalise the fused states, before a linear head."""
    head: str = "linear"
    """What makes classes of states; graph is for whole graphs, residual a deep one."""
    head_channels: int | None = None
    """Width of the residual head; none: as wide as the equilibria."""
    head_layers: int = 3
    """Hidden layers of the residual and the graph head."""
    normalization: str = "auto"
    """How the graph is normalised; auto: sym if it is undirected, else dir."""
    self_loops: bool = True
    """Add a self-loop to every node."""
    flow: str = "source_to_target"
    """Which way messages go along an edge."""
    solver: str = "auto"
    """How the equations are solved; auto: by what is proven of the graph."""
    tol: float = 1e-6
    """Relative residual to be reached in every graph, forward and backward."""
    memory: str = "fast"
    """Keep propagated states for the backward pass, or compute them again."""
    warm_start: bool = False
    """Start a solve from the states of the last epoch; a run that is resumed starts from zero."""


@dataclass(frozen=True)
class Config:
    """Everything that decides what is learnt, apart from the data and the seed."""

    model: Any = field(default_factory=ModelConfig)
    architecture: str = MGNNI
    """Name of the model, as mgnni models lists it; its options are those of ``model``."""
    undirected: bool | None = None
    """Make the graph undirected; none: leave it as it is."""
    lr: float = 0.01
    """Learning rate of Adam."""
    weight_decay: float = 5e-4
    """L2 penalty, as Adam adds it to the gradient."""
    schedule: str = "constant"
    """Of the learning rate; cosine comes down to zero after the last epoch."""
    clip: float | None = None
    """Largest norm of the gradient of a run; none: no limit."""
    epochs: int = 1000
    """Most epochs of training."""
    patience: int | None = 100
    """Epochs without improvement on validation before a run stops; none: never."""
    stopping: str = "metric"
    """What improvement is: of the metric (ties by loss), of the loss, or by the authors' rule."""
    batch_size: int = 128
    """Graphs in a batch, where there are many graphs."""
    shuffle: bool = True
    """Draw the batches anew in every epoch, not once."""
    precision: str = "32"
    """Bits of a number; bf16 is mixed, outside of the equilibrium equations."""

    def __post_init__(self) -> None:
        kind = options_class(self.architecture)
        if not isinstance(self.model, kind):
            raise ArgumentError(
                f"'model' must hold the options of {self.architecture}, a {kind.__name__} (got "
                f"{type(self.model).__name__}); give its options, or name its architecture"
            )
        check_choice("stopping", self.stopping, STOPPING)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        for name, value, least in (
            ("lr", self.lr, 0),
            ("weight_decay", self.weight_decay, 0),
            ("epochs", self.epochs, 1),
            ("patience", self.patience, 1),
            ("batch_size", self.batch_size, 1),
            ("clip", self.clip, 0),
        ):
            if value is not None and not least <= value < float("inf"):
                raise ArgumentError(f"'{name}' must be at least {least} and finite (got {value})")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that :func:`from_dict` takes back."""
        return dataclasses.asdict(self)


def options_class(architecture: str) -> type[Any]:
    """Return the dataclass of the options of a model."""
    entry = find_model(architecture)
    return ModelConfig if entry.name == MGNNI else entry.options()


def from_dict(cls: type[T], data: Mapping[str, Any], where: str = "config") -> T:
    """Build a frozen dataclass from plain data, and refuse unknown keys and wrong types.

    Args:
        cls: the dataclass.
        data: as :meth:`Config.to_dict` gives it, or as read from JSON.
        where: name of this part of the configuration, for messages.
    """
    if not isinstance(data, Mapping):
        raise ArgumentError(f"'{where}' must be a table of options (got {type(data).__name__})")
    hints = typing.get_type_hints(cls)
    if cls is Config:  # whose options are those of the model it names
        hints["model"] = options_class(data.get("architecture", MGNNI))
        data = {"model": {}, **data}
    arguments = {}
    for key, value in data.items():
        check_choice(where, key, hints)
        arguments[key] = _checked(hints[key], value, f"{where}.{key}")
    return cls(**arguments)


def _checked(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else from_dict(hint, value, where)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _checked(next(arg for arg in inner if arg is not type(None)), value, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(_checked(inner[0], item, where) for item in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is None and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    kind = "a list of numbers" if origin is tuple else f"of type {hint.__name__}"
    raise ArgumentError(f"'{where}' must be {kind} (got {value!r})")


def changed(config: Config, changes: Mapping[str, Any]) -> Config:
    """Return the configuration with changes; those of the model may stand among the others."""
    own = {f.name for f in dataclasses.fields(Config)}
    inner = {f.name for f in dataclasses.fields(config.model)}
    data = config.to_dict()
    for key, value in changes.items():
        check_choice("config", key, (own | inner) - {"model", "architecture"})
        (data if key in own else data["model"])[key] = value
    return from_dict(Config, data)
