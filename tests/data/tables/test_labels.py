from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.labels import check_classes
from mgnni.data.tables.read import read_graphs
from mgnni.errors import DataError

Write = Callable[..., Path]


def read(write: Write, labels: list[str], name: str = "graph") -> GraphFile:
    rows = (f"n{i},{label}\n" for i, label in enumerate(labels))
    return read_graphs(write("id,label\n" + "".join(rows), "source,target\n", name=name))


@pytest.mark.parametrize(
    ("labels", "classes", "values"),
    [
        (["10", "9", "", "10"], ("9", "10"), [1, 0, -1, 1]),
        (["b", "a", "B"], ("B", "a", "b"), [2, 1, 0]),
        (["1", "x", "2"], ("1", "2", "x"), [0, 2, 1]),
        (["0.5", "1.5", "0.5", "1.5"], ("0.5", "1.5"), [0, 1, 0, 1]),
        (["-1", "1"], ("-1", "1"), [0, 1]),  # in a table -1 is a class like another
        (["true", "false"], ("false", "true"), [1, 0]),
    ],
)
def test_classes(
    labels: list[str], classes: tuple[str, ...], values: list[int], write: Write
) -> None:
    file = read(write, labels)
    assert file.classes == classes
    assert file.labels is not None
    assert file.labels.dtype == torch.int64
    assert file.labels.tolist() == values


def test_many_classes_are_classes_if_they_recur(write: Write) -> None:
    file = read(write, [str(i % 50) for i in range(200)])
    assert len(file.classes) == 50


def test_classes_that_differ_in_blanks_are_noted(write: Write) -> None:
    assert any("differ only in blanks" in note for note in read(write, ["a", "a ", "b"]).notes)


@pytest.mark.parametrize(
    ("classes", "labelled", "refused"),
    [
        (["0.5", "1"], 4, False),
        (["0.5", "1", "2"], 4, True),
        ([str(i / 4) for i in range(20)], 1000, False),
        ([str(i / 4) for i in range(21)], 1000, True),
        ([str(i) for i in range(21)], 42, False),
        ([str(i) for i in range(22)], 43, True),
        (["1.5", "x", "y", "z"], 4, False),
    ],
)
def test_what_is_a_class(classes: list[str], labelled: int, refused: bool) -> None:
    if refused:
        with pytest.raises(DataError, match="labels must be classes"):
            check_classes("file", classes, labelled)
    else:
        check_classes("file", classes, labelled)
