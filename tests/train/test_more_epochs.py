"""Going on after the last epoch gives what the larger number of epochs gives from the start."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from mgnni.errors import DataError
from mgnni.train.experiment import Experiment
from mgnni.train.fit import train
from mgnni.train.fitted import Fitted
from mgnni.train.runs import Epoch
from mgnni.train.source import Source
from train.cases import assert_same_bits, config, graph_task, node_task, runs

# Runs stop after 5 to 11 epochs.
NODES: dict[str, Any] = {"lr": 0.02, "patience": 4, "dropout": 0.3, "batch_norm": True}
GRAPHS: dict[str, Any] = {"lr": 0.05, "patience": 4, "head": "graph", "batch_size": 4}


def experiment(kind: str, epochs: int, jobs: int = 1, rule: str = "validation") -> Experiment:
    task = graph_task(splits=4) if kind == "graphs" else node_task(4)
    options = GRAPHS if kind == "graphs" else NODES
    return Experiment(
        Source(task, None, "here"),
        config(**options, epochs=epochs),
        runs(4),
        rule,
        together=kind == "together",
        device="cpu",
        checkpoint_every=0.0,
        jobs=jobs,
    )


def assert_same(one: Fitted, other: Fitted, folder: Path, other_folder: Path) -> None:
    machine = ("seconds", "peak_memory", "processes", "commit")
    reports = [
        {k: v for k, v in (made.report or {}).items() if k not in machine} for made in (one, other)
    ]
    assert reports[0] == reports[1]
    for a, b in zip(one.weights, other.weights, strict=True):
        assert_same_bits(a, b)
    for name in ("log.jsonl", "config.json"):
        assert (folder / name).read_text() == (other_folder / name).read_text()


@pytest.mark.parametrize(
    ("kind", "jobs", "rule"),
    [
        ("together", 1, "validation"),
        ("together", 1, "gin"),
        ("one by one", 1, "validation"),
        ("graphs", 1, "validation"),
        ("graphs", 2, "validation"),
    ],
)
def test_a_finished_training_goes_on_as_if_it_had_not_ended(
    tmp_path: Path, kind: str, jobs: int, rule: str
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = train(experiment(kind, 14, rule=rule), whole)
    first = train(experiment(kind, 7, jobs, rule), parts)
    epochs = {run["epochs"] for run in (first.report or {})["runs"]}
    assert 7 in epochs
    if rule == "validation":
        assert min(epochs) < 7, "some runs should have stopped early"
    train(experiment(kind, 8, jobs, rule), parts, resume=True)
    assert_same(train(experiment(kind, 14, jobs, rule), parts, resume=True), expected, parts, whole)


@pytest.mark.parametrize("kind", ["together", "one by one"])
def test_an_interrupted_training_goes_on_past_its_limit(tmp_path: Path, kind: str) -> None:
    """In the second of four groups, if runs are trained one by one."""

    def stop_after(count: int) -> Any:
        heard: list[Epoch] = []

        def listen(epoch: Epoch) -> None:
            heard.append(epoch)
            if len(heard) == count:
                raise KeyboardInterrupt

        return listen

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    expected = train(experiment(kind, 12), whole)
    with pytest.raises(KeyboardInterrupt):
        train(experiment(kind, 6), parts, on_epoch=stop_after(4 if kind == "together" else 9))
    with pytest.raises(KeyboardInterrupt):  # before the first epoch is saved
        train(experiment(kind, 12), parts, resume=True, on_epoch=stop_after(1))
    assert_same(train(experiment(kind, 12), parts, resume=True), expected, parts, whole)


def test_the_previous_report_is_kept_until_the_longer_training_is_complete(tmp_path: Path) -> None:
    def stop(_: Epoch) -> None:
        raise KeyboardInterrupt

    source = Source(node_task(1), None, "here", {"num_splits": 3})
    short, long = (Experiment(source, config(epochs=n), runs(), device="cpu") for n in (4, 8))
    train(short, tmp_path)
    before = (tmp_path / "report.json").read_bytes()
    with pytest.raises(KeyboardInterrupt):
        train(long, tmp_path, resume=True, on_epoch=stop)
    assert not (tmp_path / "report.json").exists()
    assert (tmp_path / "report.previous.json").read_bytes() == before
    train(long, tmp_path, resume=True)
    assert json.loads((tmp_path / "report.json").read_text())["config"]["epochs"] == 8
    assert not (tmp_path / "report.previous.json").exists()


def test_a_training_whose_runs_had_all_stopped_stays_as_it_is(tmp_path: Path) -> None:
    train(experiment("together", 60), tmp_path)
    assert not (tmp_path / "state.pt").exists()
    before = (tmp_path / "report.json").read_bytes()
    notes: list[str] = []
    train(experiment("together", 90), tmp_path, resume=True, on_note=notes.append)
    assert notes == ["all runs had stopped early, so that more epochs change nothing"]
    assert (tmp_path / "report.json").read_bytes() == before


def test_what_cannot_go_on_is_refused_and_kept(tmp_path: Path) -> None:
    def asked(epochs: int, **changes: Any) -> Experiment:
        chosen = config(epochs=epochs, **changes)
        return Experiment(Source(node_task(1), None, "here"), chosen, runs(), device="cpu")

    cosine, plain = tmp_path / "cosine", tmp_path / "plain"
    train(asked(4, schedule="cosine"), cosine)
    with pytest.raises(DataError, match=r"schedule cosine cannot go on after its 4 epochs .*: 6"):
        train(asked(6, schedule="cosine"), cosine, resume=True)
    train(asked(4), plain)
    with pytest.raises(DataError, match=r"config\.epochs = 4 \(asked for: 3\)"):
        train(asked(3), plain, resume=True)
    with pytest.raises(DataError, match=r"config\.lr = 0\.01 \(asked for: 0\.02\)"):
        train(asked(6, lr=0.02), plain, resume=True)
    shutil.copytree(plain, tmp_path / "bare")
    (tmp_path / "bare" / "state.pt").unlink()
    with pytest.raises(DataError, match=r"has no state\.pt to go on from"):
        train(asked(6), tmp_path / "bare", resume=True)
    for folder in (cosine, plain, tmp_path / "bare"):
        report = json.loads((folder / "report.json").read_text())
        assert report["config"]["epochs"] == 4
    periodic = tmp_path / "periodic"
    train(asked(4, schedule="cosine", lr_period=3), periodic)
    made = train(asked(6, schedule="cosine", lr_period=3), periodic, resume=True)
    assert_same_bits(made.weights[0], train(asked(6, schedule="cosine", lr_period=3)).weights[0])


def test_a_damaged_checkpoint_does_not_cost_the_report(tmp_path):
    train(experiment("together", 3), tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in ("report.json", "config.json")}
    checkpoint = tmp_path / "state.pt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"state\.pt"):
        train(experiment("together", 5), tmp_path, resume=True)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
