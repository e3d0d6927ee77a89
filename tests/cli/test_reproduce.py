"""``mgnni reproduce``: trains a part of a table, goes on after an interruption, and shows it."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mgnni.cli.reproduce_output import Progress, show_sheet
from mgnni.data.catalog import ENTRIES
from mgnni.data.storage import data_root
from mgnni.reproduce.sheet import Sheet
from mgnni.reproduce.store import locked
from mgnni.reproduce.study import Cell
from mgnni.train.training import OnEpoch
from reproduce.cases import lasting

Call = Callable[..., Any]  # see conftest.py
# With the data of the paper where they are; chains are made in code.
TEXAS = ("heterophilic", "--quick", "--model", "mgnni", "--data", "texas")
CHAINS = ("gamma", "--quick", "--model", "eignn", "--data", "0.6")
ON_DISK = ENTRIES["texas"].on_disk(data_root(None))
PART = TEXAS if ON_DISK else CHAINS
FOLDER = Path("quick", PART[0], PART[3], PART[5])
STORED = Path(__file__).parents[2] / "reproduction"


@contextmanager
def interrupted(progress: Progress, cell: Cell) -> Iterator[OnEpoch]:
    """What is called after every epoch; the user interrupts the eighth."""

    def on_epoch(epoch: Any) -> None:
        if epoch.epoch == 8:
            raise KeyboardInterrupt

    yield on_epoch


def report_of(folder: Path) -> dict[str, Any]:
    report = json.loads((folder / FOLDER / "report.json").read_text("utf-8"))
    return lasting({key: value for key, value in report.items() if key != "timing"})


def test_an_interrupted_part_of_a_table_is_continued(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_cpu = ("--device", "cpu", "--output")
    whole = call("reproduce", *PART, *on_cpu, tmp_path / "whole")
    assert whole.status == 0, whole.err
    assert "1/1" in whole.err
    assert "paper" in whole.out
    assert "quick" in whole.out

    with monkeypatch.context() as patch:
        patch.setattr(Progress, "follow", interrupted)
        cut = call("reproduce", *PART, *on_cpu, tmp_path / "cut")
    assert cut.status == 130
    assert "repeat the command to continue" in cut.err
    assert not (tmp_path / "cut" / FOLDER / "report.json").exists()

    again = call("reproduce", *PART, *on_cpu, tmp_path / "cut")
    assert again.status == 0, again.err
    assert report_of(tmp_path / "cut") == report_of(tmp_path / "whole")
    assert report_of(tmp_path / "cut")["quick"] is True

    third = call("reproduce", *PART, *on_cpu, tmp_path / "cut")
    assert "1 of 1 trainings are stored already" in third.err
    assert third.out == again.out


def test_a_training_that_another_process_ends_has_not_failed(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("reproduce", *PART, "--device", "cpu", "--output")
    assert call(*command, tmp_path / "whole").status == 0

    @contextmanager
    def trained_elsewhere(progress: Progress, cell: Cell) -> Iterator[OnEpoch]:
        with locked(cell, tmp_path / "two" / "quick"):
            yield lambda epoch: None
        shutil.copytree(tmp_path / "whole", tmp_path / "two", dirs_exist_ok=True)

    monkeypatch.setattr(Progress, "follow", trained_elsewhere)
    ended = call(*command, tmp_path / "two")
    assert "another process is training here" in ended.err
    assert ended.status == 0
    assert "failed, the others are stored" not in ended.err


def test_the_figure_of_an_experiment_has_all_its_cells(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    parts = [("chains", "--quick", "--model", name, "--data", "10") for name in ("mgnni-1", "gcn")]
    for part in parts:
        ended = call("reproduce", *part, "--device", "cpu", "--output", tmp_path)
        assert ended.status == 0, ended.err
    figure = tmp_path / "quick" / "chains" / "chains.png"
    before = figure.read_bytes()
    call("reproduce", *parts[0], "--table", "--output", tmp_path)
    assert figure.read_bytes() == before
    figure.unlink()
    figure.mkdir()  # a place that cannot be written
    ended = call("reproduce", *parts[0], "--table", "--output", tmp_path)
    assert (ended.status, ended.err) == (0, "")
    assert "Figure: not written (is a directory)" in ended.out


def test_the_table_alone_trains_nothing(call: Call, tmp_path: Path) -> None:
    shown = call("reproduce", "graphs", "--table", "--output", tmp_path / "none")
    assert shown.status == 0
    assert "91.90 ± 5.50" in shown.out
    assert f"mgnni reproduce graphs --output {tmp_path / 'none'}" in " ".join(shown.out.split())
    assert not (tmp_path / "none").exists()
    # A part without the row that the others are compared with.
    part = call("reproduce", "graphs", "--model", "gin", "--table", "--output", tmp_path / "none")
    assert part.status == 0
    assert "89.00 ± 6.00" in part.out
    found = json.loads(call("reproduce", "ppi", "--table", "--json", "--output", tmp_path).out)
    assert {cell["state"] for cell in found["cells"]} == {"missing"}


@pytest.mark.parametrize("content", ["3", "[]", "", '{"experiment": "x", "config": []}'])
def test_a_damaged_report_is_named(call: Call, tmp_path: Path, content: str) -> None:
    path = tmp_path / "quick" / "heterophilic" / "gcn" / "texas" / "report.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    part = ("heterophilic", "--model", "gcn", "--data", "texas", "--quick", "--table")
    ended = call("reproduce", *part, "--output", tmp_path)
    assert ended.status == 1
    assert f"{path}: " in ended.err


@pytest.mark.parametrize(
    "change",
    [{"runs": []}, {"seconds": None}, {"runs": [{"split": 0, "seed": 0, "reported": {}}]}],
)
def test_a_report_without_scores_is_named(
    call: Call, tmp_path: Path, change: dict[str, object]
) -> None:
    part = ("heterophilic", "--model", "gcn", "--data", "texas", "--output", tmp_path)
    path = tmp_path / "heterophilic" / "gcn" / "texas" / "report.json"
    path.parent.mkdir(parents=True)
    known = json.loads((STORED / "heterophilic/gcn/texas/report.json").read_text("utf-8"))
    path.write_text(json.dumps({**known, **change}))
    ended = call("reproduce", *part, "--table")
    assert ended.status == 1
    assert f"{path}: must be a report of mgnni reproduce" in ended.err
    assert "delete it to train again" in ended.err


def test_a_failed_training_is_reported_at_the_end(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path / "no-data"))
    part = ("ppi", "--quick", "--model", "mgnni")
    ended = call("reproduce", *part, "--device", "cpu", "--output", tmp_path / "out")
    assert ended.status == 1
    assert "ppi/mgnni/ppi-recon" in ended.err
    assert "1 of 1 trainings failed" in ended.err
    assert "Traceback" not in ended.err
    failed = tmp_path / "out" / "quick" / "ppi" / "mgnni" / "ppi-recon" / "failed.json"
    assert "ppi-recon" in json.loads(failed.read_text("utf-8"))["error"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "EXPERIMENT must be one of"),
        (("heterophilc",), "did you mean 'heterophilic'"),
        (("ppi", "--model", "mgni"), "did you mean 'mgnni'"),
        (("ppi", "--jobs", "0"), "--jobs must be at least 1"),
        (("ppi", "--seeds", "0", "0"), "--seeds must be distinct numbers"),
        (("ppi", "--seeds", "-1"), "--seeds must be distinct numbers, at least 0"),
        (("graphs", "--model", "gin", "--data", "mutga"), "did you mean 'mutag'"),
    ],
)
def test_wrong_arguments_are_explained(call: Call, args: tuple[str, ...], said: str) -> None:
    ended = call("reproduce", *args)
    assert ended.status == 2
    assert said in ended.err


@pytest.mark.parametrize("width", [60, 80, 120])
def test_numbers_of_a_wide_table_are_not_broken(width: int) -> None:
    names = ["MUTAG", "PTC", "PROTEINS", "NCI1", "IMDB-BINARY", "IMDB-MULTI"]
    numbers = [f"{place}1.90 ± 12.50†*" for place in range(6)]
    row = ["a model with a name that is longer than its column", "ours, validation", *numbers]
    with io.StringIO() as file:
        show_sheet(Console(file=file, width=width), Sheet("", ["", "", *names], [row], 2))
        lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    for number in numbers:
        assert sum(number in line for line in lines) == 1
