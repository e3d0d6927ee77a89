"""Every model that has a name."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from mgnni.errors import check_choice
from mgnni.models.entry import ModelEntry
from mgnni.models.explicit_entries import EXPLICIT
from mgnni.models.implicit_entries import IMPLICIT

if TYPE_CHECKING:  # the list is shown without torch
    from mgnni.models.base import OnGraphs

MGNNI = "mgnni"
MODELS: dict[str, ModelEntry] = {entry.name: entry for entry in (*IMPLICIT, *EXPLICIT)}


def find_model(name: str) -> ModelEntry:
    """Return the model of this name, or say which is nearest."""
    return MODELS[check_choice("model", name, MODELS)]


def make_model(
    name: str, in_channels: int, hidden_channels: int | None, out_channels: int, **options: Any
) -> OnGraphs:
    """Build a model by its name, with what its class takes.

    Args:
        name: of the model, as ``mgnni models`` lists them.
        in_channels: features of a node.
        hidden_channels: width of the hidden layers or states; none: as many as features.
        out_channels: classes, or labels.
        options: keyword arguments of its class.
    """
    cls = find_model(name).load()
    known = list(inspect.signature(cls).parameters)[3:]  # after the widths
    for option in options:
        check_choice(f"option of {name}", option, known)
    hidden = in_channels if hidden_channels is None else hidden_channels
    made: OnGraphs = cls(in_channels, hidden, out_channels, **options)
    return made
