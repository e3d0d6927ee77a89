"""What is worth a search, for every model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgnni.models.catalog import MGNNI, find_model
from mgnni.train.baselines import tables

# On heterophilic graphs, as the text of the paper has it.
_MGNNI: dict[str, tuple[Any, ...]] = {
    "scales": ((1, 2), (1, 3), (1, 2, 3)),
    "lr": (0.01, 0.05, 0.1, 0.5),
    "weight_decay": (5e-6, 5e-4),
}


def space_for(model: str) -> Mapping[str, tuple[Any, ...]]:
    """Return the values of each option that a search for settings of a model goes through."""
    name = find_model(model).name
    found: Mapping[str, tuple[Any, ...]] = _MGNNI if name == MGNNI else tables.SPACES[name]
    return found
