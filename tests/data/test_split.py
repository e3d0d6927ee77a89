from __future__ import annotations

import pytest
import torch

from mgnni.data.split import Split
from mgnni.errors import DataError


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
        (([], [0], [1]), "made up: the training part is empty"),
        (([0], [1], [4]), "test part must hold indices from 0 to 3 .got 4 to 4"),
        (([-1, 0], [1], [2]), "train part must hold indices from 0 to 3 .got -1 to 0"),
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
    with pytest.raises(DataError, match="the val part of a split must be a boolean mask"):
        Split.of(torch.tensor([0]), mask, torch.tensor([2]))
