"""Mistakes of a first hour: each is named before it costs a training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from cli.tables import QUICK, changed, edge_rows, node_rows, write_nodes

Call = Callable[..., Any]  # see conftest.py


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def no_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """No training gets to its first epoch, so what is printed was printed before it."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("mgnni.train.training.Training.epochs", stop)


@pytest.mark.usefixtures("no_epoch")
def test_a_column_called_label_that_is_not_the_label_is_a_warning(call: Call, place: Path) -> None:
    rows = [f"{row},{i % 2 if i else 'topic'}" for i, row in enumerate(node_rows())]
    write_nodes(place / "two", rows)
    ended = call("train", "two", "--label", "topic", *QUICK)
    assert ended.status == 130
    assert "warning: nodes.csv: 'label' used as features: pass --ignore" in words(ended.out)


@pytest.mark.usefixtures("no_epoch")
def test_arrays_of_the_heterophilous_collection_with_one_direction_are_a_warning(
    call: Call, place: Path
) -> None:
    count = 12
    part = np.arange(count) % 3
    np.savez(
        place / "graph.npz",
        node_features=np.eye(count, dtype=np.float32),
        node_labels=np.arange(count) % 2,
        edges=np.array([[i, (i + 1) % count] for i in range(count)]),
        **{f"{name}_masks": (part == i)[None] for i, name in enumerate(("train", "val", "test"))},
    )
    ended = call("train", "graph.npz", *QUICK)
    assert ended.status == 130
    assert "warning: no edge has its reverse: if your edges are undirected" in words(ended.out)
    ended = call("train", "graph.npz", *QUICK, "--directed", "false", "--output", "runs/both")
    assert "warning" not in ended.out


@pytest.mark.parametrize("cell", ["NA", "nan", "N/A", "null", ""])
def test_a_missing_number_is_read_whatever_its_spelling(call: Call, place: Path, cell: str) -> None:
    write_nodes(place / "gaps", changed(node_rows(), 5, 1, cell), edge_rows())
    ended = call("inspect", "gaps", "--json")
    assert ended.status == 0
    notes = json.loads(ended.out)["notes"]
    assert "column 'a': 1 missing value: the mean and a 0/1 flag" in notes


def test_a_training_that_goes_on_keeps_its_predictions_beside_the_model(
    call: Call, place: Path
) -> None:
    few = ("train", "mine", *QUICK, "--output", "runs/x", "--no-report")
    assert call(*few).status == 0
    for _ in range(2):  # the second replaces the first
        assert call("predict", "runs/x", "mine").status == 0
    more = [{"3": "5"}.get(word, word) for word in few]
    assert call(*more, "--resume").status == 0
    assert json.loads(Path("runs/x/report.json").read_text())["runs"][0]["epochs"] == 5
    head = Path("runs/x/predictions.csv").read_text().splitlines()[0].replace('"', "")
    assert head.startswith("id,prediction,label,split,p_blue,p_red")
    assert not Path("predictions.csv").exists()


@pytest.mark.parametrize(
    ("table", "old", "new", "said"),
    [
        ("nodes", "label", "lable", "name it with --label; did you mean --label lable?"),
        ("edges", "source", "sorce", "name it with --source; did you mean --source sorce?"),
        ("edges", "target", "Targte", "name it with --target; did you mean --target Targte?"),
        ("nodes", "label", "colour", "name it with --label\n"),
    ],
)
def test_a_typing_mistake_in_a_header_is_found(
    call: Call, place: Path, table: str, old: str, new: str, said: str
) -> None:
    path = place / "mine" / f"{table}.csv"
    path.write_text(path.read_text().replace(old, new, 1))
    ended = call("inspect", "mine")
    assert ended.status == 1
    assert said in ended.err


@pytest.mark.parametrize("first", ["n00,1,1,red", "n00,1,2,red"])
def test_a_table_without_a_header_is_recognised(call: Call, place: Path, first: str) -> None:
    rows = [",".join(row.split(",")[:4]) for row in node_rows()[1:]]
    write_nodes(place / "bare", [first, *rows[1:]])
    ended = call("inspect", "bare")
    assert ended.status == 1
    assert "if the first row has data, write the names of the columns above it" in ended.err


def test_ids_that_a_program_has_written_as_decimal_numbers_are_recognised(
    call: Call, place: Path
) -> None:
    nodes = [row.replace("n", "", 1) if i else row for i, row in enumerate(node_rows())]
    nodes = [row.replace(",", ".0,", 1) if i else row for i, row in enumerate(nodes)]
    edges = [row.replace("n", "") if i else row for i, row in enumerate(edge_rows())]
    write_nodes(place / "decimal", nodes, edges)
    ended = call("inspect", "decimal")
    assert ended.status == 1
    assert "'00.0' is another id: write it the same in both tables" in ended.err


def test_too_few_rows_for_a_split_are_named(call: Call, place: Path) -> None:
    few = node_rows(3, splits=False)
    write_nodes(place / "tiny", few, ["source,target", "n00,n01"])
    ended = call("train", "tiny", *QUICK)
    assert ended.status == 2
    assert "too few labels to draw a split" in ended.err
    assert "got 60/20/20 % of 3 units" in ended.err
    assert "label more units, or give the split with the data" in ended.err


def test_a_folder_without_edges_is_a_warning(call: Call, place: Path) -> None:
    write_nodes(place / "bare", edges=["source,target"])
    assert "warning: no edges, so every model" in words(call("inspect", "bare").out)
    loops = [*edge_rows(), "n03,n03"]
    write_nodes(place / "loop", edges=loops)
    shown = words(call("inspect", "loop").out)
    assert "no edges" not in shown
    assert "their reverse, 1 self-loop degrees" in shown  # one, in the singular


def test_a_class_that_no_test_row_has_is_named(call: Call, place: Path) -> None:
    # Of a class with one member, which a drawn split keeps for training, no recall is known.
    rows = changed(node_rows(splits=False), 5, 3, "green")
    write_nodes(place / "single", rows)
    ended = call("train", "single", *QUICK, "--no-report")
    assert ended.status == 0
    shown = words(ended.out)
    assert "class green is rare" in shown
    assert "and no test row has it: the score says nothing about this class" in shown
    assert "look at its recall" not in shown


def test_folds_without_a_rare_class_are_refused_with_a_remedy(call: Call, place: Path) -> None:
    rows = [row.replace(",red", ",blue") for row in node_rows(splits=False)]
    rows = changed(changed(rows, 1, 3, "red"), 2, 3, "red")
    write_nodes(place / "rare", rows)
    given = ("--directed", "false", "--metric", "roc_auc", "--allow-unseen")
    ended = call("train", "rare", *QUICK, *given, "--folds", "5")
    assert ended.status == 1
    assert "which has one class only" in ended.err
    assert "another split, or fewer folds" in ended.err
