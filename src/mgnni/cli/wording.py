"""How names and numbers are written, the same in tables and pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def model_name(scales: Sequence[int]) -> str:
    """The name of a model by its scales: ``MGNNI {1, 4, 8}``."""
    return f"MGNNI {{{', '.join(map(str, scales))}}}"


def small(value: float) -> str:
    """A small number as a power of ten: ``1e-6``, not ``1e-06``."""
    return f"{value:.0e}".replace("e-0", "e-")


def percent(spread: Mapping[str, Any]) -> str:
    """Mean and standard deviation over the runs, in per cent."""
    mean = f"{100 * spread['mean']:.1f}"
    return mean if spread["std"] is None else f"{mean} ± {100 * spread['std']:.1f}"
