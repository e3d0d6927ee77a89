"""Training, validation and test sets: given, stratified folds, or random splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, DataError, check_number

PARTS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint training, validation and test sets, as sorted indices.

    The indices refer to units: the nodes of one graph, or whole graphs. A unit may be in no set.

    Args:
        train (Tensor): Training set; it must not be empty.
        val (Tensor): Validation set.
        test (Tensor): Test set.

    Shapes:
        - **train:** ``(num_train,)``
        - **val:** ``(num_val,)``
        - **test:** ``(num_test,)``
    """

    train: Tensor
    val: Tensor
    test: Tensor

    @classmethod
    def of(cls, train: Tensor, val: Tensor, test: Tensor) -> Split:
        """Creates a split from boolean masks, or from indices in any order."""
        parts = zip(PARTS, (train, val, test), strict=True)
        return cls(*(_indices(name, part) for name, part in parts))

    def part(self, name: str) -> Tensor:
        """Returns the units of ``"train"``, ``"val"`` or ``"test"``."""
        return {"train": self.train, "val": self.val, "test": self.test}[name]

    def check(self, num_units: int, what: str) -> None:
        """Checks that there is a training set, and that indices are valid and used once.

        Args:
            num_units (int): Number of units.
            what (str): Name of the split, for messages.
        """
        if self.train.numel() == 0:
            raise DataError(
                f"{what}: the training set is empty; add at least one unit of each class"
            )
        for name in PARTS:
            units = self.part(name)
            if units.numel() and not 0 <= int(units.min()) <= int(units.max()) < num_units:
                raise DataError(
                    f"{what}: {name} must hold indices from 0 to {num_units - 1} (got "
                    f"{int(units.min())} to {int(units.max())})"
                )
        everything = torch.cat([self.train, self.val, self.test])
        unit, count = torch.unique(everything, return_counts=True)
        if bool((count > 1).any()):
            twice = int(unit[count > 1][0])
            where = [name for name in PARTS for _ in range(int((self.part(name) == twice).sum()))]
            raise DataError(
                f"{what}: train, val and test must not overlap (got {int((count > 1).sum())} units "
                f"more than once, first unit {twice} in {' and '.join(where)}); use each unit once"
            )


def _indices(name: str, part: Tensor) -> Tensor:
    # A mask in uint8 or float would be read as the indices 0 and 1.
    valid = part.dtype in (torch.bool, torch.int32, torch.int64) or part.numel() == 0
    if part.dim() != 1 or not valid:
        raise DataError(
            f"{name} of a split must be a boolean mask or int64 indices in one dimension (got "
            f"{part.dtype}, shape {tuple(part.shape)}); use mask.bool(), or mask[:, i] of several "
            "splits"
        )
    if part.dtype is torch.bool:
        return part.nonzero().squeeze(1).cpu()
    return part.detach().to("cpu", torch.long).sort().values


def stratified_folds(labels: Tensor, k: int, seed: int) -> list[Tensor]:
    """Divides the units into ``k`` stratified folds.

    Each labelled unit is in one fold. The sizes of any two folds, and their numbers of units of
    each class, differ by at most one.

    Args:
        labels (Tensor): Class of each unit. Negative means unlabelled; such a unit is in no fold.
            To ignore labels, pass ``torch.zeros(num_units)``.
        k (int): Number of folds, from 2 to the number of labelled units.
        seed (int): Seed of a separate random generator.

    Shapes:
        - **labels:** ``(num_units,)``
        - **output:** ``(fold_size,)`` per fold

    Returns:
        The sorted units of each fold: its test set.
    """
    order = _by_class(_checked(labels), make_generator(seed))
    if isinstance(k, bool) or not isinstance(k, int) or not 2 <= k <= order.numel():
        raise ArgumentError(
            f"'k' must be an int from 2 to the number of labelled units, {order.numel()} (got "
            f"{k!r}); use fewer folds"
        )
    # The units of a class are adjacent, so every k-th one gives each fold its share.
    return [order[fold::k].sort().values for fold in range(k)]


def stratified_holdout(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """Holds out a stratified fraction of the units.

    The number of units of each class is proportional, rounded up or down such that the total is
    exact. Each class keeps at least one unit, even if the total becomes smaller.

    Args:
        labels (Tensor): Class of each unit. Negative means unlabelled; such a unit is never held
            out.
        fraction (float): Fraction of the labelled units, in [0, 1). If it is positive, at least
            one unit is held out.
        seed (int): Seed of a separate random generator.

    Shapes:
        - **labels:** ``(num_units,)``
        - **output:** ``(num_held_out,)``

    Returns:
        The sorted units that are held out.
    """
    labels = _checked(labels)
    generator = make_generator(seed)
    check_number("fraction", fraction, "[0, 1)", "0.1 holds out a tenth")
    order = _by_class(labels, generator)
    held, _ = _hold_out(labels, order, round(fraction * order.numel()), generator)
    if fraction > 0 and held.numel() == 0:
        raise ArgumentError(_too_few((fraction,), labels))
    return held.sort().values


def random_splits(
    labels: Tensor,
    num_splits: int,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int = 0,
) -> list[Split]:
    """Creates stratified random splits; the first ones do not depend on ``num_splits``.

    The number of units of each class is proportional, up to rounding. Each class has at least one
    training unit, even if the other sets become smaller.

    Args:
        labels (Tensor): Class of each unit. Negative means unlabelled; such a unit is in no set.
        num_splits (int): Number of splits.
        fractions (tuple of float, optional): Fractions of the training, validation and test set;
            their sum is 1. (default: :obj:`(0.6, 0.2, 0.2)`)
        seed (int, optional): Seed of a separate random generator. (default: :obj:`0`)

    Shapes:
        - **labels:** ``(num_units,)``
    """
    labels = _checked(labels)
    generator = make_generator(seed)
    if isinstance(num_splits, bool) or not isinstance(num_splits, int) or num_splits < 1:
        raise ArgumentError(f"'num_splits' must be an int of at least 1 (got {num_splits!r})")
    if not (
        len(fractions) == 3
        and fractions[0] > 0
        and min(fractions) >= 0
        and abs(sum(fractions) - 1) < 1e-6
    ):
        raise ArgumentError(
            "'fractions' must be three numbers with sum 1, for training (above 0), validation and "
            f"test (got {tuple(fractions)}); (0.6, 0.2, 0.2) is usual"
        )
    units = int((labels >= 0).sum())
    num_val, num_test = (round(fraction * units) for fraction in fractions[1:])
    splits = []
    for _ in range(num_splits):
        test, rest = _hold_out(labels, _by_class(labels, generator), num_test, generator)
        val, train = _hold_out(labels, rest, num_val, generator)
        for fraction, part in zip(fractions, (train, val, test), strict=True):
            if fraction > 0 and part.numel() == 0:
                raise ArgumentError(_too_few(fractions, labels))
        splits.append(Split.of(train, val, test))
    return splits


def fold_splits(labels: Tensor, k: int, val_fraction: float = 0.2, seed: int = 0) -> list[Split]:
    """Creates the splits of a stratified cross-validation: each unit is tested once.

    Args:
        labels (Tensor): Class of each unit. Negative means unlabelled; such a unit is in no set.
        k (int): Number of folds, from 2 to the number of labelled units.
        val_fraction (float, optional): Stratified fraction of the units outside of the test fold
            that is the validation set, in [0, 1). (default: :obj:`0.2`)
        seed (int, optional): Seed of a separate random generator. (default: :obj:`0`)

    Shapes:
        - **labels:** ``(num_units,)``
    """
    splits = []
    for number, test in enumerate(stratified_folds(labels, k, seed)):
        others = labels.detach().cpu().clone()
        others[test] = -1
        val = stratified_holdout(others, val_fraction, seed + number)
        others[val] = -1
        splits.append(Split.of(others >= 0, val, test))
    return splits


def _by_class(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Returns the labelled units sorted by class, in random order within a class."""
    order = torch.randperm(labels.numel(), generator=generator)
    order = order[labels[order] >= 0]
    return order[labels[order].argsort(stable=True)]


def _hold_out(
    labels: Tensor, order: Tensor, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Splits units sorted by class into ``count`` held-out units and the others."""
    _, group, size = torch.unique_consecutive(
        labels[order], return_inverse=True, return_counts=True
    )
    share = size.double() * count / max(order.numel(), 1)
    take = torch.minimum(share.floor().long(), size - 1)
    # The largest remainders are rounded up; equal ones are chosen at random.
    remainder = share - take + 1e-9 * torch.rand(size.numel(), generator=generator)
    remainder[take >= size - 1] = -1
    up = remainder.argsort(descending=True)[: count - int(take.sum())]
    take[up[remainder[up] >= 0]] += 1
    place = torch.arange(order.numel()) - (size.cumsum(0) - size)[group]
    held = place < take[group]
    return order[held], order[~held]


def _checked(labels: Tensor) -> Tensor:
    if labels.dim() != 1 or labels.is_complex() or bool((labels != labels.long()).any()):
        raise ArgumentError(
            f"'labels' must be one integer per unit (got shape {tuple(labels.shape)}, "
            f"{labels.dtype}); to ignore labels, pass torch.zeros(num_units)"
        )
    return labels.detach().cpu().long()


def make_generator(seed: int) -> torch.Generator:
    """Returns a separate random generator, so that no other random number is affected."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ArgumentError(
            f"'seed' must be an int from 0 to below 2**63 (got {seed!r}); 0 is usual"
        )
    return torch.Generator().manual_seed(seed)


def _too_few(fractions: Sequence[float], labels: Tensor) -> str:
    known = labels[labels >= 0]
    classes = torch.unique(known).numel()
    shares = "/".join(f"{100 * one:g}" for one in fractions)
    among = f" in {classes} classes" if classes > 1 else ""
    return (
        "too few labels to draw a split: every set must get at least one unit, and training one of "
        f"each class (got {shares} % of {known.numel()} units with labels{among}); label more "
        "units, or give the split with the data"
    )
