"""``mgnni train`` on own data without ``--model``: the plan, the table, and what is saved."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mgnni.cli.portfolio_output import show_comparison
from mgnni.cli.terminal import console_for

Call = Callable[..., Any]  # see conftest.py
pytestmark = pytest.mark.usefixtures("place")


def words(text: str) -> str:
    return " ".join(text.split())


FEW = ("--epochs", "2", "--hidden-channels", "4", "--device", "cpu", "--no-report")


def test_own_data_without_a_model(call: Call, place: Path) -> None:
    ended = call("train", "mine", *FEW)
    assert (ended.status, ended.err) == (0, "")
    shown, folder = words(ended.out), place / "runs" / "mine"
    names = "mgnni, gmgnni, gmgnni-graph, gmgnni-out, gmgnni-in, graphsage, gcn, mlp"
    assert f"No --model given. Comparing {names} by accuracy on the validation set of" in shown
    assert "Budget: 5 min, of which 2 min to compare" in shown
    report = json.loads((folder / "report.json").read_text())
    record = report["portfolio"]
    best = max(one["validation"] for one in record["candidates"])
    (chosen,) = (one for one in record["candidates"] if one["name"] == record["chosen"])
    assert chosen["validation"] == best
    assert (report["model"], report["config"]["epochs"]) == (chosen["model"], 2)
    for one in record["candidates"]:
        assert f" {one['name']} 2 {100 * one['validation']:.2f} " in shown
    assert f"Chosen: {record['chosen']}, the best accuracy" in shown
    assert f"model: {record['chosen']}, chosen among 8 on validation data" in shown
    assert json.loads((folder / "config.json").read_text())["portfolio"] == record
    assert max(map(len, ended.out.splitlines())) <= 80
    again = call("train", "mine", *FEW, "--resume", "--json")
    assert again.out == (folder / "report.json").read_text(encoding="utf-8")
    assert "Comparing" not in again.err
    assert call("train", "mine", *FEW).status == 1
    ended = call("train", "mine", *FEW, "--resume", "--model", "mgnni")
    assert ended.status == 1
    assert "holds another training" in ended.err
    assert call("predict", folder, "mine", "--output", "p.csv").status == 0


def test_a_chosen_model_is_trained_for_more_epochs_by_its_config(call: Call, place: Path) -> None:
    small = FEW[2:]
    assert call("train", "mine", *FEW, "--output", "few").status == 0
    chosen = json.loads((place / "few" / "report.json").read_text())["portfolio"]["chosen"]
    model = chosen.split("-")[0]  # a variant has the options of its config
    for options in ((), ("--model", model)):
        again = call(
            *("train", "mine", *small, *options, "--epochs", "4", "--output", "few", "--resume")
        )
        assert (again.status, len(again.err) < 500) == (1, True)
        way = f"mgnni train {place / 'mine'} --config few/config.json --epochs 4 --output NEW"
        assert "whose model was chosen among several, so it cannot go on" in again.err
        assert way in again.err
    words_of = shlex.split(way.replace("NEW", "new"))[1:]
    ended = call(*words_of, "--no-report")
    assert ended.status == 0, ended.err
    report = json.loads((place / "new" / "report.json").read_text())
    before = json.loads((place / "few" / "report.json").read_text())["config"]
    assert report["config"] == {**before, "epochs": 4}
    other = call("train", "mine", *FEW, "--lr", "0.5", "--output", "few", "--resume")
    assert "holds another comparison, with candidates." in other.err


@pytest.mark.parametrize("rule", ["test-max", "fold-max", "gin"])
def test_a_model_is_chosen_on_validation_data_whatever_the_rule(
    call: Call, place: Path, rule: str
) -> None:
    ended = call("train", "many", *FEW, "--rule", rule)
    assert (ended.status, ended.err) == (0, "")
    report = json.loads((place / "runs" / "many" / "report.json").read_text())
    assert report["protocol"]["rule"] == rule
    assert all(one["error"] is None for one in report["portfolio"]["candidates"])
    assert len(report["runs"][0]["test_curve"]) == 2


def test_whole_graphs_without_a_model(call: Call) -> None:
    ended = call("train", "many", *FEW, "--json")
    assert ended.status == 0
    assert json.loads(ended.out)["portfolio"]["chosen"] in words(ended.err)
    assert "Comparing mgnni, gmgnni, gin, graphsage, gcn, mlp" in words(ended.err)


def test_a_given_model_and_a_benchmark_are_not_searched(call: Call, place: Path) -> None:
    assert call("train", "mine", *FEW, "--model", "gcn").status == 0
    options = ("--option", "length=12", "num_chains_per_class=5")
    assert call("train", "colors", *options, *FEW[:2], "--no-report").status == 0
    for folder, model in (("mine-gcn", "gcn"), ("colors", "mgnni")):
        report = json.loads((place / "runs" / folder / "report.json").read_text())
        assert (report["model"], "portfolio" in report) == (model, False)
        assert not (place / "runs" / folder / "portfolio.json").exists()
    ended = call("train", "mine", "--resume", *FEW, "--output", "runs/mine-gcn")
    assert ended.status == 1
    assert "repeat its --model" in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--model", "gcn", "--budget", "3"), "--budget is for the choice of a model"),
        (("--budget", "0"), "--budget must be above 0 minutes"),
        (("--model", "auto", "--preset", "authors"), "--preset must be left out"),
    ],
)
def test_what_does_not_fit_is_refused(
    call: Call, place: Path, options: tuple[str, ...], message: str
) -> None:
    ended = call("train", "mine", *FEW, *options)
    assert ended.status == 2
    assert message in ended.err
    assert not (place / "runs").exists()


def test_a_failed_candidate_is_shown_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    one = {"name": "gcn", "validation": 0.5, "epochs": 3, "seconds_per_epoch": 0.1, "error": None}
    bad = {**one, "name": "mlp", "validation": None, "error": "diverged"}
    record = {"candidates": [one, bad], "chosen": "gcn", "metric": "accuracy", "splits": [0]}
    show_comparison(console_for(80), {**record, "seconds": 1.0, "epochs": 9, "notes": []})
    shown = words(capsys.readouterr().out)
    assert "gcn 3 50.00 0.1 chosen mlp failed diverged" in shown
