import json
import os
import random
import sys
import time

import numpy as np
import pytest
import torch

import mgnni.train.fit as module
import mgnni.train.report as report
from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError, MgnniError
from mgnni.train.config import Config, ModelConfig
from mgnni.train.experiment import Experiment, runs_of
from mgnni.train.fit import fit, train
from mgnni.train.fitted import Fitted
from mgnni.train.runs import Run
from mgnni.train.source import Source
from train.cases import (
    SMALL,
    assert_same_bits,
    config,
    differ,
    graph_task,
    inductive_task,
    node_data,
    node_task,
    runs,
)

SHORT = {**SMALL, "epochs": 4}


def files(path) -> set[str]:
    return {name for name in os.listdir(path) if name != ".lock"}


def test_a_benchmark_by_name():
    fitted = fit(
        "colors",
        options={"num_chains_per_class": 3, "length": 12, "num_splits": 2, "train_fraction": 0.3},
        split="all",
        epochs=40,
        lr=0.05,
    )
    report = fitted.report
    assert (report["dataset"], report["command"], report["data"]["nodes"]) == (
        "colors",
        "train",
        72,
    )
    assert report["config"]["model"]["scales"] == (1, 4, 8)  # those of its preset
    assert report["config"]["epochs"] == 40
    assert report["score"]["mean"] > 0.6
    assert fitted.schema is None
    assert [(run.split, run.seed) for run in fitted.runs] == [(0, 0), (1, 0)]


def test_a_pyg_graph():
    data, y = node_data()
    data.y = y
    fitted = fit(data, num_splits=2, split=1, seed=(3, 5), **SHORT)
    assert fitted.runs == (Run(1, 3), Run(1, 5))
    assert fitted.classes == ("0", "1", "2")
    assert any("drawn at random" in note for note in fitted.report["data"]["notes"])
    assert fitted.predict().shape == (40,)


@pytest.mark.parametrize("task", [graph_task(), inductive_task()], ids=["graphs", "inductive"])
def test_many_graphs(task):
    fitted = fit(task, split="all", **SHORT)
    assert fitted.report["score"]["n"] == len(task.splits)
    assert fitted.predict().size(0) == task.num_rows
    assert fitted.level == task.level


def test_presets_configurations_and_changes():
    base = node_task(1)
    task = Task("texas", base.graphs, all_labels(base), base.splits, "abc")
    one = fit(task, epochs=1, hidden_channels=4).config
    assert (one.model.input_map, one.model.scales, one.epochs) == ("mlp-relu", (1, 2), 1)
    other = fit(task, preset="authors", epochs=1).config
    assert (other.model.input_map, other.lr) == ("identity", 0.5)
    own = Config(ModelConfig(hidden_channels=3), epochs=2)
    assert fit(task, config=own).config == own
    assert fit(task, config=own, gamma=0.5).config.model.gamma == 0.5


def test_the_same_again_is_the_same_to_the_last_bit():
    one, other = (fit(node_task(2), split="all", **SHORT) for _ in range(2))
    for a, b in zip(one.weights, other.weights, strict=True):
        assert_same_bits(a, b)
    a, b = one.report, other.report
    for measured in ("seconds", "peak_memory"):
        assert a.pop(measured) > 0
        assert b.pop(measured) > 0
    assert a == b


def test_seeds_and_splits_have_weights_of_their_own():
    found = fit(node_task(2), split="all", seed=(0, 1), **SHORT).weights
    assert all(differ(a, b) for a in found for b in found if a is not b)


def test_no_generator_of_the_process_is_touched():
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 (the old one is what others use)
    random.seed(5)
    states = torch.random.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    for task in (node_task(1), graph_task(splits=1)):
        fit(task, **SHORT).predict()
    assert torch.equal(torch.random.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.array_equal(np.random.get_state()[1], states[2])  # noqa: NPY002


def test_nothing_else_of_the_process_is_changed(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    for options in ({"deterministic": True}, {"precision": "64"}, {"precision": "bf16"}):
        fit(node_task(1), **SHORT, **options)
    assert not torch.are_deterministic_algorithms_enabled()
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (threads, dtype)
    assert torch.is_grad_enabled()
    assert os.listdir(tmp_path) == []
    assert "".join(capfd.readouterr()) == ""


def test_determinism_on_demand():
    seen = []

    def look(epoch):
        seen.append((torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()))

    one = fit(node_task(2), split="all", deterministic=True, on_epoch=look, device="cpu", **SHORT)
    assert set(seen) == {(True, 1)}
    other = fit(node_task(2), split="all", deterministic=True, device="cpu", **SHORT)
    for a, b in zip(one.weights, other.weights, strict=True):
        assert_same_bits(a, b)


@pytest.mark.parametrize(
    ("split", "seed", "message"),
    [
        ("some", 0, r"'split' must be a number, several, or 'all' \(got 'some'\)"),
        (2, 0, r"'split' must lie between 0 and 1 \(got 2\)"),
        (-1, 0, r"'split' must lie between 0 and 1 \(got -1\)"),
        ((), 0, r"'split' must hold at least one number"),
        ((0, 0), 0, r"'split' must not repeat a number \(got \[0, 0\]\)"),
        (0.5, 0, r"'split' must be a whole number, or several \(got 0\.5\)"),
        ((0, 0.5), 0, r"'split' must be a whole number"),
        (None, 0, r"'split' must be a whole number"),
        (0, -1, r"'seed' must lie between 0 and"),
        (0, 2**63, r"'seed' must lie between 0 and"),
        (0, "1", r"'seed' must be a whole number"),
        (0, [], r"'seed' must hold at least one number"),
        (0, (1, 1), r"'seed' must not repeat"),
    ],
)
def test_which_runs_are_refused(split, seed, message):
    with pytest.raises(ArgumentError, match=message):
        runs_of(node_task(2), split, seed)


def test_which_runs_there_are():
    task = node_task(3)
    assert runs_of(task, "all", 7) == (Run(0, 7), Run(1, 7), Run(2, 7))
    assert runs_of(task, [2, 0], range(2)) == (Run(2, 0), Run(2, 1), Run(0, 0), Run(0, 1))
    (one,) = runs_of(task, np.int64(1), np.array([4]))
    assert json.dumps(vars(one)) == '{"split": 1, "seed": 4}'  # plain numbers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gama": 0.5}, "did you mean 'gamma'"),
        ({"rule": "best"}, "'rule' must be one of"),
        ({"preset": "mine"}, "'preset' must be one of"),
        ({"device": "gpu"}, "'device' must be one of"),
        ({"hidden_channels": 0}, "'hidden_channels' must be a positive int"),
        ({"gamma": 1.5}, "gamma"),
        ({"head": "graph"}, "'level' must be 'graph'"),
        ({"resume": True}, "'resume' needs 'output'"),
        ({"metric": "accurate"}, "'metric' must be one of .*did you mean 'accuracy'"),
    ],
)
def test_what_cannot_work_is_refused_before_training(options, message):
    heard = []
    with pytest.raises(ArgumentError, match=message):
        fit(node_task(1), on_epoch=heard.append, **{**SHORT, **options})
    assert not heard


def test_a_refusal_writes_nothing(tmp_path):
    with pytest.raises(ArgumentError):
        fit(node_task(1), output=tmp_path / "out", gamma=1.5)
    with pytest.raises(DataError, match="needs labelled validation rows"):
        fit(graph_task(val=False), output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_and_its_return(tmp_path):
    heard = []
    options = {"split": "all", "output": tmp_path, **SHORT}
    one = fit(node_task(2), on_epoch=heard.append, **options)
    assert len(heard) == 4
    assert files(tmp_path) == {"config.json", "log.jsonl", "model.pt", "report.json", "state.pt"}
    assert json.loads((tmp_path / "report.json").read_text()) == json.loads(json.dumps(one.report))
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 4
    with pytest.raises(DataError, match="already holds a training"):
        fit(node_task(2), **options)
    again = fit(node_task(2), on_epoch=heard.append, resume=True, **options)
    assert len(heard) == 4  # nothing was trained
    assert json.loads(json.dumps(again.report)) == json.loads(json.dumps(one.report))
    for a, b in zip(one.weights, again.weights, strict=True):
        assert_same_bits(a, b)
    assert torch.equal(again.predict(), one.predict())


def experiment(task: Task | None = None, origin: str = "here", **options) -> Experiment:
    named = {"rule": "validation", "which": runs(2), "together": True}
    rule, which, together = (options.pop(name, default) for name, default in named.items())
    return Experiment(
        Source(task or node_task(2), None, origin),
        config(**{"epochs": 8, **options}),
        which,
        rule,
        together,
        device="cpu",
        checkpoint_every=0.0,
    )


class Interrupted(Exception):
    pass


def broken_off(path, made: Experiment, epoch: int) -> None:
    """Train up to an epoch that never ends."""

    def stop(heard):
        if heard.epoch == epoch:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(made, path, on_epoch=stop)


def test_what_was_broken_off_goes_on(tmp_path):
    whole = train(experiment(), tmp_path / "whole")
    broken_off(tmp_path / "part", experiment(), 5)
    assert files(tmp_path / "part") == {"config.json", "log.jsonl", "state.pt"}
    heard = []
    part = train(experiment(), tmp_path / "part", resume=True, on_epoch=heard.append)
    assert heard[0].epoch in (2, 3, 4, 5)  # from the last checkpoint, not from the beginning
    for a, b in zip(whole.weights, part.weights, strict=True):
        assert_same_bits(a, b)
    one, other = dict(whole.report), dict(part.report)
    for measured in ("seconds", "peak_memory"):
        assert one.pop(measured) > 0
        assert other.pop(measured) > 0
    assert one == other
    assert (tmp_path / "whole/log.jsonl").read_text() == (tmp_path / "part/log.jsonl").read_text()


def other_features() -> Task:
    graph = node_task(2).graphs[0].clone()
    graph.x[0, 0] += 1
    return node_task(2).with_graphs([graph])


OTHERS = {
    "a configuration": (lambda: experiment(lr=0.5), r"config\.lr = 0\.01 \(asked for: 0\.5\)"),
    "a model": (lambda: experiment(gamma=0.5), r"config\.model\.gamma"),
    "data": (lambda: experiment(other_features()), r"data\.fingerprint"),
    "an origin": (lambda: experiment(origin="there"), r"data\.origin = 'here'"),
    "a rule": (lambda: experiment(rule="gin"), "rule = 'validation'"),
    "a metric": (lambda: experiment(node_task(2, metric="macro_f1")), "metric = 'accuracy'"),
    "runs": (lambda: experiment(which=runs(2, 2)), "runs = "),
    "one by one": (lambda: experiment(together=False), "together = True"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_training_does_not_go_on_here(name, tmp_path):
    make, what = OTHERS[name]
    broken_off(tmp_path, experiment(), 3)
    before = {file: (tmp_path / file).read_bytes() for file in files(tmp_path)}
    with pytest.raises(DataError, match=f"holds another training, with {what}"):
        train(make(), tmp_path, resume=True)
    assert {file: (tmp_path / file).read_bytes() for file in files(tmp_path)} == before


def test_other_versions_do_not_go_on_here(tmp_path, monkeypatch):
    broken_off(tmp_path, experiment(), 3)
    newer = {**report.versions(), "torch": "99.0"}
    monkeypatch.setattr(report, "versions", lambda: newer)
    with pytest.raises(DataError, match=r"versions\.torch = .*asked for: '99\.0'"):
        train(experiment(), tmp_path, resume=True)


def test_a_damaged_state_can_be_deleted(tmp_path):
    broken_off(tmp_path, experiment(), 3)
    state = tmp_path / "state.pt"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"state\.pt: .*delete it to train from the beginning"):
        train(experiment(), tmp_path, resume=True)
    state.unlink()
    with pytest.warns(UserWarning, match="no checkpoint to resume from"):
        again = train(experiment(), tmp_path, resume=True)
    assert_same_bits(again.weights[0], train(experiment()).weights[0])


def test_a_folder_in_use_is_left_alone(tmp_path):
    def intrude(epoch):
        with pytest.raises(DataError, match="another process is training here"):
            train(experiment(), tmp_path, resume=True)

    train(experiment(epochs=2), tmp_path, on_epoch=intrude)
    assert "report.json" in files(tmp_path)


def test_a_training_that_diverges_leaves_no_report(tmp_path):
    with pytest.raises(MgnniError, match="training diverged"):
        fit(node_task(1), output=tmp_path, lr=1e30, **SHORT)
    assert "report.json" not in files(tmp_path)
    with pytest.raises(DataError, match="no such file; the folder of a complete"):
        Fitted.load(tmp_path)


def test_resuming_without_a_checkpoint_starts_from_the_beginning_and_says_so(tmp_path):
    new = tmp_path / "new"
    with pytest.raises(DataError, match=r"new: no such folder, so there is nothing to resume"):
        fit(node_task(1), output=new, resume=True, **SHORT)
    assert not new.exists()
    new.mkdir()
    with pytest.warns(UserWarning, match="no checkpoint to resume from; training starts at epoch"):
        fitted = fit(node_task(1), output=new, resume=True, **SHORT)
    assert fitted.report["score"]["n"] == 1
    notes = []
    fitted = train(experiment(), tmp_path / "other", resume=True, on_note=notes.append)
    assert [str(tmp_path / "other") in note for note in notes] == [True]
    train(experiment(), tmp_path / "other", resume=True, on_note=notes.append)
    assert len(notes) == 1  # complete: there is nothing to say
    (tmp_path / "killed").mkdir()  # before its first checkpoint
    (tmp_path / "killed/config.json").write_bytes((tmp_path / "other/config.json").read_bytes())
    again = train(experiment(), tmp_path / "killed", resume=True, on_note=notes.append)
    assert len(notes) == 2
    assert_same_bits(again.weights[0], fitted.weights[0])


def test_seconds_add_up(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])

    def tick(epoch):
        clock[0] += 10.0
        if epoch.epoch == 3:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(experiment(), tmp_path, on_epoch=tick)
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    assert saved["seconds"] == 10.0 * saved["epoch"]
    clock[0] = 5000.0  # a day later, on a clock of its own

    def later(epoch):
        clock[0] += 10.0

    fitted = train(experiment(), tmp_path, resume=True, on_epoch=later)
    assert fitted.report["seconds"] == 80.0


def test_progress_is_shown_on_a_terminal_or_if_asked(capsys, monkeypatch):
    heard = []

    def slowly(epoch):
        heard.append(epoch)
        time.sleep(0.11)  # the bar is drawn ten times per second at most

    fit(node_task(1), on_epoch=heard.append, **SHORT)
    assert capsys.readouterr().err == ""
    fit(node_task(2), split="all", on_epoch=slowly, progress=True, **SHORT)
    shown = capsys.readouterr().err
    assert len(heard) == 8
    assert "2 runs" in shown
    assert "/4 [" in shown
    assert "best val" in shown
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fit(node_task(1), on_epoch=slowly, **SHORT)
    assert "split 0, seed 0" in capsys.readouterr().err
    fit(node_task(1), progress=False, **SHORT)
    assert capsys.readouterr().err == ""
