"""Which part of the data is for training, for choosing, and for the test."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.errors import DataError

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint sets of units (nodes of one graph, or whole graphs), as ascending indices.

    Units may be in none of them. ``val`` or ``test`` may be empty, ``train`` may not.
    """

    train: Tensor
    val: Tensor
    test: Tensor

    @classmethod
    def of(cls, train: Tensor, val: Tensor, test: Tensor) -> Split:
        """Make a split from boolean masks, or from indices in any order."""
        parts = zip(PARTS, (train, val, test), strict=True)
        return cls(*(_indices(name, part) for name, part in parts))

    def part(self, name: str) -> Tensor:
        """Return the units of ``"train"``, ``"val"`` or ``"test"``."""
        return {"train": self.train, "val": self.val, "test": self.test}[name]

    def check(self, num_units: int, what: str) -> None:
        """Refuse a split that is empty, out of range, or not disjoint.

        Args:
            num_units: how many units there are.
            what: name of the split for the message.
        """
        if self.train.numel() == 0:
            raise DataError(
                f"{what}: the training part is empty; give at least one unit of each class to it"
            )
        for name in PARTS:
            units = self.part(name)
            if units.numel() and not 0 <= int(units.min()) <= int(units.max()) < num_units:
                raise DataError(
                    f"{what}: the {name} part must hold indices from 0 to {num_units - 1} (got "
                    f"{int(units.min())} to {int(units.max())})"
                )
        everything = torch.cat([self.train, self.val, self.test])
        unit, count = torch.unique(everything, return_counts=True)
        if bool((count > 1).any()):
            twice = int(unit[count > 1][0])
            where = [name for name in PARTS for _ in range(int((self.part(name) == twice).sum()))]
            raise DataError(
                f"{what}: parts must not overlap (got {int((count > 1).sum())} units more than "
                f"once, first unit {twice} in {' and '.join(where)}); give each to one part, once"
            )


def _indices(name: str, part: Tensor) -> Tensor:
    # A mask in uint8 or float would pass for indices 0 and 1, and train on two nodes.
    known = part.dtype in (torch.bool, torch.int32, torch.int64) or part.numel() == 0
    if part.dim() != 1 or not known:
        raise DataError(
            f"the {name} part of a split must be a boolean mask or int64 indices in one dimension "
            f"(got {part.dtype}, shape {tuple(part.shape)}); use mask.bool(), or mask[:, i] of "
            "several splits"
        )
    if part.dtype is torch.bool:
        return part.nonzero().squeeze(1).cpu()
    return part.detach().to("cpu", torch.long).sort().values
