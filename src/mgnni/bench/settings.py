"""Where, and how thoroughly, to measure."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Settings:
    """What all tables are asked with.

    Attributes:
        device: where to compute.
        quick: small sizes and few repeats: whether it works, not how fast it is.
    """

    device: torch.device
    quick: bool = False

    @property
    def repeats(self) -> int:
        """Measurements of one time."""
        return 3 if self.quick else 15
