from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.labels import check_classes
from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import TableOptions
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
        (["none", "some", "None"], ("None", "none", "some"), [1, 2, 0]),  # an ordinary word
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
    assert any("differ only in spaces" in note for note in read(write, ["a", "a ", "b"]).notes)


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


def test_classes_that_differ_in_capital_letters_are_noted(write: Write) -> None:
    note = "label 'label': some classes differ only in capital letters"
    assert note in read(write, ["a", "A", "b"]).notes


def test_classes_that_are_the_same_number_are_noted(write: Write) -> None:
    notes = read(write, ["1", "1.0", "2"]).notes
    assert "label 'label': some classes are the same number, such as '1' and '1.0'" in notes
    assert not any("same number" in note for note in read(write, ["1", "2"], "other").notes)


@pytest.mark.parametrize("cells", [["fr", "fr ", "FR"], ["fr", " FR", "fr "]])
def test_categories_that_differ_in_spelling_are_noted(write: Write, cells: list[str]) -> None:
    rows = "".join(f"n{i},{cell},{i % 2}\n" for i, cell in enumerate(cells))
    notes = read_graphs(write("id,f,label\n" + rows, NO_EDGES)).notes
    assert "column 'f': some categories differ only in spaces" in notes
    assert "column 'f': some categories differ only in capital letters" in notes


def test_ignored_columns_are_no_split_and_no_label(write: Write) -> None:
    nodes = "id,y,label,split,train_mask\na,u,x,train,1\nb,v,y,odd,1\nc,u,y,,0\n"
    file = read_graphs(write(nodes, NO_EDGES), TableOptions(ignore=("label", "split")))
    assert file.classes == ("u", "v")
    assert [split.train.tolist() for split in file.splits] == [[0, 1]]
    assert file.schema.feature_names == ("constant",)
    none = read_graphs(
        write(nodes, NO_EDGES, name="none"), TableOptions(ignore=("y", "split", "train_mask"))
    )
    assert none.splits == ()
    assert none.classes == ("x", "y")


def test_an_ignored_column_of_nodes_is_still_the_label_of_graphs(write: Write) -> None:
    graphs = {"graphs.csv": "graph,label\ng,x\nh,y\n"}
    nodes = "id,graph,label\na,g,1\nb,h,2\n"
    file = read_graphs(write(nodes, NO_EDGES, graphs), TableOptions(ignore=("label",)))
    assert file.classes == ("x", "y")
    assert file.schema.feature_names == ("constant",)
