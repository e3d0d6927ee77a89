import json
import sys
from types import ModuleType

import pytest

import mgnni.train.trackers as module
from mgnni.errors import ArgumentError, MgnniError
from mgnni.train.experiment import Experiment
from mgnni.train.fit import train
from mgnni.train.source import Source
from mgnni.train.trackers import TRACKERS, check_tracker, make_tracker
from train.cases import config, graph_task, ignore, node_task, runs


def experiment(count: int = 2, **options) -> Experiment:
    return Experiment(
        Source(node_task(2), None, "here"), config(epochs=3), runs(count), device="cpu", **options
    )


@pytest.fixture(params=["wandb", "trackio"])
def hosted(request, monkeypatch):
    """A package with the interface of wandb and trackio, and what it was told."""
    told = []
    package = ModuleType(request.param)
    package.init = lambda **options: told.append(("init", options))
    package.log = lambda values: told.append(("log", values))
    package.finish = lambda: told.append(("finish", None))
    monkeypatch.setitem(sys.modules, request.param, package)
    monkeypatch.setattr(module, "find_spec", lambda name: package)
    return request.param, told


def test_a_hosted_tracker_is_told_every_epoch_and_the_scores(hosted, tmp_path):
    name, told = hosted
    made = experiment(together=False)  # epochs start again at 1 with the second run
    with make_tracker(name, made, tmp_path / "texas") as tracker:
        report = train(made, tmp_path / "texas", on_epoch=tracker.after(ignore)).report
        tracker.finish(report)
    assert [what for what, _ in told] == ["init", *["log"] * 7, "finish"]
    assert told[0][1]["name"] == "texas"
    assert told[0][1]["config"]["epochs"] == 3
    log = [json.loads(line) for line in (tmp_path / "texas/log.jsonl").read_text().splitlines()]
    expected = [
        {
            "epoch": row["epoch"],
            f"loss/split-{row['split'][0]}-seed-0": row["loss"][0],
            f"val_loss/split-{row['split'][0]}-seed-0": row["val_loss"][0],
            f"val_accuracy/split-{row['split'][0]}-seed-0": row["val_metric"][0],
        }
        for row in log
    ]
    assert [values for _, values in told[1:7]] == expected
    scores = [run["reported"]["accuracy"] for run in report["runs"]]
    assert told[7][1] == {
        "epoch": 3,
        "test_accuracy/split-0-seed-0": scores[0],
        "test_accuracy/split-1-seed-0": scores[1],
        "test_accuracy/mean": report["score"]["mean"],
    }


def test_a_tracker_is_told_the_epoch_of_each_group_that_other_processes_train(hosted, tmp_path):
    name, told = hosted
    source = Source(graph_task(splits=3), None, "here")
    chosen = config(epochs=6, batch_size=4, head="graph")
    made = Experiment(source, chosen, runs(3), device="cpu", jobs=2)
    with make_tracker(name, made, tmp_path) as tracker:
        report = train(made, tmp_path, on_epoch=tracker.after(ignore)).report
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    expected = {
        (f"loss/split-{row['split'][0]}-seed-0", row["epoch"]): row["loss"][0] for row in log
    }
    found = [
        ((key, values["epoch"]), values[key])
        for what, values in told
        if what == "log"
        for key in values
        if key.startswith("loss/")
    ]
    assert len(found) == len(expected) == 18
    assert dict(found) == expected
    assert report["peak_memory"] is None  # that of this process would say nothing


def test_nothing_is_told_of_a_training_that_was_complete(hosted, tmp_path):
    name, told = hosted
    made = experiment(1)
    train(made, tmp_path)
    with make_tracker(name, made, tmp_path) as tracker:
        tracker.finish(train(made, tmp_path, resume=True, on_epoch=tracker.after(ignore)).report)
    assert [what for what, _ in told] == ["init", "finish"]


def test_a_tracker_is_closed_when_a_training_fails(hosted, tmp_path):
    name, told = hosted
    with pytest.raises(KeyboardInterrupt), make_tracker(name, experiment(), tmp_path):
        raise KeyboardInterrupt
    assert told[-1][0] == "finish"


def test_tensorboard_files_have_the_losses(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed",
    )
    made = experiment(1)
    with make_tracker("tensorboard", made, tmp_path) as tracker:
        tracker.finish(train(made, tmp_path, on_epoch=tracker.after(ignore)).report)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    log = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [one.step for one in events.Scalars("loss")] == [1, 2, 3]
    losses = [one.value for one in events.Scalars("loss")]
    assert losses == pytest.approx([row["loss"][0] for row in log])


def test_a_tracker_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    for name in TRACKERS:
        with pytest.raises(MgnniError, match=f"pip install {name}"):
            check_tracker(name)
    check_tracker(None)
    with pytest.raises(ArgumentError, match="did you mean 'wandb'"):
        check_tracker("wanb")
