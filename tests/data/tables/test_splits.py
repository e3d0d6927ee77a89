from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import TableOptions

Write = Callable[..., Path]
NO_EDGES = "source,target\n"


def parts(folder: Path, **options: object) -> list[list[list[int]]]:
    file = read_graphs(folder, TableOptions(**options))  # type: ignore[arg-type]
    return [[s.part(part).tolist() for part in ("train", "val", "test")] for s in file.splits]


def test_every_word_in_any_case(write: Write) -> None:
    words = ["train", "TRAIN", "val", "Valid", "validation", " test ", "", "Test"]
    rows = (f"n{i},{i % 2},{word}\n" for i, word in enumerate(words))
    folder = write("id,label,split\n" + "".join(rows), NO_EDGES)
    assert parts(folder) == [[[0, 1], [2, 3, 4], [5, 7]]]


def test_eleven_splits_in_the_order_of_their_numbers(write: Write) -> None:
    names = [f"split_{i}" for i in (10, 2, *range(2), *range(3, 10))]
    header = ",".join(["id", "label", *names])
    # In split i, node i % 4 is the test.
    rows = [
        [f"n{node}", str(node % 2), *("test" if int(n[6:]) % 4 == node else "train" for n in names)]
        for node in range(4)
    ]
    folder = write(header + "\n" + "".join(",".join(row) + "\n" for row in rows), NO_EDGES)
    assert [test for _, _, test in parts(folder)] == [[i % 4] for i in range(11)]


@pytest.mark.parametrize("given", [(), ("train_mask", "val_mask", "test_mask")])
def test_masks(given: tuple[str, ...], write: Write) -> None:
    nodes = "id,label,test_mask,train_mask,val_mask\na,x,0,1,0\nb,y,false,True,false\nc,x,1,0,\n"
    assert parts(write(nodes, NO_EDGES), split_column=given) == [[[0, 1], [], [2]]]


def test_masks_of_training_alone(write: Write) -> None:
    nodes = "id,label,train_mask\na,x,1\nb,y,1\nc,y,0\n"
    assert parts(write(nodes, NO_EDGES)) == [[[0, 1], [], []]]


def test_masks_by_another_name(write: Write) -> None:
    nodes = "id,label,train1,test1\na,x,1,0\nb,y,1,0\nc,y,0,1\n"
    assert parts(write(nodes, NO_EDGES), split_column=("train1", "test1")) == [[[0, 1], [], [2]]]


def test_no_split_is_fine(write: Write) -> None:
    assert parts(write("id,label\na,x\nb,y\n", NO_EDGES)) == []


def test_unseen_classes_pass_if_allowed(write: Write) -> None:
    folder = write("id,label,split\na,x,train\nb,y,test\n", NO_EDGES)
    assert parts(folder, allow_unseen=True) == [[[0], [], [1]]]
