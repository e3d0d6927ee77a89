"""``mgnni tune`` from the outside: what is printed and saved, and training with the result."""

from __future__ import annotations

import importlib.util
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.tables import listing, write_nodes
from mgnni.cli.tune import Tune
from mgnni.cli.tune_output import SearchClock, current
from mgnni.train.search import Progress
from mgnni.train.tuned import STORED, stored

Call = Callable[..., Any]  # see conftest.py
QUICK = ("--epochs", "3", "--hidden-channels", "4", "--device", "cpu", "--weight-decay", "0")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small graph in files."""
    monkeypatch.chdir(tmp_path)
    write_nodes(tmp_path / "mine")
    (tmp_path / "space.json").write_text('{"lr": [0.01, 0.1], "scales": [[1], [1, 2]]}')
    return tmp_path


def test_the_next_command_reads_the_same_data(call: Call, place: Path) -> None:
    lines = (place / "mine" / "nodes.csv").read_text().splitlines()
    numbers = [f"{line},{1 + 0.5 * row}" for row, line in enumerate(lines[1:])]
    (place / "mine" / "nodes.csv").write_text("\n".join([f"{lines[0]},size", *numbers]) + "\n")
    given = ("--task", "regression", "--label", "size", "--metric", "mae", "--directed", "false")
    ended = call("tune", "mine", *given, *QUICK, "--space", "space.json", "--trials", "1")
    assert ended.status == 0, ended.err
    words = shlex.split(ended.out.split("Next: mgnni ")[1])
    assert call(*words, "--device", "cpu", "--no-report").status == 0
    report = json.loads((place / "runs" / "mine" / "report.json").read_text(encoding="utf-8"))
    assert (report["metric"], report["input"]["columns"]["directed"]) == ("mae", False)


def test_options_of_a_training_that_a_search_does_not_have_are_refused(call: Call) -> None:
    ended = call("tune", "mine", "--no-report")
    assert ended.status == 2
    assert "unrecognized arguments: --no-report" in ended.err


def test_the_commands_in_stored_presets_are_accepted() -> None:
    for name in stored():
        command = json.loads((STORED / f"{name}.json").read_text("utf-8"))["repeat"]
        words = shlex.split(command)[2:]
        assert Tune.create(Tune.parser(words).parse(words)).data == words[0]


def test_a_search_and_a_training_with_its_result(call: Call, place: Path) -> None:
    ended = call("tune", "mine", *QUICK, "--space", "space.json", "--no-pruning")
    assert (ended.status, ended.err) == (0, "")
    folder = place / "runs" / "tune-mine"
    assert {path.name for path in folder.glob("[!.]*")} == {"journal.log", "preset.json"}
    result = json.loads((folder / "preset.json").read_text(encoding="utf-8"))
    shown = " ".join(ended.out.split())
    value = f"{100 * result['validation']['accuracy']:.2f}"
    assert f"mine, mgnni: validation accuracy {value} % (one run)" in shown
    assert "4 trials (all combinations); the test set was not used" in shown
    assert "Next: mgnni train mine --preset runs/tune-mine/preset.json" in shown
    rows = [line.split() for line in ended.out.splitlines()]
    values = [row[-1] for row in rows if row and row[0].isdigit() and row[1] in ("0.01", "0.1")]
    assert values == [f"{100 * one['value']:.2f}" for one in result["trials"]]
    assert values == sorted(values, key=float, reverse=True)

    trained = call("train", "mine", "--preset", "runs/tune-mine/preset.json", "--device", "cpu")
    assert (trained.status, trained.err) == (0, "")
    report = json.loads((place / "runs" / "mine" / "report.json").read_text(encoding="utf-8"))
    assert report["config"] == result["config"]
    wanted = pytest.approx(result["validation"]["accuracy"], abs=1e-9)
    assert report["runs"][0]["val"]["accuracy"] == wanted

    # The command in the file repeats the search, elsewhere.
    words = result["repeat"].split()
    assert words[:2] == ["mgnni", "tune"]
    again = call(*words[1:], "--output", "again", "--json")
    repeated = json.loads(again.out)
    for found in (result, repeated):
        del found["seconds"]
    assert repeated == result

    before = listing(folder)
    other = call("tune", "mine", *QUICK, "--space", "space.json", "--no-pruning")
    assert other.status == 1
    assert "already holds a study; continue or join it with --resume" in other.err
    assert listing(folder) == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--trials", "0"), "--trials must be at least 1 (got 0)"),
        (("--jobs", "0"), "--jobs must be at least 1 (got 0)"),
        (("--reduction", "1"), "--reduction must be "),
        (("--first-rung", "0"), "--first-rung must be "),
        (("--space", "none.json"), "none.json: must hold a space as JSON"),
        (("--preset", "tuned"), "--preset tuned is stored for "),
        (("--rule", "gin"), "unrecognized arguments: --rule gin"),
    ],
)
def test_bad_options_are_refused(call: Call, place: Path, words: Any, message: str) -> None:
    ended = call("tune", "mine", *QUICK, *words)
    assert ended.status in (1, 2)
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert not (place / "runs").exists()


def test_without_optuna_it_says_what_to_install(call: Call, place: Path, monkeypatch: Any) -> None:
    honest = importlib.util.find_spec

    def without(name: str, *args: Any) -> Any:
        return None if name == "optuna" else honest(name, *args)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    ended = call("tune", "mine", *QUICK)
    assert ended.status == 1
    assert ended.err == "mgnni tune: error: a search needs optuna; run: pip install 'mgnni[tune]'\n"
    assert not (place / "runs").exists()


def test_progress_estimates_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.perf_counter", lambda: now)
    clock = SearchClock()
    assert clock.state(Progress(2, 10, None, {"lr": 0.1}, None)) == ""  # two of an earlier process
    now = 120.0
    best = {"value": 0.825}
    text = clock.state(Progress(4, 10, best, {"lr": 0.1, "scales": (1, 2)}, None))
    assert text == "best val 82.50 %  about 60 s left"
    assert current(Progress(4, 10, best, {"lr": 0.1, "scales": (1, 2)}, None)) == (
        "lr 0.1, scales {1, 2}"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("texas", "--model", "gcn", "--lr", "0.1", "--no-pruning", "--split", "0", "1"),
        ("texas", "--undirected", "true", "--scales", "1", "3", "--clip", "none"),
        ("mine", "--directed", "false", "--no-standardize", "--deterministic", "--seeds", "0", "2"),
    ],
)
def test_the_command_that_repeats_a_search(words: tuple[str, ...]) -> None:
    command = Tune.create(Tune.parser(words).parse([*words, "--resume", "--jobs", "3"]))
    from mgnni.cli.tune import repeat

    assert repeat(command.data, command.given) == "mgnni " + " ".join(("tune", *words))


def test_the_help_names_no_choice_of_models_which_a_search_refuses(call: Call) -> None:
    searched = " ".join(call("tune", "--help").out.split())
    trained = " ".join(call("train", "--help").out.split())
    assert "or auto, which chooses one" in trained
    assert "or auto, which chooses one" not in searched


def test_the_folder_of_a_training_is_refused(call: Call, place: Path) -> None:
    """A running training holds its lock, for which a search would wait."""
    trained = call("train", "mine", "--model", "gcn", "--epochs", "2", "--no-report")
    assert trained.status == 0, trained.err
    before = listing(place / "runs")
    ended = call("tune", "mine", *QUICK, "--space", "space.json", "--output", "runs/mine-gcn")
    assert (ended.status, ended.out) == (2, "")
    assert "--output must not be the folder of a training (got runs/mine-gcn)" in ended.err
    assert listing(place / "runs") == before


def test_the_folder_of_a_search_is_no_folder_for_a_training(call: Call, place: Path) -> None:
    searched = call("tune", "mine", *QUICK, "--space", "space.json", "--trials", "1")
    assert searched.status == 0, searched.err
    before = listing(place / "runs")
    for model in ((), ("--model", "gcn", "--epochs", "2")):
        ended = call("train", "mine", *model, "--output", "runs/tune-mine")
        assert ended.status == 1
        assert "runs/tune-mine: holds a search; choose another --output" in ended.err
        assert listing(place / "runs") == before
    more = call("tune", "mine", *QUICK, "--space", "space.json", "--trials", "2", "--resume")
    assert more.status == 0, more.err


def test_the_table_has_no_shortened_names(call: Call, place: Path) -> None:
    """Of many hyperparameters, those that all of the best trials share are below the table."""
    ended = call("tune", "mine", "--model", "gcn", "--epochs", "2", "--trials", "2", "--no-pruning")
    assert ended.status == 0, ended.err
    header = next(line for line in ended.out.splitlines() if "trial " in line)
    assert "\u2026" not in header, header
