from __future__ import annotations

from math import ceil, floor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mgnni.data.split import (
    Split,
    fold_splits,
    random_splits,
    stratified_folds,
    stratified_holdout,
)
from mgnni.errors import ArgumentError, DataError


def split_of(train: list[int], val: list[int], test: list[int]) -> Split:
    return Split.of(torch.tensor(train), torch.tensor(val), torch.tensor(test))


def test_masks_and_indices_make_the_same_split():
    masks = Split.of(
        torch.tensor([True, False, True, False, False]),
        torch.tensor([False, True, False, False, False]),
        torch.tensor([False, False, False, False, True]),
    )
    indices = split_of([2, 0], [1], [4])
    for split in (masks, indices):
        assert [split.part(name).tolist() for name in ("train", "val", "test")] == [
            [0, 2],
            [1],
            [4],
        ]
        assert split.train.dtype == torch.int64
        split.check(5, "five nodes")  # unit 3 is in no part


def test_validation_and_test_may_be_empty():
    split = split_of([0, 1], [], [])
    split.check(2, "two nodes")
    assert split.val.dtype == torch.int64


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([], [0], [1]), "made up: the training set is empty"),
        (([0], [1], [4]), "test must hold indices from 0 to 3 .got 4 to 4"),
        (([-1, 0], [1], [2]), "train must hold indices from 0 to 3 .got -1 to 0"),
        (([0, 1], [2, 1], [0]), "2 units more than once, first unit 0 in train and test"),
        (([0], [3], [2, 2]), "1 units more than once, first unit 2 in test and test"),
    ],
)
def test_bad_parts(parts, message):
    with pytest.raises(DataError, match=message):
        split_of(*parts).check(4, "made up")


@pytest.mark.parametrize(
    "mask",
    [
        torch.tensor([1.0, 0.0, 1.0]),  # as indices these would be units 0 and 1
        torch.tensor([1, 0, 1], dtype=torch.uint8),
        torch.tensor([[True], [False], [True]]),
        torch.tensor(2),
    ],
)
def test_what_is_neither_a_mask_nor_indices(mask):
    with pytest.raises(DataError, match="val of a split must be a boolean mask"):
        Split.of(torch.tensor([0]), mask, torch.tensor([2]))


# Sizes of the classes, lopsided, and of the unlabelled rest.
sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)
seeds = st.integers(0, 2**63 - 1)


def labels_of(sizes: list[int], unknown: int = 0) -> Tensor:
    """Labels with so many members a class, in no order; classes are 0, 2, 4, ..."""
    labels = torch.cat([torch.full((n,), 2 * c) for c, n in enumerate(sizes)])
    labels = torch.cat([labels, torch.full((unknown,), -1)])
    return labels[torch.randperm(labels.numel(), generator=torch.Generator().manual_seed(7))]


def per_class(labels: Tensor, units: Tensor, num_classes: int) -> list[int]:
    """Count the units of each class by looking at each."""
    found = [0] * num_classes
    for unit in units.tolist():
        found[int(labels[unit]) // 2] += 1
    return found


@settings(max_examples=60)
@given(sizes=sizes, unknown=st.integers(0, 5), k=st.integers(2, 12), seed=seeds)
def test_folds_are_even_in_size_and_in_every_class(sizes, unknown, k, seed):
    labels = labels_of(sizes, unknown)
    if k > sum(sizes):
        with pytest.raises(ArgumentError, match=f"from 2 to .*, {sum(sizes)} \\(got {k}\\)"):
            stratified_folds(labels, k, seed)
        return
    folds = stratified_folds(labels, k, seed)
    assert len(folds) == k
    everything = [unit for fold in folds for unit in fold.tolist()]
    assert sorted(everything) == (labels >= 0).nonzero().squeeze(1).tolist()
    assert {fold.numel() for fold in folds} <= {floor(sum(sizes) / k), ceil(sum(sizes) / k)}
    for fold in folds:
        assert fold.dtype == torch.int64
        assert fold.tolist() == sorted(fold.tolist())
        for found, size in zip(per_class(labels, fold, len(sizes)), sizes, strict=True):
            assert found in (floor(size / k), ceil(size / k))


@settings(max_examples=80)
@given(
    sizes=sizes,
    unknown=st.integers(0, 5),
    fraction=st.floats(0.01, 0.99),
    seed=seeds,
)
def test_a_holdout_has_its_share_of_every_class(sizes, unknown, fraction, seed):
    labels = labels_of(sizes, unknown)
    count = round(fraction * sum(sizes))
    if count == 0 or max(sizes) == 1:
        with pytest.raises(ArgumentError, match="at least one unit"):
            stratified_holdout(labels, fraction, seed)
        return
    held = stratified_holdout(labels, fraction, seed)
    assert held.tolist() == sorted(set(held.tolist()))
    taken = per_class(labels, held, len(sizes))  # and none of the unlabelled
    for found, size in zip(taken, sizes, strict=True):
        assert found <= size - 1
        share = size * count / sum(sizes)
        assert found in (floor(share), ceil(share), size - 1)
    # Fewer than asked for only if no class could round up any more.
    if sum(taken) != count:
        assert sum(taken) < count
        shares = [size * count / sum(sizes) for size in sizes]
        assert all(
            found >= min(ceil(share), size - 1)
            for found, share, size in zip(taken, shares, sizes, strict=True)
        )


@settings(max_examples=80)
@given(
    sizes=sizes,
    unknown=st.integers(0, 5),
    fractions=st.sampled_from(
        [(0.6, 0.2, 0.2), (0.48, 0.32, 0.2), (0.05, 0.1, 0.85), (0.9, 0, 0.1)]
    ),
    seed=seeds,
)
def test_splits_cover_all_labelled_units_once(sizes, unknown, fractions, seed):
    labels = labels_of(sizes, unknown)
    total = sum(sizes)
    try:
        (split,) = random_splits(labels, 1, fractions, seed)
    except ArgumentError:
        assert max(sizes) < 20  # a class that large has units for every part
        return
    split.check(labels.numel(), "made up")
    parts = (split.train, split.val, split.test)
    assert sorted(torch.cat(parts).tolist()) == (labels >= 0).nonzero().squeeze(1).tolist()
    assert min(per_class(labels, split.train, len(sizes))) >= 1
    for fraction, part in zip(fractions, parts, strict=True):
        assert (part.numel() > 0) == (fraction > 0)
    for fraction, part in zip(fractions[1:], parts[1:], strict=True):
        assert part.numel() <= round(fraction * total)
        for found, size in zip(per_class(labels, part, len(sizes)), sizes, strict=True):
            assert found <= size * fraction + 2
    if min(sizes) >= 20 and fractions[0] >= 0.48:
        assert [split.val.numel(), split.test.numel()] == [round(f * total) for f in fractions[1:]]
        for fraction, part in zip(fractions, parts, strict=True):
            for found, size in zip(per_class(labels, part, len(sizes)), sizes, strict=True):
                assert abs(found - size * fraction) < 2


def test_a_case_by_hand():
    labels = labels_of([10, 5, 1])
    (split,) = random_splits(labels, 1)
    assert [per_class(labels, part, 3) for part in (split.train, split.val, split.test)] == [
        [6, 3, 1],
        [2, 1, 0],
        [2, 1, 0],
    ]


def test_a_holdout_of_a_tenth():
    labels = labels_of([125, 63])
    held = stratified_holdout(labels, 0.1, seed=3)
    assert per_class(labels, held, 2) == [13, 6]  # 12.5 and 6.3, and 18.8 in all
    assert stratified_holdout(labels, 0.0, seed=3).numel() == 0


def test_every_class_keeps_a_unit_whatever_is_asked_for():
    labels = labels_of([6, 4, 1])
    assert per_class(labels, stratified_holdout(labels, 0.99, seed=0), 3) == [5, 3, 0]


def test_equal_remainders_are_decided_by_lot():
    labels = labels_of([5, 5])  # three of ten: 1.5 of each class
    drawn = {
        tuple(per_class(labels, stratified_holdout(labels, 0.3, seed), 2)) for seed in range(20)
    }
    assert drawn == {(1, 2), (2, 1)}


def test_every_unit_is_as_likely_as_any_other():
    labels = labels_of([40, 20])
    times = torch.zeros(60)
    for seed in range(400):
        times[stratified_holdout(labels, 0.2, seed)] += 1
    # Binomial with 400 draws of probability 0.2: mean 80, deviation 8.
    assert times.sum() == 400 * 12
    assert (times - 80).abs().max() < 5 * 8
    assert 5 < times.std() < 11


def test_the_seed_decides_and_nothing_else_does():
    labels = labels_of([20, 15, 10])
    before = torch.get_rng_state()
    made = [stratified_folds(labels, 5, 1), stratified_folds(labels, 5, 1)]
    torch.manual_seed(5)
    made.append(stratified_folds(labels.to(torch.float32), 5, 1))
    for other in made[1:]:
        assert all(torch.equal(x, y) for x, y in zip(made[0], other, strict=True))
    assert not torch.equal(made[0][0], stratified_folds(labels, 5, 2)[0])
    torch.set_rng_state(before)
    random_splits(labels, 2)
    stratified_holdout(labels, 0.3, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_first_splits_do_not_depend_on_how_many():
    labels = labels_of([20, 15, 10])
    few, many = random_splits(labels, 2, seed=4), random_splits(labels, 6, seed=4)
    for one, other in zip(few, many, strict=False):
        for part in ("train", "val", "test"):
            assert torch.equal(one.part(part), other.part(part))
    assert not torch.equal(many[0].test, many[1].test)


def test_labels_may_say_nothing():
    folds = stratified_folds(torch.zeros(7), 3, seed=0)
    assert sorted(fold.numel() for fold in folds) == [2, 2, 3]


@pytest.mark.parametrize("k", [0, 1, 11, 2.0, True])
def test_a_bad_number_of_folds(k):
    with pytest.raises(ArgumentError, match=r"'k' must be an int from 2 .*, 10"):
        stratified_folds(torch.zeros(10), k, 0)


@pytest.mark.parametrize("k", [2, 5, 10])
def test_every_unit_is_tested_once_in_a_cross_validation(k):
    labels = torch.tensor([0] * 60 + [1] * 30 + [2] * 10 + [-1] * 3)
    splits = fold_splits(labels, k, 0.2, seed=3)
    tested = torch.cat([split.test for split in splits])
    assert tested.sort().values.tolist() == list(range(100))
    for split in splits:
        split.check(103, "fold")
        rest = 100 - split.test.numel()
        assert split.val.numel() == round(0.2 * rest)
        assert split.train.numel() == rest - split.val.numel()
        for part in (split.train, split.val, split.test):
            share = torch.bincount(labels[part], minlength=3) / part.numel()
            assert bool(((share - torch.tensor([0.6, 0.3, 0.1])).abs() <= 1 / part.numel()).all())


@pytest.mark.parametrize("labels", [torch.zeros(4, 2), torch.tensor([0.5, 1]), torch.tensor(3)])
def test_labels_that_are_no_classes(labels):
    for deal in (
        lambda: stratified_folds(labels, 2, 0),
        lambda: stratified_holdout(labels, 0.5, 0),
        lambda: random_splits(labels, 1),
    ):
        with pytest.raises(ArgumentError, match=r"'labels' .* pass torch.zeros\(num_units\)"):
            deal()


def test_other_refusals():
    labels = torch.zeros(10)
    for fraction in (-0.1, 1.0, float("nan")):
        with pytest.raises(ArgumentError, match="'fraction' must lie in"):
            stratified_holdout(labels, fraction, 0)
    for seed in (-1, 2**63, 1.0, True):
        with pytest.raises(ArgumentError, match="'seed'"):
            stratified_folds(labels, 2, seed)
    for fractions in ((0.6, 0.2), (0.6, 0.2, 0.3), (0, 0.5, 0.5), (0.9, 0.2, -0.1)):
        with pytest.raises(ArgumentError, match="'fractions' must be three numbers"):
            random_splits(labels, 1, fractions)
    with pytest.raises(ArgumentError, match="'num_splits'"):
        random_splits(labels, 0)
    with pytest.raises(ArgumentError, match="of 0 units with labels"):
        random_splits(torch.full((5,), -1), 1)
    with pytest.raises(ArgumentError, match="of 10 units with labels"):
        random_splits(labels, 1, (0.98, 0.01, 0.01))
