"""What is learned from the training rows alone: scales, categories, flags of missing values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.tables.read import read_graphs
from mgnni.data.tables.schema import Column, Schema, TableOptions

Write = Callable[..., Path]
NO_EDGES = "source,target\n"


def read(
    write: Write,
    train: Sequence[str],
    test: Sequence[str],
    *,
    name: str = "f",
    folder: str = "graph",
    **options: object,
) -> GraphFile:
    """A column of features, with its cells in training and test rows."""
    rows = [(cell, "train") for cell in train] + [(cell, "test") for cell in test]
    lines = (f"n{i},{i % 2},{cell},{i % 2},{part}\n" for i, (cell, part) in enumerate(rows))
    nodes = f"id,g,{name},label,split\n" + "".join(lines)
    given = TableOptions(**{"standardize": True, **options})  # type: ignore[arg-type]
    return read_graphs(write(nodes, NO_EDGES, name=folder), given)


def column(file: GraphFile) -> list[float]:
    return [float(value) for value in file.graphs[0].x[:, 1]]


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("cell", ["5000", "red", "true"])
def test_a_column_without_values_in_training_is_not_used(
    write: Write, cell: str, standardize: bool
) -> None:
    file = read(write, ["", ""], [cell, ""], name="late income", standardize=standardize)
    assert file.schema.feature_names == ("g",)
    note = (
        "column 'late income': no value in the training rows, so it is not used; fill it, or pass "
        "--ignore 'late income'"
    )
    assert note in file.notes
    new = write("id,g,late income\na,1,7\n", NO_EDGES, name="new")
    again = read_graphs(new, schema=file.schema)
    assert again.graphs[0].x.tolist() == [[1]]
    assert "columns not in training, not used: 'late income'" in again.notes


@pytest.mark.parametrize("constant", ["0", "1", "7", "0.1"])
def test_a_column_that_is_constant_in_training_is_zero(write: Write, constant: str) -> None:
    file = read(write, [constant] * 6, ["5000", "3"])
    assert column(file) == [0] * 8
    note = (
        "column 'f': no two different values in the training rows: encoded as 0 everywhere; "
        "--ignore leaves columns out"
    )
    assert note in file.notes
    schema = Schema.from_dict(json.loads(json.dumps(file.schema.to_dict())))
    new = write("id,g,f\na,1,900\n", NO_EDGES, name="new")
    again = read_graphs(new, schema=schema)
    assert again.graphs[0].x.tolist() == [[1, 0]]
    assert any("no two different values in the training" in one for one in again.notes)
    plain = read(write, [constant] * 2, ["5000"], folder="plain", standardize=False)
    assert column(plain)[2] == 5000


def test_the_same_number_everywhere_has_no_note_about_training(write: Write) -> None:
    file = read(write, ["0.1"] * 6, ["0.1"])
    assert column(file) == [0] * 7
    assert not any("training rows" in note for note in file.notes)


def test_flags_that_only_other_rows_have_stay(write: Write) -> None:
    # The neighbours of training nodes train their weights, for example of one-hot features.
    assert column(read(write, ["0", "0"], ["1", "0"])) == [0, 0, 1, 0]


def test_flags_with_large_numbers_elsewhere_are_noted(write: Write) -> None:
    note = (
        "column 'f': most values other than 0 are more than 10 times as large as in training; is "
        "the unit the same?"
    )
    file = read(write, ["0", "1", "0", "1"], ["5000", "0", "0"])
    assert note in file.notes
    trained = read(write, ["0", "1", "0", "1"], ["1"], folder="trained")
    assert note not in trained.notes
    new = write("id,g,f\na,1,5000\nb,0,0\nc,0,0\n", NO_EDGES, name="new")
    assert note in read_graphs(new, schema=trained.schema).notes


def test_another_unit_in_the_test_rows_is_noted(write: Write) -> None:
    metres = [f"{170 + 3 * place}" for place in range(6)]
    file = read(write, metres, ["170000"])
    assert any("most values are more than 10 standard" in note for note in file.notes)


def test_schemas_of_earlier_versions_are_read(write: Write) -> None:
    # They have deviation 1 for a constant column, and categories of all rows.
    file = read(write, ["1", "3"], ["5"])
    plain = file.schema.to_dict()
    plain["columns"][1] = {"name": "f", "kind": "number", "mean": 7.0}
    schema = Schema.from_dict(plain)
    assert schema.columns[1] == Column("f", "number", mean=7.0)
    new = write("id,g,f\na,1,9\n", NO_EDGES, name="new")
    assert read_graphs(new, schema=schema).graphs[0].x.tolist() == [[1, 2]]


def test_categories_of_other_rows_are_zeros(write: Write) -> None:
    file = read(write, ["fr", "de", "fr"], ["it", "fr", ""])
    assert file.schema.feature_names == ("g", "f=de", "f=fr")
    assert file.graphs[0].x[:, 1:].tolist() == [[0, 1], [1, 0], [0, 1], [0, 0], [0, 1], [0, 0]]
    assert "column 'f': 2 values not seen in training: all zeros" in file.notes
    assert not any("missing" in note for note in file.notes)


def test_missing_values_of_other_rows_have_no_flag(write: Write) -> None:
    file = read(write, ["1", "3"], ["", "5"], standardize=False)
    assert file.schema.feature_names == ("g", "f")
    assert column(file) == [1, 3, 2, 5]
    assert "column 'f': 1 missing value, none in training: using 2" in file.notes


def test_without_splits_all_rows_are_of_the_training(write: Write) -> None:
    nodes = "id,f,label\na,fr,0\nb,de,1\nc,,1\n"
    file = read_graphs(write(nodes, NO_EDGES))
    assert file.schema.feature_names == ("f=de", "f=fr", "f_missing")


def test_the_range_of_targets_leaves_test_rows_out(write: Write) -> None:
    nodes = "id,f,price,split\na,1,10,train\nb,2,20,val\nc,3,900,test\nd,4,,test\n"
    folder = write(nodes, NO_EDGES)
    file = read_graphs(folder, TableOptions(task="regression", label="price"))
    assert "target 'price': numbers from 10 to 20" in file.notes
    assert file.labels is not None
    assert float(file.labels[2]) == 900
