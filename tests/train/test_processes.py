"""Groups trained in several processes: the results of one process, also after a break."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mgnni.errors import ArgumentError, DivergenceError, MgnniError
from mgnni.train.device import make_fabric
from mgnni.train.experiment import Experiment
from mgnni.train.fit import train
from mgnni.train.fitted import Fitted
from mgnni.train.processes import ROOM, WORTH, count_jobs
from mgnni.train.runs import Epoch
from mgnni.train.source import Source
from mgnni.train.training import Training
from train.cases import assert_same_bits, config, graph_task, node_task, runs, training

OPTIONS: dict[str, Any] = {"batch_size": 4, "head": "graph", "lr": 0.05, "patience": 12}
CPU = torch.device("cpu")


def experiment(jobs: int | None, epochs: int = 40, **options: Any) -> Experiment:
    """Three splits of small graphs, with a checkpoint whenever there is time."""
    source = Source(graph_task(splits=3), None, "here")
    chosen = config(**{**OPTIONS, "epochs": epochs, **options})
    return Experiment(source, chosen, runs(3), device="cpu", checkpoint_every=0.0, jobs=jobs)


def lasting(made: Fitted) -> dict[str, Any]:
    machine = ("seconds", "peak_memory", "processes")
    return {key: value for key, value in (made.report or {}).items() if key not in machine}


def assert_same(one: Fitted, other: Fitted, folder: Path, other_folder: Path) -> None:
    assert lasting(one) == lasting(other)
    for a, b in zip(one.weights, other.weights, strict=True):
        assert_same_bits(a, b)
    log = (folder / "log.jsonl").read_text()
    assert log == (other_folder / "log.jsonl").read_text()
    assert not (folder / "state.pt").exists()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    """The training in one process."""
    folder = tmp_path_factory.mktemp("alone") / "out"
    return train(experiment(1), folder), folder


def test_an_experiment_is_sent_with_all_of_its_fields() -> None:
    sent = replace(experiment(2), rule="fold-max", portfolio={"chosen": "mlp"})
    there = pickle.loads(pickle.dumps(sent))
    for one in fields(Experiment):
        if one.name != "source":
            assert getattr(there, one.name) == getattr(sent, one.name), one.name
    assert there.task.name == sent.task.name
    assert there.groups() == sent.groups()


def listener(heard: list[Epoch]) -> Callable[[Epoch], None]:
    """Return a callback that keeps epochs, and first waits until both processes have begun.

    The process that began first waits meanwhile, because the connection is full.
    """

    def listen(epoch: Epoch) -> None:
        if not heard:
            time.sleep(3)
        heard.append(epoch)

    return listen


def interrupted(folder: Path) -> None:
    """Begin a training, and interrupt it when several epochs have been heard of."""
    heard: list[Epoch] = []

    def listen(epoch: Epoch) -> None:
        heard.append(epoch)
        if len(heard) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(experiment(2), folder, on_epoch=listen)
    assert (folder / "state.pt").exists()
    assert not multiprocessing.active_children()


def test_two_processes_train_as_one_does(alone: tuple[Fitted, Path], tmp_path: Path) -> None:
    heard: list[Epoch] = []
    asked = experiment(2)
    made = train(asked, tmp_path / "out", on_epoch=listener(heard))
    assert_same(made, alone[0], tmp_path / "out", alone[1])
    assert asked.task.test_evaluations == [1, 1, 1]
    assert max(len(epoch.runs) for epoch in heard) == 2  # two at a time
    assert {run for epoch in heard for run in epoch.runs} == set(runs(3))
    for epoch in heard:
        assert epoch.finished + len(epoch.runs) <= 3
        assert len(epoch.loss) == len(epoch.val_metric) == len(epoch.runs)
    assert heard[-1].finished == 2
    assert not multiprocessing.active_children()


def test_an_interrupted_training_is_resumed_in_any_number_of_processes(
    alone: tuple[Fitted, Path], tmp_path: Path
) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    interrupted(two)
    shutil.copytree(two, one)
    assert_same(train(experiment(1), one, resume=True), alone[0], one, alone[1])
    assert_same(train(experiment(2), two, resume=True), alone[0], two, alone[1])


def test_an_error_of_a_process_is_the_error_of_the_training() -> None:
    with pytest.raises(DivergenceError, match=r"^training diverged: .* split \d, seed 0") as caught:
        train(experiment(2, lr=1e25))
    assert "in check_finite" in str(caught.value.__cause__)  # the traceback of the process
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_ends_the_training(tmp_path: Path) -> None:
    def kill(_: Epoch) -> None:
        for child in multiprocessing.active_children():
            child.kill()

    with pytest.raises(MgnniError, match=r"ended early \(exit status -9\).*fewer jobs, and resume"):
        train(experiment(2, epochs=100_000, patience=None), tmp_path / "out", on_epoch=kill)
    assert (tmp_path / "out" / "config.json").exists()


def test_a_group_is_released_and_taken_back() -> None:
    """What processes do, without them: groups 1 and 0 are trained elsewhere, in this order."""
    task, chosen = node_task(2), config(epochs=6)
    whole = training(task, chosen, runs(2), together=False)
    whole.run()

    made = training(task, chosen, runs(2), together=False)
    next(made.epochs())
    made.log, begun = [], made.log  # a released group has only the rows that follow
    made.release_group()
    assert made.learner is None
    for group in (1, 0):
        other = training(task, chosen, runs(2), together=False)
        other.groups = [other.groups[group]]
        if group in made.pending:
            other.load_state(made.pending[group])
        other.run()
        made.pending[group] = other.state()
        assert made.group == 0
    made.collect_groups()
    assert (made.group, made.pending) == (2, {})
    assert begun + made.rows() == whole.log
    assert made.certificates == whole.certificates
    for a, b in zip(made.results(), whole.results(), strict=True):
        assert_same_bits(a.weights, b.weights)


def nodes(jobs: int | None, count: int = 12, epochs: int = 200, **options: Any) -> Experiment:
    """Splits of one graph, on a CPU in groups of up to five runs."""
    source = Source(node_task(count), None, "here")
    chosen = config(epochs=epochs, patience=5, lr=0.05)
    around = {"device": "cpu", "checkpoint_every": 0.0, "jobs": jobs, **options}
    return Experiment(source, chosen, runs(count), **around)


def test_on_a_cpu_runs_on_one_graph_are_trained_in_small_groups() -> None:
    assert [len(group) for group in nodes(1).groups()] == [12]
    for count, sizes in ((1, [1]), (5, [5]), (6, [3, 3]), (12, [4, 4, 4]), (13, [3, 5, 5])):
        asked = nodes(1, count)
        groups = asked.groups(small=True)
        assert sorted(len(group) for group in groups) == sizes
        assert tuple(run for group in groups for run in group) == asked.runs
    searched = nodes(1, test=False)  # all runs are compared after every epoch
    assert len(Training(searched, make_fabric("cpu", "32", False)).groups) == 1


def test_runs_with_large_weights_are_trained_one_by_one() -> None:
    source = Source(node_task(4), None, "here")
    sizes = []
    for channels in (8, 2100):  # weights of 2,100 channels leave the caches, a small graph or not
        asked = Experiment(source, config(hidden_channels=channels), runs(4), device="cpu")
        sizes.append([len(group) for group in asked.groups(small=True)])
    assert sizes == [[4], [1, 1, 1, 1]]


def test_groups_on_one_graph_are_trained_in_two_processes_as_in_one(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    heard: list[Epoch] = []
    alone = train(nodes(1), one)
    made = train(nodes(2), two, on_epoch=listener(heard))
    assert_same(made, alone, two, one)
    assert max(len(epoch.runs) for epoch in heard) > 4  # more than those of one group


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_checkpoint_is_continued_with_its_own_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """One group of all runs, as those of a mesh."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    heard: list[Epoch] = []

    def listen(epoch: Epoch) -> None:
        heard.append(epoch)
        if len(heard) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "groups", lambda self, small=False: [list(self.runs)])
        expected = train(nodes(1), whole)
        with pytest.raises(KeyboardInterrupt):
            train(nodes(1), parts, on_epoch=listen)
    made = train(nodes(jobs), parts, resume=True)
    assert_same(made, expected, parts, whole)
    assert [one["split"] for one in (made.report or {})["runs"]] == list(range(12))


def test_processes_are_started_for_many_steps_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert count_jobs(experiment(None), CPU) == 1
    assert count_jobs(experiment(None, epochs=WORTH), CPU) == 2
    assert count_jobs(experiment(None, epochs=WORTH), torch.device("meta")) == 1
    assert count_jobs(experiment(8), CPU) == 3  # not more than there are groups
    assert count_jobs(nodes(None), CPU) == 1
    assert count_jobs(nodes(None, epochs=WORTH), CPU) == 2
    assert count_jobs(nodes(None, epochs=WORTH), torch.device("meta")) == 1
    assert count_jobs(nodes(None, 5, epochs=WORTH), CPU) == 1  # a single group
    assert count_jobs(nodes(None, 5, epochs=WORTH, together=False), CPU) == 1  # less memory
    monkeypatch.setattr(torch, "get_num_threads", lambda: 64)
    assert count_jobs(nodes(None, epochs=WORTH), CPU) == 3  # groups
    monkeypatch.setattr(os, "sysconf", lambda name: 2**12 if "SIZE" in name else 2 * ROOM // 2**12)
    assert count_jobs(nodes(None, epochs=WORTH), CPU) == 2
    with pytest.raises(ArgumentError, match=r"'jobs' must be at least 1 \(got 0\)"):
        experiment(0)
