"""``mgnni inspect`` from the outside, and what a training says before its first epoch."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cli.tables import QUICK, edge_rows, node_rows, write_nodes
from mgnni import DataWarning, TableOptions, fit
from mgnni.cli.inspect_output import show_targets

Call = Callable[..., Any]  # see conftest.py
pytestmark = pytest.mark.usefixtures("place")


def words(text: str) -> str:
    return " ".join(text.split())


ONE_WAY = "no edge has its reverse: if your edges are undirected, pass --directed false"


def test_a_folder_is_described_with_advice_and_a_picture(call: Call, place: Path) -> None:
    ended = call("inspect", "mine")
    assert (ended.status, ended.err) == (0, "")
    shown = words(ended.out)
    assert "mine: 24 nodes, 48 edges" in shown
    assert "12 / 6 / 6 labelled nodes (train / val / test), 0 others; one split" in shown
    assert "directed, 0 % of the edges have their reverse" in shown
    assert "3 features: 2 numeric, 1 degree" in shown
    assert "blue 6 3 50.0 100.0 majority red 6 3 50.0 100.0" in shown
    assert f"warning: {ONE_WAY}" in shown
    assert max(map(len, ended.out.splitlines())) <= 96
    folder = place / "runs" / "inspect-mine"
    assert sorted(path.name for path in folder.iterdir()) == ["inspect.json", "inspect.png"]
    assert call("inspect", "mine", "--directed", "false").status == 0  # again, into this folder
    found = json.loads((folder / "inspect.json").read_text())
    assert (found["graph"]["reciprocal"], found["graph"]["edges"]) == (1.0, 96)


def test_amounts_are_said_to_be_numbers(call: Call, place: Path) -> None:
    price, share = [f"${10 * i}.50" for i in range(24)], [f"{i} %" for i in range(24)]
    header, *rows = node_rows()
    cells = [f"{row},{a},{b}" for row, a, b in zip(rows, price, share, strict=True)]
    write_nodes(place / "shop", [f"{header},price,share", *cells])
    ended = call("inspect", "shop")
    assert (ended.status, ended.err) == (0, "")
    shown = words(ended.out)
    assert "5 features: 4 numeric, 1 degree" in shown
    assert "note: column 'price': read as numbers in $; --categorical keeps text" in shown
    assert "note: column 'share': read as numbers in %; --categorical keeps text" in shown


def test_whole_graphs_as_json(call: Call, place: Path) -> None:
    ended = call("inspect", "many", "--json", "--output", "out")
    assert (ended.status, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert ended.out == (place / "out" / "inspect.json").read_text()
    assert (found["level"], found["graph"]["graphs"], found["rows"]) == ("graph", 16, 16)
    # Rings and paths of the same length are the same in training and test.
    assert found["twins"]["share"] == 1.0


def test_a_benchmark_takes_its_options(call: Call) -> None:
    ended = call("inspect", "chains", "--option", "length=6", "num_chains_per_class=4", "--json")
    assert json.loads(ended.out)["graph"]["nodes"] == 2 * 4 * 6


@pytest.mark.parametrize(
    ("args", "fact"),
    [
        (("no-such-place",), "neither a benchmark"),
        (("mine", "--split", "3"), "--split must be 0"),
        (("mine", "--label", "topic"), "topic"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    call: Call, place: Path, args: tuple[str, ...], fact: str
) -> None:
    ended = call("inspect", *args)
    assert (ended.status != 0, ended.out, ended.err.count("\n")) == (True, "", 1)
    assert fact in ended.err
    assert not (place / "runs").exists()


def test_a_training_says_what_was_read_before_its_first_epoch(
    call: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_epoch(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mgnni.train.training.Training.epochs", no_epoch)
    rows = node_rows()
    rows = [f"{row},{'label_too' if not i else i}" for i, row in enumerate(rows)]
    write_nodes(place / "more", rows, [f"{row},x" for row in edge_rows()])
    ended = call("train", "more", *QUICK)
    shown = words(ended.out)
    assert "more: 24 nodes, 48 edges; 4 features: 3 numeric, 1 degree" in shown
    assert "2 classes: blue 50.0 %, red 50.0 %" in shown
    assert f"warning: {ONE_WAY}" in shown
    assert "advice: columns of edges that are not used: 'x'" in shown
    assert ended.status == 130
    # With --json, warnings go to standard error.
    ended = call("train", "more", *QUICK, "--json", "--output", "other")
    assert ended.out == ""
    assert ended.err.startswith(f"mgnni train: note: {ONE_WAY}")


def test_fit_warns_about_edges_listed_once(place: Path) -> None:
    options: dict[str, Any] = {"epochs": 1, "hidden_channels": 4, "device": "cpu"}
    with pytest.warns(DataWarning, match=f"mine: {ONE_WAY}"):
        fit(place / "mine", **options)
    # Without a warning:
    fit(place / "mine", tables=TableOptions(directed=True), **options)
    fit(place / "mine", undirected=True, **options)


def test_targets_are_not_shortened_on_a_narrow_terminal() -> None:
    target = {"name": "price", "train": 600, "val": 63, "mean": 194020.0, "deviation": 112170.0}
    target |= {"min": 8469.0, "max": 660694.0, "neighbours": 0.65}
    target |= {"quartiles": [110048.0, 180283.0, 255848.0]}
    for width, there in ((70, "quartiles 110,048"), (120, "25 %")):
        console = Console(width=width, file=io.StringIO())
        show_targets(console, [target])
        shown = words(console.file.getvalue())  # type: ignore[attr-defined]
        assert there in shown
        assert "660,694" in shown
        assert "…" not in shown
