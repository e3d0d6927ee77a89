from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from mgnni.data.tables.predictions import write_numbers, write_predictions
from mgnni.data.tables.read import read_graphs
from mgnni.errors import ArgumentError, DataError

Write = Callable[..., Path]
P = torch.tensor([[0.25, 0.75], [0.5, 0.125], [1.0, 0.0]])
CHOSEN = torch.tensor([[False, True], [True, False], [True, False]])
SCALES = torch.tensor([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])


@pytest.mark.parametrize(
    "ids",
    [
        ["007", "é, \n", 'say "hi"'],
        [3, 1, 2],
        range(3),
        pa.chunked_array([[1], [2, 3]], pa.int32()),
    ],
)
def test_ids_come_back_as_they_were(ids: Any, tmp_path: Path) -> None:
    expected = ids.to_pylist() if isinstance(ids, pa.ChunkedArray) else list(ids)
    write_predictions(tmp_path / "a.parquet", ids, ["x", "y"], CHOSEN, P, SCALES, [1, 3])
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table.column_names == ["id", "prediction", "p_x", "p_y", "scale_1", "scale_3"]
    assert table["id"].to_pylist() == expected
    if isinstance(ids, pa.ChunkedArray):
        assert table["id"].type == ids.type
    assert table["prediction"].to_pylist() == ["y", "x", "x"]
    assert table["p_y"].to_pylist() == [0.75, 0.125, 0]
    assert table["scale_3"].to_pylist() == [0.5, 0.75, 0]
    write_predictions(tmp_path / "a.csv", ids, ["x", "y"], CHOSEN, P)
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        header, *rows = list(csv.reader(file))
    assert header == ["id", "prediction", "p_x", "p_y"]
    assert [row[0] for row in rows] == [str(key) for key in expected]
    assert [float(row[2]) for row in rows] == P[:, 0].tolist()


def test_several_labels_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    chosen = torch.tensor([[True, True], [False, True], [False, False]])
    write_predictions(path, range(3), ["x", "y"], chosen, P, multilabel=True)
    assert parquet.read_table(path)["prediction"].to_pylist() == ["x;y", "y", ""]


def test_labels_and_sets_are_written_where_they_are_known(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    known = {"labels": torch.tensor([1, -1, 0]), "split": ["train", "", "test"]}
    write_predictions(path, range(3), ["x", "y"], CHOSEN, P, **known)
    table = parquet.read_table(path)
    assert table.column_names == ["id", "prediction", "label", "split", "p_x", "p_y"]
    assert table["label"].to_pylist() == ["y", None, "x"]
    assert table["split"].to_pylist() == ["train", None, "test"]
    several = torch.tensor([[1.0, 1.0], [float("nan")] * 2, [0.0, 0.0]])
    write_predictions(
        path, range(3), ["x", "y"], CHOSEN, P, labels=several, multilabel=True, overwrite=True
    )
    assert parquet.read_table(path)["label"].to_pylist() == ["x;y", None, ""]


def test_text_that_a_spreadsheet_would_run_is_quoted(tmp_path: Path) -> None:
    ids, classes = ["=1+1", "-5", "+a"], ["@x", "-y"]
    write_predictions(tmp_path / "a.csv", ids, classes, CHOSEN, P, labels=torch.tensor([0, 1, 0]))
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        _, *rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["'=1+1", "-5", "'+a"]  # -5 is a number
    assert [row[1] for row in rows] == ["'-y", "'@x", "'@x"]
    assert [row[2] for row in rows] == ["'@x", "'-y", "'@x"]
    write_predictions(tmp_path / "a.parquet", ids, classes, CHOSEN, P)
    assert parquet.read_table(tmp_path / "a.parquet")["id"].to_pylist() == ids


def test_a_file_is_replaced_only_if_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("precious")
    with pytest.raises(DataError, match=r"a.csv: there is already a file.*--overwrite"):
        write_predictions(path, range(3), ["x", "y"], CHOSEN, P)
    assert path.read_text() == "precious"
    write_predictions(path, range(3), ["x", "y"], CHOSEN, P, overwrite=True)
    assert path.read_text().count("\n") == 4
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("precious")

    def full(table: Any, file: Any) -> None:
        file.write(b"half of ")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mgnni.data.tables.predictions.csv.write_csv", full)
    with pytest.raises(DataError, match="no space left on device"):
        write_predictions(path, range(3), ["x", "y"], CHOSEN, P, overwrite=True)
    assert path.read_text() == "precious"
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.xlsx", "ends in .csv or .parquet"),
        ("no/a.csv", "its folder must exist"),
        ("d.csv", "fold"),
    ],
)
def test_impossible_places(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(DataError, match=message):
        write_predictions(tmp_path / name, range(3), ["x", "y"], CHOSEN, P, overwrite=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ids": range(2)}, r"'chosen' must have shape \(2, 2\).*got \(3, 2\)"),
        ({"classes": ["x"]}, r"'chosen' must have shape \(3, 1\)"),
        ({"probabilities": P[:2]}, r"'probabilities' must have shape \(3, 2\).*got \(2, 2\)"),
        ({"attention": SCALES, "scales": [1]}, r"'attention' must have shape \(3, 1\)"),
    ],
)
def test_shapes_must_agree(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    usual = {"ids": range(3), "classes": ["x", "y"], "chosen": CHOSEN, "probabilities": P}
    arguments = {**usual, **given}
    with pytest.raises(ArgumentError, match=message):
        write_predictions(tmp_path / "a.csv", **arguments)
    assert not list(tmp_path.iterdir())


def test_from_file_to_file(write: Write, tmp_path: Path) -> None:
    file = read_graphs(write("id,label\n007,x\n7,y\n 7,y\n", "source,target\n7,007\n"))
    write_predictions(tmp_path / "out.csv", file.ids, file.classes, CHOSEN, P)
    with (tmp_path / "out.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [(row["id"], row["prediction"]) for row in rows] == [
        ("007", "y"),
        ("7", "x"),
        (" 7", "x"),
    ]


def test_numbers_that_differ_little_are_not_rounded(tmp_path: Path) -> None:
    """Dates in seconds, for example."""
    labels = torch.tensor([[1_700_000_001.0], [1_700_000_002.5]], dtype=torch.float64)
    write_numbers(tmp_path / "p.csv", [1, 2], ["y"], labels + 0.25, labels=labels)
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["label"]) for row in rows] == labels.flatten().tolist()
    predicted = [float(row["prediction"]) for row in rows]
    assert predicted == pytest.approx([1_700_000_001.25, 1_700_000_002.75], abs=0.01, rel=0)
