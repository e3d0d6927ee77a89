"""A search: what it tries, what it may look at, what it chooses, and what a kill changes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError, MgnniError
from mgnni.train import tuned
from mgnni.train.config import changed
from mgnni.train.fit import fit
from mgnni.train.presets import preset_for, space_for
from mgnni.train.search import Search, read_space
from mgnni.train.source import find_source
from mgnni.train.trial import Outcome
from mgnni.train.trial_queue import TrialQueue
from mgnni.train.tune import make_result, make_search, search_header, tune
from mgnni.train.tuned import find_preset
from train.cases import config, graph_task, inductive_task, node_task, trained

TESTS = Path(__file__).parents[1]
SPACE = {"lr": [0.01, 0.3], "scales": [[1], [1, 2]], "dropout": [0.0, 0.5]}
SMALL: dict[str, Any] = {"hidden_channels": 4, "attention_channels": 2, "epochs": 8, "patience": 4}
QUICK: dict[str, Any] = {**SMALL, "device": "cpu", "space": SPACE}
GRID = {
    (lr, scales, drop) for lr in (0.01, 0.3) for scales in ((1,), (1, 2)) for drop in (0.0, 0.5)
}


def tried(result: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [tuple(map(plain, one["params"].values())) for one in result["trials"]]


def plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def lasting(result: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the time, as it comes back from a file."""
    kept = {key: value for key, value in result.items() if key != "seconds"}
    found: dict[str, Any] = json.loads(json.dumps(kept))
    return found


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A finished search, and its folder."""
    folder = tmp_path_factory.mktemp("search")
    return tune(node_task(2), output=folder, prune=False, **QUICK), folder


def test_the_whole_grid_is_tried_once_and_the_best_on_validation_is_chosen(searched):
    result, folder = searched
    assert len(result["trials"]) == len(GRID)
    assert set(tried(result)) == GRID
    assert [one["state"] for one in result["trials"]] == ["complete"] * 8
    # The value of each, by training it here.
    values = {}
    for one in result["trials"]:
        chosen = changed(preset_for("nodes"), {**SMALL, **one["params"]})
        runs = trained(node_task(2), chosen, make_search_of(node_task(2)).experiment.runs).results()
        values[one["trial"]] = sum(run.val["accuracy"] for run in runs) / 2
        assert one["value"] == pytest.approx(values[one["trial"]], abs=1e-9)
        assert one["epochs"] == sum(run.epochs for run in runs)
    best = max(values.values())
    ties = [one for one in result["trials"] if values[one["trial"]] > best - 1e-9]
    assert result["chosen"] == min(ties, key=lambda one: one["loss"])["params"]
    assert json.loads((folder / "preset.json").read_text()) == json.loads(json.dumps(result))


def make_search_of(task: Task, **options: Any) -> Search:
    source = find_source(task)
    given = {"split": "all", "seed": 0, "trials": 50, "device": "cpu", **options}
    return make_search(source, config(epochs=8, patience=4), SPACE, **given)


def test_fewer_trials_are_the_first_of_more():
    few, more = (make_search_of(node_task(2), trials=count) for count in (3, 6))
    assert list(few.points.items()) == list(more.points.items())[:3]
    assert len({json.dumps(point) for point in more.points.values()}) == 6
    other = make_search_of(node_task(2), trials=3, search_seed=1)
    assert list(other.points) != list(few.points)


TASKS = {
    "nodes": lambda: node_task(2),
    "several labels": lambda: node_task(2, multilabel=True),
    "graphs": lambda: graph_task(splits=1),
    "inductive": inductive_task,
}


@pytest.mark.parametrize("name", TASKS)
def test_a_search_is_given_no_test_label(name):
    task = TASKS[name]()
    used = make_search_of(task, split=0).experiment.task
    test, labels = task.rows(0, "test"), all_labels(used)
    assert test.numel()
    unknown = torch.isnan(labels[test]) if task.multilabel else labels[test] == -1
    assert bool(unknown.all())
    assert used.rows(0, "test").numel() == 0
    for part in ("train", "val"):
        assert torch.equal(used.rows(0, part), task.rows(0, part))
        assert torch.equal(used.targets(0, part), task.targets(0, part))


def test_other_test_labels_give_the_same_study(tmp_path):
    task = node_task(2)
    result = tune(task, output=tmp_path / "a", split=1, prune=False, **QUICK)
    labels = all_labels(task).clone()
    rows = task.rows(1, "test")
    labels[rows] = (labels[rows] + 1) % 3
    other = Task(task.name, task.graphs, labels, task.splits, task.classes)
    again = tune(other, output=tmp_path / "b", split=1, prune=False, **QUICK)
    for one in (result, again):
        one.pop("data")  # its fingerprint holds the training labels of the other split
    assert lasting(result) == lasting(again)
    assert task.test_evaluations == other.test_evaluations == [0, 0]


def test_a_search_with_test_sets_is_refused():
    experiment = make_search_of(node_task(2)).experiment
    tested = replace(experiment, source=find_source(node_task(2)), test=True)
    with pytest.raises(ArgumentError, match="test=False"):
        Search(tested, SPACE, 3)


def test_two_processes_try_every_point_once(searched, tmp_path):
    result = tune(node_task(2), output=tmp_path, prune=False, jobs=2, **QUICK)
    assert sorted(tried(result)) == sorted(tried(searched[0]))
    assert result["chosen"] == searched[0]["chosen"]
    assert not multiprocessing.active_children()


def kill_after(folder: Path, lines: int) -> None:
    """Run a search in another process, which dies as soon as its journal is so long."""
    code = (
        "from optuna.storages.journal import JournalFileBackend\n"
        "from train.test_tune import *\n"
        "append = JournalFileBackend.append_logs\n"
        "def append_and_die(self, logs):\n"
        "    append(self, logs)\n"
        f"    if len(Path({str(folder / 'journal.log')!r}).read_text().splitlines()) >= {lines}:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "JournalFileBackend.append_logs = append_and_die\n"
        f"tune(node_task(2), output={str(folder)!r}, prune=False, resume=True, **QUICK)"
    )
    path = os.pathsep.join([str(TESTS), *sys.path])
    ended = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path})
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system cannot kill a process")
def test_a_search_that_was_killed_goes_on_to_the_same_end(searched, tmp_path):
    kill_after(tmp_path, 20)  # while trials are enqueued, or in the first
    kill_after(tmp_path, 60)  # in one of the next
    result = tune(node_task(2), output=tmp_path, prune=False, resume=True, **QUICK)
    assert sorted(tried(result)) == sorted(tried(searched[0]))

    def values(found: dict[str, Any]) -> dict[str, Any]:
        return {json.dumps(one["params"]): (one["value"], one["epochs"]) for one in found["trials"]}

    assert values(result) == values(searched[0])
    assert result["chosen"] == searched[0]["chosen"]
    assert not list(tmp_path.glob(".trial-*"))


def test_a_lock_left_by_a_killed_process_is_removed(tmp_path):
    first = tune(node_task(1), output=tmp_path, trials=2, **QUICK)
    (tmp_path / ".trial-1.lock").touch()  # killed after its outcome was recorded
    again = tune(node_task(1), output=tmp_path, trials=2, resume=True, **QUICK)
    assert again["trials"] == first["trials"]
    assert not list(tmp_path.glob(".trial-*"))


def test_a_finished_search_can_be_given_more_trials(tmp_path):
    first = tune(node_task(1), output=tmp_path, trials=2, **QUICK)
    again = tune(node_task(1), output=tmp_path, trials=4, resume=True, **QUICK)
    assert len(again["trials"]) == 4
    kept = [one for one in again["trials"] if one["trial"] < 2]
    assert sorted(kept, key=str) == sorted(first["trials"], key=str)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system cannot kill a process")
def test_an_interrupted_search_can_be_given_fewer_trials(tmp_path):
    kill_after(tmp_path, 60)  # in a trial that is not asked for any more
    result = tune(node_task(2), output=tmp_path, trials=1, prune=False, resume=True, **QUICK)
    assert result["trials"]
    assert len(result["trials"]) < len(GRID), "the interrupted trial is not repeated"


def test_a_line_that_was_half_written_is_dropped(tmp_path):
    first = tune(node_task(1), output=tmp_path, trials=2, **QUICK)
    journal = tmp_path / "journal.log"
    journal.write_bytes(journal.read_bytes() + b'{"op_code": 5, "worker')  # the disk was full
    again = tune(node_task(1), output=tmp_path, trials=3, resume=True, **QUICK)
    assert len(again["trials"]) == 3
    assert {one["trial"] for one in first["trials"]} <= {one["trial"] for one in again["trials"]}


def test_a_folder_with_a_study_is_not_overwritten(searched):
    _, folder = searched
    before = (folder / "journal.log").read_bytes()
    with pytest.raises(DataError, match="already holds a study; continue or join it with --resume"):
        tune(node_task(2), output=folder, prune=False, **QUICK)
    with pytest.raises(DataError, match=r"another study, with config\.epochs = 8 \(asked for: 9\)"):
        tune(node_task(2), output=folder, prune=False, resume=True, **{**QUICK, "epochs": 9})
    assert (folder / "journal.log").read_bytes() == before


@pytest.mark.parametrize("name", ["config.json", "portfolio.json", "state.pt"])
def test_the_folder_of_a_training_is_refused(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ArgumentError, match="'output' must not be the folder of a training"):
        tune(node_task(1), output=tmp_path, trials=1, **QUICK)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_search_does_not_wait_for_a_training(tmp_path):
    lock = FileLock(tmp_path / ".lock")  # of a training that has just begun in the same folder
    with ThreadPoolExecutor(1) as pool, lock:
        done = pool.submit(tune, node_task(1), output=tmp_path, trials=1, **QUICK)
        assert len(done.result(timeout=60)["trials"]) == 1


def test_a_search_without_a_complete_trial_says_why(tmp_path):
    task = node_task(1)
    search, source = make_search_of(task, trials=2, first_rung=1), find_source(task)
    header = search_header(search, source)
    queue = TrialQueue(tmp_path, search, header, resume=False)
    first = queue.claim()
    first.report(0.9, 1)
    assert not first.should_prune()
    queue.settle(first, Outcome(None, 1.0, 5, 0, "training diverged"))
    second = queue.claim()
    second.report(0.1, 1)
    assert second.should_prune()
    queue.settle(second, Outcome(None, 1.0, 1, 0))
    with pytest.raises(MgnniError, match=r"no trial .* the first failure: training diverged;"):
        make_result(queue, header, {})


@pytest.mark.parametrize("text", ["not a journal\nat all\n", "not a journal\nwithout an end"])
def test_a_journal_of_something_else_is_refused(tmp_path, text):
    (tmp_path / "journal.log").write_text(text)
    with pytest.raises(DataError, match="is not a journal of mgnni tune, or it is damaged"):
        tune(node_task(1), output=tmp_path, resume=True, **QUICK)
    assert (tmp_path / "journal.log").read_text() == text


@pytest.mark.parametrize(("make", "unit"), [(node_task, "epochs"), (graph_task, "runs")])
def test_trials_behind_at_a_rung_are_pruned(tmp_path, make, unit):
    task = make(splits=4)
    options = {"epochs": 8, "patience": None, "device": "cpu"}
    space = {"lr": [1e-6, 0.03, 0.1, 1e-5, 1e-4, 0.05]}
    result = tune(task, output=tmp_path, space=space, first_rung=1, **options)
    rungs = {"epochs": [1, 2, 4], "runs": [1, 2]}[unit]
    assert result["budget"]["rungs"] == {"unit": unit, "at": rungs, "reduction": 2}
    states = [one["state"] for one in result["trials"]]
    assert states == sorted(states), "complete trials come first, whatever their values"
    trials = sorted(result["trials"], key=lambda one: one["trial"])
    counts = {
        state: sum(one["state"] == state for one in trials) for state in ("pruned", "complete")
    }
    assert counts["pruned"] >= 1
    assert counts["complete"] >= 1
    assert sum(counts.values()) == 6
    for place, one in enumerate(trials):
        # By hand: at its last rung, a trial goes on if it is in the better half of those there.
        reached = {int(rung): value for rung, value in one["rungs"].items()}
        if one["state"] == "pruned":
            rung = max(reached)
            there = [final(other, rung) for other in trials[: place + 1]]
            there = sorted(value for value in there if value is not None)
            assert reached[rung] < there[-max(len(there) // 2, 1)]
            cost = rung * 4 if unit == "epochs" else rung * 8
            assert one["epochs"] == cost
        else:
            assert one["epochs"] == 32
    assert (
        result["chosen"]
        == max(
            (one for one in trials if one["state"] == "complete"),
            key=lambda one: (one["value"], -one["loss"]),
        )["params"]
    )


def final(trial: dict[str, Any], rung: int) -> float | None:
    """The value of a trial at a rung."""
    found: float | None = trial["rungs"].get(str(rung))
    return found


def test_a_trial_that_diverges_is_recorded_and_not_chosen(tmp_path):
    space = {"lr": [0.05, 1e25]}
    result = tune(node_task(1), output=tmp_path, space=space, device="cpu", **SMALL)
    assert result["chosen"] == {"lr": 0.05}
    (failed,) = [one for one in result["trials"] if one["state"] == "failed"]
    assert failed["params"] == {"lr": 1e25}
    assert failed["error"].startswith("training diverged")


def test_a_search_selects_by_the_metric_of_the_training(tmp_path):
    options = {"output": tmp_path, "lr": 0.02, "trials": 1, **QUICK}
    result = tune(node_task(1), class_weight="balanced", **options)
    assert result["metric"] == "balanced_accuracy"


def test_hyperparameters_that_are_given_are_not_searched(tmp_path):
    result = tune(node_task(1), output=tmp_path, lr=0.02, trials=1, **QUICK)
    assert set(result["chosen"]) == {"scales", "dropout"}
    assert result["config"]["lr"] == 0.02


def test_a_preset_file_is_a_preset(searched):
    result, folder = searched
    file = str(folder / "preset.json")
    chosen = changed(preset_for("nodes"), {**SMALL, **result["chosen"]})
    assert find_preset("anything", preset=file) == chosen
    fitted = fit(node_task(2), preset=file, split="all", device="cpu")
    assert fitted.config == chosen
    mean = sum(run["val"]["accuracy"] for run in fitted.report["runs"]) / 2
    assert mean == pytest.approx(result["validation"]["accuracy"], abs=1e-9)
    with pytest.raises(ArgumentError, match=r"'model' must be 'mgnni', .* leave it out"):
        fit(node_task(2), preset=file, model="gcn")


def test_a_stored_preset_is_found_by_its_model_and_data(searched, tmp_path, monkeypatch):
    monkeypatch.setattr(tuned, "STORED", tmp_path)
    with pytest.raises(ArgumentError, match=r"for no model and data .*`mgnni tune texas --model"):
        find_preset("texas", preset="tuned")
    (tmp_path / "mgnni-texas.json").write_text((searched[1] / "preset.json").read_text())
    chosen = changed(preset_for("nodes"), {**SMALL, **searched[0]["chosen"]})
    assert find_preset("texas", preset="tuned") == chosen
    with pytest.raises(ArgumentError, match=r"stored for mgnni-texas \(asked for: gcn-texas\)"):
        find_preset("texas", preset="tuned", model="gcn")


def test_every_stored_preset_is_whole():
    for name in tuned.stored():
        found = json.loads((tuned.STORED / f"{name}.json").read_text("utf-8"))
        assert name == f"{found['model']}-{found['dataset']}"
        chosen = tuned.tuned_config(found, name)
        assert chosen == changed(chosen, found["chosen"])
        assert chosen.architecture == found["model"]
        best = max(one["value"] for one in found["trials"] if one["state"] == "complete")
        assert found["validation"][found["metric"]] == best


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"command": "train", "config": {}}', "{", '{"command": "train"}']
)
def test_a_file_that_is_no_preset_is_refused(tmp_path, text):
    (tmp_path / "some.json").write_text(text)
    with pytest.raises(DataError, match=r"some\.json: .*preset\.json"):
        find_preset("texas", preset=str(tmp_path / "some.json"))


def test_the_space_of_mgnni_is_the_grid_of_its_paper():
    search = make_search(
        find_source(node_task(1)), config(), None, split=0, seed=0, trials=50, device="cpu"
    )
    assert len(search.points) == search.size == 24
    assert set(search.space) == set(space_for("mgnni")) == {"scales", "lr", "weight_decay"}
    graphs = make_search(
        find_source(graph_task()), config(), None, split=0, seed=0, trials=50, device="cpu"
    )
    assert len(graphs.points) == 8  # {1, 2} and {1, 3}, two learning rates, two weight decays


@pytest.mark.parametrize("model", ["gcn", "gmgnni"])
@pytest.mark.parametrize("directed", [False, True])
def test_the_direction_is_searched_on_directed_graphs_only(model, directed):
    source = find_source(node_task(1, directed=directed))
    space = make_search(
        source, preset_for("", model=model), split=0, seed=0, trials=3, device="cpu"
    ).space
    assert ("undirected" in space) == directed
    assert ("flow" in space) == (directed and model == "gcn")
    assert "lr" in space


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "must have a hyperparameter"),
        ({"lr": []}, "distinct values for lr"),
        ({"lr": [0.1, 0.1]}, "distinct values for lr"),
        ({"learning": [1]}, "unknown option 'learning'"),
        ({"lr": ["high"]}, "'config.lr' must be of type float"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(tmp_path, space, message):
    with pytest.raises(ArgumentError, match=message):
        tune(node_task(1), output=tmp_path / "new", space=space, device="cpu")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("text", ["{", "[1]", '{"lr": 0.1}'])
def test_a_file_that_is_no_space_is_refused(tmp_path, text):
    (tmp_path / "space.json").write_text(text)
    with pytest.raises(DataError, match=r"space\.json: must hold"):
        read_space(tmp_path / "space.json")
