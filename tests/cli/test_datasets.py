"""``mgnni datasets`` from the outside."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from data.raw import expect, write_geom_gcn
from mgnni.data.catalog import ENTRIES

Call = Callable[..., Any]  # see conftest.py


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has a tiny Texas and nothing else."""
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path))
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas", graphs=1, nodes=4, edges=5)
    return tmp_path


def test_every_dataset_has_its_row(call: Call, root: Path) -> None:
    ended = call("datasets")
    assert (ended.status, ended.err) == (0, "")
    lines = [line.rstrip() for line in ended.out.splitlines()]
    head, *rows = lines[: len(ENTRIES) + 1]
    assert max(map(len, (head, *rows))) <= 100
    assert head.split() == [
        *("name", "task", "graphs", "nodes", "edges", "features", "classes", "splits"),
        *("metric", "on", "disk"),
    ]
    assert [row.split()[0] for row in rows] == list(ENTRIES)
    row = {line.split()[0]: line.split()[1:] for line in rows}
    assert row["squirrel"] == [
        *("node", "1", "5,201", "217,073", "2,089", "5", "10", "accuracy", "no"),
    ]
    assert row["texas"] == ["node", "1", "4", "5", "accuracy", "yes"], "the unknown stays empty"
    assert row["tolokers"][-2:] == ["roc_auc", "no"]
    assert row["mutag"][:2] == ["graph", "188"]
    assert row["chains"][-1] == "made"
    assert str(root) in ended.out


@pytest.mark.parametrize(("width", "columns"), [(80, 7), (60, 5)])
def test_a_narrow_terminal_shows_fewer_columns_but_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, call: Call, width: int, columns: int
) -> None:
    terminal = importlib.import_module("mgnni.cli.terminal")
    monkeypatch.setattr(terminal, "console_for", lambda: Console(width=width, highlight=False))
    ended = call("datasets")
    lines = ended.out.splitlines()[: len(ENTRIES) + 1]
    assert max(len(line.rstrip()) for line in lines) <= width
    assert "…" not in ended.out
    row = next(line.split() for line in lines if line.startswith("tolokers"))
    assert row[0] == "tolokers"
    assert "1,038,000" in row
    assert len(row) == columns
    assert "Not shown on a terminal this narrow: splits" in ended.out


def test_all_about_one_that_is_there(call: Call, root: Path) -> None:
    ended = call("datasets", "Texas")
    assert (ended.status, ended.err) == (0, "")
    cells = {tuple(line.split()) for line in ended.out.splitlines()}
    assert ("nodes", "4", "4") in cells
    assert ("edges", "5", "5") in cells
    assert ("features", "3") in cells, "found, though nothing was expected"
    assert ("train", "/", "val", "/", "test", "1", "/", "2", "/", "1") in cells
    said = " ".join(ended.out.split())
    assert all(trap in said for trap in ENTRIES["texas"].traps)
    assert "licence not stated" in said
    assert "graphdml-uiuc-jlu/geom-gcn" in said
    assert "undirected=None" in said
    assert str(root / "webkb" / "texas") in "".join(ended.out.split())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("questions", "no; downloaded when it is first used"),
        ("ptc", "no; take PTC from dataset.zip of github.com/weihua916/powerful-gnns"),
        ("colors", "on disk made in code"),
    ],
)
def test_all_about_one_that_is_not(call: Call, name: str, said: str) -> None:
    ended = call("datasets", name)
    assert (ended.status, ended.err) == (0, "")
    assert said in " ".join(ended.out.split())


def test_json_says_everything(call: Call, root: Path) -> None:
    found = json.loads(call("datasets", "--json").out)
    assert found["folder"] == str(root)
    assert [entry["name"] for entry in found["datasets"]] == list(ENTRIES)
    assert {entry["name"] for entry in found["datasets"] if entry["on_disk"]} == {
        *("texas", "chains", "colors", "lattice"),
    }
    questions = next(entry for entry in found["datasets"] if entry["name"] == "questions")
    assert questions["expected"] == ENTRIES["questions"].counts._asdict()
    assert questions["traps"] == list(ENTRIES["questions"].traps)

    texas = json.loads(call("datasets", "texas", "--json").out)
    assert texas["measured"] == {
        **{"graphs": 1, "nodes": 4, "edges": 5},
        **{"features": 3, "classes": 2, "splits": 10},
    }
    assert texas["parts"] == [[1, 2, 1]] * 10
    assert texas["options"] == {"undirected": None}
    assert json.loads(call("datasets", "ppi", "--json").out)["measured"] is None


def test_a_wrong_name_is_bad_usage(call: Call) -> None:
    ended = call("datasets", "texs")
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("mgnni datasets: error: 'dataset' must be one of [")
    assert line.endswith("(got 'texs'); did you mean 'texas'?")


def test_a_damaged_file_is_a_failure(call: Call, root: Path) -> None:
    (root / "webkb" / "texas" / "raw" / "out1_graph_edges.txt").write_text("what")
    ended = call("datasets", "texas")
    assert (ended.status, ended.out) == (1, "")
    (line,) = ended.err.splitlines()
    assert f"texas: {root}/webkb/texas is damaged or cut short" in line


def test_help_has_an_example_and_every_option(call: Call) -> None:
    ended = call("datasets", "--help")
    assert ended.status == 0
    assert "mgnni datasets chameleon" in ended.out
    assert "[NAME]" in ended.out
    assert all(option in ended.out for option in ("--json", "--debug", "MGNNI_DATA"))


def test_the_list_is_shown_without_torch() -> None:
    code = (
        "import sys\n"
        "from mgnni.cli.datasets import Datasets\n"
        "Datasets().run()\n"
        "slow = [name for name in ('torch', 'numpy', 'torch_geometric') if name in sys.modules]\n"
        "sys.exit(f'imports {slow}' if slow else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "minesweeper" in done.stdout
