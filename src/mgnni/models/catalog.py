"""Every model that has a name."""

from __future__ import annotations

from mgnni.errors import check_choice
from mgnni.models.entry import ModelEntry
from mgnni.models.explicit_entries import EXPLICIT
from mgnni.models.implicit_entries import IMPLICIT

MGNNI = "mgnni"
MODELS: dict[str, ModelEntry] = {entry.name: entry for entry in (*IMPLICIT, *EXPLICIT)}


def find_model(name: str) -> ModelEntry:
    """Return the model of this name, or say which is nearest."""
    return MODELS[check_choice("model", name, MODELS)]
