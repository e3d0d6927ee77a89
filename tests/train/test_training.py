"""What a training may look at, what it leaves behind, and how it goes on after a break."""

from __future__ import annotations

import math

import pytest
import torch

from mgnni.data.rules import get_rule
from mgnni.data.split import Split
from mgnni.data.task import Task, all_labels
from mgnni.errors import DataError, MgnniError
from mgnni.train.node_learner import NodeLearner
from mgnni.train.runs import Run
from train.cases import (
    assert_same_bits,
    by_run,
    config,
    differ,
    graph_task,
    inductive_task,
    losses,
    node_task,
    runs,
    stored,
    trained,
    training,
)


def remade(task: Task, split: int, labels: torch.Tensor) -> Task:
    """The same task with one of its splits and other labels."""
    return Task(
        task.name,
        task.graphs,
        labels,
        [task.splits[split]],
        task.classes,
        level=task.level,
        metric=task.metric,
    )


def pair_of_tasks(task: Task, split: int) -> tuple[Task, Task]:
    """A task, and the same with every test label another one."""
    rows = task.rows(split, "test")
    labels = all_labels(task).clone()
    labels[rows] = 1 - labels[rows] if task.multilabel else (labels[rows] + 1) % len(task.classes)
    return remade(task, split, all_labels(task)), remade(task, split, labels)


def looks_at_test_labels(task: Task, **options) -> bool:
    """Whether a training depends on test labels, other than by its test metrics."""
    seen = []
    for split in range(len(task.splits)):
        (one,), (other,) = (
            trained(each, config(**options), runs()).finished for each in pair_of_tasks(task, split)
        )
        same = (one.selected_epoch, one.val, one.epochs) == (
            other.selected_epoch,
            other.val,
            other.epochs,
        )
        if differ(one.weights, other.weights) or not same:
            return True
        seen.append(one.test != other.test)
    assert any(seen)  # the labels were other ones
    return False


TASKS = {
    "nodes": lambda: node_task(3),
    "several labels": lambda: node_task(3, multilabel=True),
    "macro F1": lambda: node_task(3, metric="macro_f1"),
    "graphs": lambda: graph_task(splits=2),
    "inductive": inductive_task,
}


@pytest.mark.parametrize("name", TASKS)
def test_no_test_label_is_looked_at_by_training_or_selection(name):
    assert not looks_at_test_labels(TASKS[name](), patience=5, lr=0.05, epochs=12)


def leak_into_training(monkeypatch):
    honest = NodeLearner._part

    def leaky(self, part):
        labels, weight = honest(self, part)
        if part == "train":
            rows = self.task.rows(0, "test")
            labels[0, rows] = all_labels(self.task)[rows]
            weight[0, rows] = 1e-3
        return labels, weight

    monkeypatch.setattr(NodeLearner, "_part", leaky)


def leak_into_selection(monkeypatch):
    def leaky(self):
        scores = self.scores("test")
        return [
            (0.0, self.task.evaluate(score, run.split, "test")["accuracy"])
            for run, score in zip(self.runs, scores, strict=True)
        ]

    monkeypatch.setattr(NodeLearner, "validate", leaky)


@pytest.mark.parametrize("leak", [leak_into_training, leak_into_selection])
def test_a_planted_leak_is_found(monkeypatch, leak):
    leak(monkeypatch)
    assert looks_at_test_labels(node_task(3), patience=5, lr=0.05, epochs=12)


@pytest.mark.parametrize("name", TASKS)
def test_test_labels_are_used_once_a_run(name):
    task = TASKS[name]()
    which = runs(len(task.splits), 2)
    trained(task, config(epochs=4, patience=2, lr=0.1), which)
    assert task.test_evaluations == [2] * len(task.splits)


def test_a_planted_look_at_the_test_part_is_counted(monkeypatch):
    leak_into_selection(monkeypatch)
    task = node_task(1)
    trained(task, config(epochs=4), runs())
    assert task.test_evaluations == [5]


@pytest.mark.parametrize("rule", ["gin", "fold-max", "test-max"])
@pytest.mark.parametrize("name", ["nodes", "graphs"])
def test_rules_that_look_at_test_curves(name, rule):
    task = TASKS[name]()
    splits = len(task.splits)
    made = trained(task, config(epochs=9, patience=1, lr=0.1), runs(splits), rule=rule)
    finished = [by_run(made)[run] for run in runs(splits)]
    curves = [one.test_curve for one in finished]
    assert [one.epochs for one in finished] == [9] * splits  # patience does not stop them
    assert [len(curve) for curve in curves] == [9] * splits
    assert task.test_evaluations == [10] * splits
    assert len({tuple(curve) for curve in curves}) == splits  # each its own
    for one in finished:
        assert one.test["accuracy"] == one.test_curve[one.selected_epoch - 1]

    score = get_rule(rule).score([one.history("accuracy") for one in finished])
    if rule == "gin":
        means = [sum(values) / splits for values in zip(*curves, strict=True)]
        best = max(range(9), key=lambda epoch: round(means[epoch], 9))
        wanted = [curve[best] for curve in curves]
    else:
        wanted = [max(curve) for curve in curves]
    assert list(score.values) == wanted


def test_the_curve_is_that_of_the_weights_of_each_epoch():
    task = node_task(1)
    curve = trained(task, config(epochs=6, lr=0.1), runs(), rule="gin").finished[0].test_curve
    for epochs in (1, 3, 6):
        # The last of so many epochs: without patience and without validation it is the one kept.
        split = Split.of(task.splits[0].train, torch.tensor([]), task.splits[0].test)
        alone = trained(
            task.with_splits([split]), config(epochs=epochs, lr=0.1), runs(), rule="test-max"
        ).finished[0]
        assert alone.selected_epoch == epochs
        assert alone.test["accuracy"] == curve[epochs - 1]


def test_without_a_validation_part_gin_works_and_validation_is_refused():
    task = graph_task(val=False)
    made = trained(task, config(epochs=3, head="graph"), runs(2), rule="gin")
    assert [one.val for one in made.finished] == [{}, {}]
    assert [one.selected_epoch for one in made.finished] == [3, 3]
    assert all(row["val_loss"] == row["val_metric"] == [] for row in made.log)
    with pytest.raises(DataError, match=r"rings, split 0: rule 'validation' needs .* move some"):
        training(task, config(), runs(2))


def test_a_validation_part_without_labels_is_none():
    task = node_task(1)
    labels = all_labels(task).clone()
    labels[task.splits[0].val] = -1
    with pytest.raises(DataError, match="needs labelled validation rows"):
        training(remade(task, 0, labels), config(), runs())


def test_where_only_some_splits_can_be_validated_none_is():
    task = node_task(2)
    first, second = task.splits
    bare = Split.of(second.train, torch.tensor([]), second.test)
    made = trained(task.with_splits([first, bare]), config(epochs=3), runs(2), rule="fold-max")
    assert [one.val for one in made.finished] == [{}, {}]
    assert [one.selected_epoch for one in made.finished] == [3, 3]


def test_a_test_part_without_labels_is_refused():
    task = node_task(1)
    labels = all_labels(task).clone()
    labels[task.splits[0].test] = -1
    with pytest.raises(DataError, match="the test set has no labelled rows"):
        training(remade(task, 0, labels), config(), runs())


def test_what_is_heard_is_what_is_logged():
    heard = []
    made = training(node_task(2), config(epochs=30, patience=2, lr=0.1), runs(2, 2))
    made.run(heard.append, lambda: None)
    assert [epoch.row() for epoch in heard] == made.log
    assert [epoch.epoch for epoch in heard] == list(range(1, len(heard) + 1))
    assert heard[0].runs == list(runs(2, 2))
    assert (heard[0].group, heard[0].groups, heard[0].epochs) == (0, 1, 30)
    assert len(heard[-1].runs) < 4  # some had stopped
    for epoch in heard:
        assert epoch.finished + len(epoch.runs) == 4
        for now, best in zip(epoch.val_metric, epoch.best_metric, strict=True):
            assert now <= best
    ends = {run: len(rows) for run, rows in losses(made).items()}
    assert ends == {one.run: one.epochs for one in made.finished}


def test_the_weights_are_those_of_the_selected_epoch():
    task = node_task(1)
    (long,) = trained(task, config(epochs=15, lr=0.1, stopping="loss"), runs()).finished
    assert 1 < long.selected_epoch < 15  # neither end, where a mistake would not show
    options = {"epochs": long.selected_epoch, "lr": 0.1, "stopping": "loss"}
    (short,) = trained(task, config(**options), runs()).finished
    assert_same_bits(long.weights, short.weights)
    assert (long.val, long.test) == (short.val, short.test)


def test_the_size_of_a_run():
    made = training(node_task(1), config(hidden_channels=7, scales=(1, 2, 5)), runs())
    assert made.experiment.size == 40 * 7 * 3
    as_wide_as_features = config(hidden_channels=None, input_map="identity")
    assert training(node_task(1), as_wide_as_features, runs()).experiment.size == 40 * 5 * 2
    graphs = training(graph_task(20), config(batch_size=5), runs())  # 100 nodes in 20 graphs
    assert graphs.experiment.size == 25 * 6 * 2


def test_one_epoch_is_a_training():
    (one,) = trained(node_task(1), config(epochs=1, patience=1), runs()).finished
    assert (one.epochs, one.selected_epoch) == (1, 1)


RESUMED = {
    "stopping early": (lambda: node_task(2), {"batch_norm": True, "patience": 2, "lr": 0.1}, 2),
    "cosine": (lambda: node_task(2, features="sparse"), {"schedule": "cosine", "clip": 0.1}, 1),
    "groups": (lambda: node_task(2), {"together": False, "epochs": 4}, 1),
    "graphs": (graph_task, {"batch_size": 4, "head": "graph", "epochs": 4}, 1),
    "fixed batches": (inductive_task, {"batch_size": 2, "shuffle": False, "epochs": 4}, 2),
}


@pytest.mark.parametrize(
    ("name", "rule"),
    [*((name, "validation") for name in RESUMED), ("stopping early", "gin"), ("groups", "gin")],
)
def test_from_every_epoch_it_goes_on_as_if_nothing_had_been(name, rule):
    make, options, seeds = RESUMED[name]
    options = dict(options)
    together = options.pop("together", True)
    task = make()
    chosen = config(**{"epochs": 6, **options})

    def fresh():
        return training(task, chosen, runs(len(task.splits), seeds), rule, together)

    states = []
    whole = fresh()
    whole.run(lambda epoch: None, lambda: states.append(stored(whole.state())))
    assert len(states) == len(whole.log)
    for state in states:
        other = fresh()
        other.load_state(state)
        other.run(lambda epoch: None, lambda: None)
        assert other.log == whole.log
        assert other.certificates == whole.certificates
        assert [one.run for one in other.finished] == [one.run for one in whole.finished]
        for a, b in zip(other.finished, whole.finished, strict=True):
            assert_same_bits(a.weights, b.weights)
            for key in ("selected_epoch", "epochs", "val", "test", "test_curve"):
                assert getattr(a, key) == getattr(b, key)


def test_a_seed_and_a_split_change_what_they_should():
    task = node_task(2)

    def weights(run):
        return trained(task, config(epochs=4), [run]).finished[0].weights

    first = weights(Run(0, 0))
    torch.manual_seed(99)
    assert_same_bits(first, weights(Run(0, 0)))
    assert differ(first, weights(Run(0, 1)))
    assert differ(first, weights(Run(1, 0)))


@pytest.mark.parametrize("rule", ["validation", "gin"])
@pytest.mark.parametrize("lr", [1e19, 1e25, 1e37])
def test_a_training_that_diverges_says_so(lr, rule):
    made = training(node_task(2), config(lr=lr), runs(2), rule)
    with pytest.raises(
        MgnniError, match=r"^training diverged: .* split \d, seed 0 .* epoch \d+; lower lr .*clip$"
    ):
        made.run(lambda epoch: None, lambda: None)


def test_the_run_that_diverged_is_named(monkeypatch):
    task = node_task(2)
    honest = NodeLearner.train_epoch

    def poisoned(self, epoch):
        loss = honest(self, epoch)
        if epoch == 3:
            with torch.no_grad():
                self.ensemble.stacks[0][1].fill_(math.nan)
        return loss

    monkeypatch.setattr(NodeLearner, "train_epoch", poisoned)
    with pytest.raises(MgnniError, match="weights of split 1, seed 0 overflowed in epoch 3"):
        trained(task, config(), runs(2))

    def lost(self, epoch):
        return [0.5, 0.5 if epoch < 4 else math.inf]

    monkeypatch.setattr(NodeLearner, "train_epoch", lost)
    with pytest.raises(MgnniError, match="the loss of split 1, seed 0 overflowed in epoch 4"):
        trained(task, config(), runs(2))


def test_features_that_are_not_finite_are_not_called_divergence():
    task = node_task(1)
    task.graphs[0].x[4, 2] = math.inf
    with pytest.raises(MgnniError, match=r"'x' must be finite \(got inf at row 4, column 2\)"):
        trained(task, config(), runs())


def one_class_in(task: Task, part: str) -> Task:
    """A task of two classes whose part has one of them."""
    labels = all_labels(task) % 2
    labels[task.splits[0].part(part)] = 0
    return Task("two", task.graphs, labels, task.splits, "ab", metric="roc_auc")


@pytest.mark.parametrize("part", ["val", "test"])
def test_a_metric_that_is_undefined_is_an_error(part):
    with pytest.raises(DataError, match=f"two, split 0: roc_auc is undefined on {part}"):
        trained(one_class_in(node_task(1), part), config(epochs=2), runs())
