"""Folds and splits in which every class has its share, from a seed of their own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from mgnni.data.split import Split
from mgnni.errors import ArgumentError


def stratified_folds(labels: Tensor, k: int, seed: int) -> list[Tensor]:
    """Deal the units out to ``k`` folds, each class as evenly as can be.

    Each labelled unit is in one fold. The sizes of any two folds, and their numbers of units of
    any one class, differ by at most one.

    Args:
        labels: class of each unit; one below 0 is not known, and such a unit is in no fold. To
            deal regardless of labels, give ``torch.zeros(num_units)``.
        k: number of folds, from 2 to the number of labelled units.
        seed: of a random generator of its own.

    Returns:
        The units of each fold, ascending: what it is tested on.
    """
    order = _by_class(_checked(labels), _generator(seed))
    if isinstance(k, bool) or not isinstance(k, int) or not 2 <= k <= order.numel():
        raise ArgumentError(
            f"'k' must be an int from 2 to the number of labelled units, {order.numel()} (got "
            f"{k!r}); ask for fewer folds"
        )
    # The members of a class follow one another, so that going round deals them out evenly.
    return [order[fold::k].sort().values for fold in range(k)]


def stratified_holdout(labels: Tensor, fraction: float, seed: int) -> Tensor:
    """Choose a part of the units to hold out, the same part of each class.

    Of each class, the proportional number of units is held out, rounded up or down so that the
    total is right; but each class keeps at least one unit, even if the total is then missed.

    Args:
        labels: class of each unit; one below 0 is not known, and is never held out.
        fraction: part of the labelled units, from 0 to below 1. If it is not 0, some are.
        seed: of a random generator of its own.

    Returns:
        The units held out, ascending.
    """
    labels = _checked(labels)
    generator = _generator(seed)
    if not 0 <= fraction < 1:
        raise ArgumentError(
            f"'fraction' must be from 0 to below 1 (got {fraction!r}); 0.1 is one part in ten"
        )
    order = _by_class(labels, generator)
    held, _ = _hold_out(labels, order, round(fraction * order.numel()), generator)
    if fraction > 0 and held.numel() == 0:
        raise ArgumentError(_too_few("fraction", fraction, labels))
    return held.sort().values


def random_splits(
    labels: Tensor,
    num_splits: int,
    fractions: Sequence[float] = (0.6, 0.2, 0.2),
    seed: int = 0,
) -> list[Split]:
    """Make stratified random splits; the first ones do not depend on how many are asked for.

    The parts have the sizes asked for, and of each class the proportional number of units, up to
    rounding; but each class has at least one unit for training, even if the sizes are then missed.

    Args:
        labels: class of each unit; one below 0 is not known, and such a unit is in no part.
        num_splits: how many.
        fractions: parts for training, validation and test; they add up to 1.
        seed: of a random generator of its own.
    """
    labels = _checked(labels)
    generator = _generator(seed)
    if isinstance(num_splits, bool) or not isinstance(num_splits, int) or num_splits < 1:
        raise ArgumentError(f"'num_splits' must be an int of at least 1 (got {num_splits!r})")
    if not (
        len(fractions) == 3
        and fractions[0] > 0
        and min(fractions) >= 0
        and abs(sum(fractions) - 1) < 1e-6
    ):
        raise ArgumentError(
            "'fractions' must be three numbers that add up to 1, for training (above 0), "
            f"validation and test (got {tuple(fractions)}); (0.6, 0.2, 0.2) is usual"
        )
    units = int((labels >= 0).sum())
    num_val, num_test = (round(fraction * units) for fraction in fractions[1:])
    splits = []
    for _ in range(num_splits):
        test, rest = _hold_out(labels, _by_class(labels, generator), num_test, generator)
        val, train = _hold_out(labels, rest, num_val, generator)
        for fraction, part in zip(fractions, (train, val, test), strict=True):
            if fraction > 0 and part.numel() == 0:
                raise ArgumentError(_too_few("fractions", tuple(fractions), labels))
        splits.append(Split.of(train, val, test))
    return splits


def _by_class(labels: Tensor, generator: torch.Generator) -> Tensor:
    """Return the labelled units class by class, in random order within a class."""
    order = torch.randperm(labels.numel(), generator=generator)
    order = order[labels[order] >= 0]
    return order[labels[order].argsort(stable=True)]


def _hold_out(
    labels: Tensor, order: Tensor, count: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Take ``count`` of the units, given class by class, and return them and the others."""
    _, group, size = torch.unique_consecutive(
        labels[order], return_inverse=True, return_counts=True
    )
    share = size.double() * count / max(order.numel(), 1)
    take = torch.minimum(share.floor().long(), size - 1)
    # The largest remainders are rounded up; among equal ones the lot decides, not the number.
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
            f"'labels' must be one whole number a unit (got shape {tuple(labels.shape)}, "
            f"{labels.dtype}); to deal units out regardless of labels, give torch.zeros(num_units)"
        )
    return labels.detach().cpu().long()


def _generator(seed: int) -> torch.Generator:
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise ArgumentError(f"'seed' must be an int from 0 to below 2**63 (got {seed!r})")
    return torch.Generator().manual_seed(seed)


def _too_few(name: str, value: object, labels: Tensor) -> str:
    known = labels[labels >= 0]
    classes = torch.unique(known).numel()
    return (
        f"'{name}' must give every part at least one unit, with one of each class left for "
        f"training (got {value} of {known.numel()} units in {classes} classes); "
        "change it, or label more units"
    )
