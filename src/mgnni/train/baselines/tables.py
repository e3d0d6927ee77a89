"""The settings of all models in one place."""

from __future__ import annotations

from typing import Any

from mgnni.train.baselines import cgs, convolutions, eignn, ignn, mixtures, neighborhoods, readouts

_PARTS = (convolutions, neighborhoods, readouts, eignn, ignn, cgs, mixtures)
PRESETS: dict[str, dict[str, Any]] = {
    name: presets for part in _PARTS for name, presets in part.PRESETS.items()
}
SPACES: dict[str, dict[str, tuple[Any, ...]]] = {
    name: space for part in _PARTS for name, space in part.SPACES.items()
}
