import json
import math
import os
import re
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix
from torch_geometric.data import Data

import mgnni
import mgnni.train.report as module
from mgnni.data.rules import RULES
from mgnni.data.split import Split
from mgnni.data.task import Task, all_labels
from mgnni.files import to_json
from mgnni.train.device import make_fabric
from mgnni.train.ensemble import build_model
from mgnni.train.experiment import Experiment
from mgnni.train.report import commit, describe, device_name, fingerprint, make_report, versions
from mgnni.train.runs import Run
from mgnni.train.source import find_source
from mgnni.train.training import Training
from train.cases import config, graph_task, inductive_task, node_data, node_task, runs, trained


def report_of(task=None, rule="validation", which=None, **options):
    task = task or node_task(2)
    which = which or runs(len(task.splits))
    return make_report(trained(task, config(epochs=4, **options), which, rule), 1.5)


def test_all_that_a_report_must_hold():
    report = report_of(which=runs(2, 2), batch_norm=True)
    assert (report["model"], report["dataset"], report["metric"]) == ("mgnni", "nodes", "accuracy")
    assert report["protocol"]["rule"] == "validation"
    assert report["protocol"]["honest"] is True
    assert report["config"]["epochs"] == 4
    assert report["config"]["model"]["batch_norm"] is True
    assert report["seconds"] == 1.5
    assert report["device"].startswith("cpu")
    assert report["versions"]["torch"] == torch.__version__
    assert "commit" in report
    assert [(run["split"], run["seed"]) for run in report["runs"]] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    for run in report["runs"]:
        assert 1 <= run["best_epoch"] <= run["epochs"] == 4
        assert run["reported"] == {"epoch": run["best_epoch"], "accuracy": run["test"]["accuracy"]}
        names = {"accuracy", "micro_f1", "macro_f1", "balanced_accuracy"}
        assert set(run["val"]) == set(run["test"]) == names
        assert "test_curve" not in run
    for way in ("forward", "backward"):
        solver = report["solver"][way]
        assert solver["failures"] == 0
        assert solver["solves"] > 0
        assert 0 < solver["iterations"]
        assert 0 < solver["relative_residual"] <= 1e-6
        assert 0 < solver["error_bound"] < 1e-3
    values = [run["test"]["accuracy"] for run in report["runs"]]
    assert report["score"]["n"] == 4
    assert report["score"]["mean"] == pytest.approx(sum(values) / 4)
    mean = sum(values) / 4
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 3)
    assert report["score"]["std"] == pytest.approx(spread)


def test_the_confusion_matrix_is_that_of_scikit_learn():
    task = node_task(2)
    labels, graph = all_labels(task), task.graphs[0]
    training = trained(task, config(epochs=4), runs(2))
    report = make_report(training, 1.5)
    expected = np.zeros((3, 3), dtype=int)
    for one in training.results():
        model = build_model(training.config, task.num_features, 3, "node")
        model.load_state_dict(one.weights)
        with torch.no_grad():
            predicted = model.eval()(graph.x, graph.edge_index).argmax(1)
        rows = task.rows(one.run.split, "test")
        expected += confusion_matrix(labels[rows], predicted[rows], labels=[0, 1, 2])
    assert report["confusion"] == {"classes": ["a", "b", "c"], "counts": expected.tolist()}
    assert not np.array_equal(expected, expected.T)  # a transposed one would be noticed
    assert task.test_evaluations == [1, 1]
    assert "confusion" not in report_of(node_task(2, multilabel=True))


def test_the_options_of_the_data_are_in_the_report():
    options = {"length": 5, "num_chains_per_class": 4}
    source = find_source("chains", options=options)
    experiment = Experiment(source, config(epochs=1), (Run(0, 0),), device="cpu")
    training = Training(experiment, make_fabric("cpu", "32"))
    training.run(lambda epoch: None, lambda: None)
    report = make_report(training, 1.0)
    assert report["input"] == {"data": "chains", "options": options}
    assert report["peak_memory"] > 2**20
    assert report_of()["input"] == {"data": "here"}


def test_lists_of_numbers_are_written_on_one_line():
    data = {"a": [1, 2.5, None], "b": [[1], []], "c": ["x [1,\n 2]"], "d": [{"e": [True]}]}
    text = to_json(data)
    assert json.loads(text) == data
    assert '"a": [1, 2.5, null],\n' in text
    assert '"e": [true]\n' in text


def test_parameters_are_those_that_are_learnt():
    with_norm, without = (report_of(batch_norm=norm)["parameters"] for norm in (True, False))
    assert with_norm - without == 2 * 6  # scale and shift, and no running statistics


def test_runs_are_in_the_order_they_were_asked_for():
    which = (Run(1, 3), Run(0, 0), Run(1, 0))
    report = report_of(which=which, patience=1, lr=0.1)  # they end in another one
    assert [(run["split"], run["seed"]) for run in report["runs"]] == [(1, 3), (0, 0), (1, 0)]


@pytest.mark.parametrize("rule", [name for name in RULES if name != "validation"])
def test_rules_that_look_at_the_test_part_are_marked(rule):
    report = report_of(rule=rule)
    assert report["protocol"]["honest"] is False
    assert report["protocol"]["mark"] == RULES[rule].mark != ""
    for run in report["runs"]:
        epoch = run["reported"]["epoch"]
        assert len(run["test_curve"]) == 4
        assert run["reported"]["accuracy"] == run["test_curve"][epoch - 1]
    assert report["score"]["mean"] == pytest.approx(
        sum(run["reported"]["accuracy"] for run in report["runs"]) / 2
    )


@pytest.mark.parametrize("task", [node_task(1), graph_task(splits=1), inductive_task()], ids=repr)
def test_a_report_is_json_and_comes_back(task):
    report = report_of(task)
    text = to_json(report)
    assert text.endswith("}\n")
    again = json.loads(text)
    assert to_json(again) == text
    assert len(set(again["data"].pop("split_fingerprints"))) == len(task.splits)
    assert again["data"] == json.loads(json.dumps(describe(task)))


def test_json_without_words_for_what_is_not_finite():
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_json({"value": value})


def test_json_of_dataclasses_and_of_nothing_else():
    @dataclass
    class Pair:
        a: int
        b: str

    assert json.loads(to_json({"pair": Pair(1, "ä")})) == {"pair": {"a": 1, "b": "ä"}}
    for odd in (object(), Pair, torch.zeros(1)):
        with pytest.raises(TypeError, match="cannot write"):
            to_json({"odd": odd})


def test_what_the_data_were():
    found = describe(node_task(3))
    assert (found["graphs"], found["nodes"], found["features"], found["classes"]) == (1, 40, 5, 3)
    assert found["edges"] == node_data()[0].edge_index.size(1)
    assert (found["level"], found["splits"]) == ("node", 3)
    assert found["notes"] == []


def changed_tasks() -> dict[str, Task]:
    """Tasks that differ from ``node_task(2)`` in one thing each."""
    task = node_task(2)
    labels, splits = all_labels(task), list(task.splits)

    def remade(graph=None, new_labels=None, new_splits=None, name="nodes", classes="abc"):
        return Task(
            name,
            [graph or task.graphs[0]],
            labels if new_labels is None else new_labels,
            splits if new_splits is None else new_splits,
            classes,
        )

    def graph(**changes):
        data = task.graphs[0].clone()
        for key, value in changes.items():
            data[key] = value
        return data

    x, edges = task.graphs[0].x, task.graphs[0].edge_index
    touched = x.clone()
    touched[7, 3] += 1e-6
    rewired = edges.clone()
    rewired[1, 5] = (rewired[1, 5] + 1) % 40
    found = {
        "a feature": remade(graph(x=touched)),
        "the type of the features": remade(graph(x=x.double())),
        "an edge": remade(graph(edge_index=rewired)),
        "an edge less": remade(graph(edge_index=edges[:, 1:])),
        "an edge weight": remade(graph(edge_weight=torch.ones(edges.size(1)))),
        "a name": remade(name="other"),
        "a class": remade(classes="abd"),
        "a split less": remade(new_splits=splits[:1]),
        "the order of splits": remade(new_splits=splits[::-1]),
    }
    first = splits[0]
    moved = Split.of(first.train[1:], torch.cat([first.val, first.train[:1]]), first.test)
    found["a node from training to validation"] = remade(new_splits=[moved, splits[1]])
    fewer = Split.of(first.train, first.val, first.test[1:])
    found["a test node less"] = remade(new_splits=[fewer, splits[1]])
    return found


def test_a_fingerprint_changes_with_anything():
    found = {name: fingerprint(task) for name, task in changed_tasks().items()}
    found["nothing"] = fingerprint(node_task(2))
    assert len(set(found.values())) == len(found), found
    assert fingerprint(node_task(2)) == found["nothing"]
    assert all(len(value) == 16 for value in found.values())


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_fingerprint_tells_labels_of_training_and_validation_and_no_others(part):
    task = node_task(1)
    labels = all_labels(task).clone()
    row = task.rows(0, part)[0]
    labels[row] = (labels[row] + 1) % 3
    other = Task("nodes", task.graphs, labels, task.splits, "abc")
    assert (fingerprint(other) == fingerprint(task)) is (part == "test")


def test_a_fingerprint_is_of_values_and_not_of_how_they_lie():
    task = node_task(1)
    other = task.graphs[0].clone()
    other.x = other.x.T.contiguous().T  # another stride
    assert fingerprint(task.with_graphs([other])) == fingerprint(task)


def test_an_empty_graph_has_a_fingerprint():
    none = torch.from_numpy(np.empty((2, 0), dtype=np.int64))  # with strides of its own
    graphs = [
        Data(x=torch.ones(2, 1), edge_index=none),
        Data(x=torch.ones(0, 1), edge_index=none, edge_weight=torch.ones(1).expand(1)[1:]),
        Data(x=torch.ones(1, 1), edge_index=none, edge_weight=torch.ones(1).expand(3)[3:]),
        Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 1, dtype=torch.long)),
    ]
    assert graphs[2].edge_weight.stride() == (0,), "as in a column that was sorted out"
    split = Split.of(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    task = Task("few", graphs, torch.tensor([0, 1, 0, 1]), [split], "ab", level="graph")
    assert fingerprint(task) != fingerprint(task.with_graphs([graphs[3], *graphs[1:]]))


def test_the_versions_that_decide():
    found = versions()
    assert found["mgnni"] == mgnni.__version__
    assert found["torch"] == torch.__version__
    assert set(found) == {"mgnni", "python", "torch", "torch_geometric", "numpy"}


def git(folder, *command):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *command], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_commit_is_that_of_the_source(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # as in a hook
        monkeypatch.delenv(name)
    package = tmp_path / "src"
    package.mkdir()
    source = package / "report.py"
    source.write_text("one\n")
    monkeypatch.setattr(module, "__file__", str(source))
    assert commit() is None  # no history at all
    git(tmp_path, "init", "--quiet")
    (tmp_path / "notes").write_text("of somebody else\n")
    git(tmp_path, "add", "notes")
    git(tmp_path, "commit", "--quiet", "-m", "another project")
    assert commit() is None  # installed below a project that is not ours
    git(tmp_path, "add", "src")
    git(tmp_path, "commit", "--quiet", "-m", "ours")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert re.fullmatch("[0-9a-f]{40}", head)
    assert commit() == head
    (tmp_path / "notes").write_text("changed, but not what is run\n")
    assert commit() == head
    source.write_text("two\n")
    assert commit() == head + "+"


def test_without_git_there_is_no_commit(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert commit() is None


def test_what_a_device_is_called():
    assert device_name(torch.device("cpu")) in (
        "cpu (1 thread)",
        f"cpu ({torch.get_num_threads()} threads)",
    )
    assert device_name(torch.device("meta")) == "meta"
