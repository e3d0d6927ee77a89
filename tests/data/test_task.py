from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.split import Split
from mgnni.data.task import Task, all_labels
from mgnni.errors import ArgumentError, DataError

NAN = float("nan")


def split_of(train: list[int], val: list[int], test: list[int]) -> Split:
    return Split.of(torch.tensor(train), torch.tensor(val), torch.tensor(test))


def graph(nodes: int, **extra: Tensor) -> Data:
    """A directed path with two features."""
    edge_index = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    return Data(x=torch.randn(nodes, 2), edge_index=edge_index, **extra)


# Nodes 3 and 6 are unlabelled, node 7 is in no part.
LABELS = torch.tensor([0, 1, 2, -1, 1, 0, -1, 2])
SPLITS = (split_of([0, 1, 3], [2, 4], [5, 6]), split_of([4, 5], [0], [1, 2]))


def node_task(labels: Tensor = LABELS, **options) -> Task:
    return Task("path", [graph(8, y=labels)], labels, SPLITS, "abc", **options)


def inductive_task() -> Task:
    """Three graphs of 2, 3 and 1 nodes, two labels a node; the second node has none."""
    labels = torch.tensor([[1, 0], [NAN, NAN], [0, 0], [0, 1], [1, 1], [0, 1]])
    graphs = [graph(2), graph(3), graph(1)]
    return Task("three", graphs, labels, [split_of([0, 2], [], [1])], ["x", "y"])


def test_what_a_task_says_of_itself():
    task = node_task(notes=["a trap"])
    assert (task.unit, task.num_units, task.num_rows, task.num_features) == ("node", 8, 8, 2)
    assert (task.metric, task.multilabel, task.notes) == ("accuracy", False, ("a trap",))
    assert task.classes == ("a", "b", "c")
    assert repr(task) == "Task('path', 1 graphs, 8 nodes, 3 classes, 2 splits, accuracy)"
    three = inductive_task()
    assert (three.unit, three.num_units, three.num_rows) == ("graph", 3, 6)
    assert (three.metric, three.multilabel) == ("micro_f1", True)


def test_rows_are_the_labelled_ones():
    task = node_task()
    assert [task.rows(0, part).tolist() for part in ("train", "val", "test")] == [
        [0, 1],
        [2, 4],
        [5],
    ]
    assert task.targets(0, "train").tolist() == [0, 1]
    assert task.targets(0, "val").tolist() == [2, 1]
    assert task.targets(1, "train").tolist() == [1, 0]


def test_rows_of_several_graphs_are_those_of_their_nodes():
    task = inductive_task()
    assert task.rows(0, "train").tolist() == [0, 5]  # nodes 0 and 1 of graph 0, node 5 of graph 2
    assert task.rows(0, "val").tolist() == []
    assert task.rows(0, "test").tolist() == [2, 3, 4]
    assert task.targets(0, "train").tolist() == [[1, 0], [0, 1]]
    assert task.targets(0, "val").shape == (0, 2)
    scores = torch.tensor([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])
    found = task.evaluate(scores, 0, "test")
    assert found == pytest.approx(
        {"accuracy": 5 / 6, "micro_f1": 4 / 5, "macro_f1": (1 + 2 / 3) / 2}
    )


def test_one_label_a_graph():
    graphs = [graph(2), graph(3), graph(1), graph(4)]
    labels = torch.tensor([0, 1, 1, -1])
    task = Task("four", graphs, labels, [split_of([0, 2, 3], [], [1])], "ab", level="graph")
    assert (task.unit, task.num_units, task.num_rows) == ("graph", 4, 4)
    assert task.rows(0, "train").tolist() == [0, 2]
    assert task.targets(0, "train").tolist() == [0, 1]
    assert task.evaluate(torch.tensor([[0.0, 1.0]]), 0, "test")["accuracy"] == 1.0


@pytest.mark.parametrize("part", ["test", "Test", "all", "", None, 2, slice(None)])
def test_targets_of_the_test_are_refused(part):
    with pytest.raises(ArgumentError, match=r"'part' must be 'train' or 'val' .*evaluate only"):
        node_task().targets(0, part)


def test_graphs_hold_nothing_but_features_and_edges():
    data = graph(8, y=LABELS, test_mask=LABELS >= 0, edge_weight=torch.rand(7), secret=LABELS)
    task = Task("path", [data], LABELS, SPLITS, "abc")
    assert sorted(task.graphs[0].keys()) == ["edge_index", "edge_weight", "num_nodes", "x"]
    assert sorted(node_task().graphs[0].keys()) == ["edge_index", "num_nodes", "x"]
    assert "y" in data  # what was given is left as it was
    same = task.with_graphs([data])
    assert sorted(same.graphs[0].keys()) == sorted(task.graphs[0].keys())


def test_no_public_name_gives_a_test_label():
    """Whatever a task shows before an evaluation is the same for other test labels."""
    other = LABELS.clone()
    other[5] = 2  # of split 0, a test label and nothing else
    tasks = [Task("path", [graph(8)], y, SPLITS[:1], "abc") for y in (LABELS, other)]
    shown = []
    for task in tasks:
        names = [name for name in dir(task) if not name.startswith("_")]
        plain = {
            name: repr(getattr(task, name)) for name in names if not callable(getattr(task, name))
        }
        parts = {part: task.rows(0, part).tolist() for part in ("train", "val", "test")}
        targets = {part: task.targets(0, part).tolist() for part in ("train", "val")}
        shown.append((plain, parts, targets))
    assert shown[0] == shown[1]
    scores = torch.tensor([[1.0, 0.0, 0.0]])
    assert [task.evaluate(scores, 0, "test")["accuracy"] for task in tasks] == [1.0, 0.0]


def test_permuting_test_labels_moves_no_target():
    labels = torch.arange(60) % 3
    split = Split.of(*(torch.arange(60) % 4 == part for part in (0, 1, 2)))
    permuted = labels.clone()
    permuted[split.test] = labels[split.test].roll(1)
    one, two = (Task("many", [graph(60)], y, [split], "abc") for y in (labels, permuted))
    for part in ("train", "val"):
        assert torch.equal(one.targets(0, part), two.targets(0, part))
    scores = torch.nn.functional.one_hot(labels[split.test], 3).float()
    assert one.evaluate(scores, 0, "test")["accuracy"] == 1.0
    assert two.evaluate(scores, 0, "test")["accuracy"] == 0.0


def test_writing_to_targets_changes_no_label():
    task = node_task()
    task.targets(0, "train").fill_(2)
    assert task.targets(0, "train").tolist() == [0, 1]


def test_looks_at_the_test_are_counted():
    task = node_task()
    scores = torch.randn(8, 3)
    for part in ("train", "val"):
        task.evaluate(scores[task.rows(0, part)], 0, part)
    assert task.test_evaluations == [0, 0]
    for _ in range(3):
        task.evaluate(scores[task.rows(1, "test")], 1, "test")
    assert task.test_evaluations == [0, 3]
    # A transformed graph has the same test; other splits are other tests.
    task.with_graphs([graph(8)]).evaluate(scores[task.rows(0, "test")], 0, "test")
    assert task.test_evaluations == [1, 3]
    assert task.with_splits(SPLITS[:1]).test_evaluations == [0]
    for other in (copy.deepcopy(task), pickle.loads(pickle.dumps(task))):
        assert other.test_evaluations == [1, 3]
        assert other.targets(0, "train").tolist() == [0, 1]


def test_evaluate_measures_logits_that_carry_gradients():
    task = node_task()
    scores = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], requires_grad=True)
    assert task.evaluate(scores, 0, "val")["accuracy"] == 0.5
    with pytest.raises(ArgumentError, match=r"2 labelled rows of val \(got 8\)"):
        task.evaluate(torch.zeros(8, 3), 0, "val")
    with pytest.raises(ArgumentError, match="did you mean 'val'"):
        task.evaluate(scores, 0, "vall")


def test_a_metric_that_is_undefined_is_an_error_and_not_a_missing_key():
    labels = torch.tensor([0, 0, 0, 1, 0, 1])
    split = split_of([0, 1], [2, 3], [4, 5])
    task = Task("two", [graph(6)], labels, [split], "ab", metric="roc_auc")
    assert task.evaluate(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), 0, "test")["roc_auc"] == 1.0
    with pytest.raises(DataError, match="two, split 0: roc_auc is undefined on train"):
        task.evaluate(torch.zeros(2, 2), 0, "train")
    # Where it will be needed, that is said before a training and not after it.
    task.check_metric(0)
    with pytest.raises(DataError, match="two, split 0: roc_auc is undefined on val"):
        task.with_splits([split_of([2, 3], [0, 1], [4, 5])]).check_metric(0)
    with pytest.raises(ArgumentError, match=r"roc_auc needs .* two classes \(got 3 classes\)"):
        node_task(metric="roc_auc")
    with pytest.raises(ArgumentError, match="did you mean 'accuracy'"):
        node_task(metric="acuracy")


def test_changed_tasks_keep_the_rest():
    task = node_task(metric="macro_f1", notes=["a trap"])
    other = task.with_splits([split_of([7], [], [0])])
    assert (other.metric, other.notes, other.name) == ("macro_f1", ("a trap",), "path")
    assert other.targets(0, "train").tolist() == [2]
    assert torch.equal(all_labels(other), LABELS)
    with pytest.raises(DataError, match="got 8 labels for 9 nodes"):
        task.with_graphs([graph(9)])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (torch.tensor([0, 1, 2, 3, 0, 0, 0, 0]), "below 3"),
        (torch.arange(8.0) % 2, "below 3"),
        (torch.tensor([[0.0, 1.0, NAN]] * 8), "3 columns of 0 and 1"),
        (torch.tensor([[0.0, 1.0, 0.5]] * 8), "3 columns of 0 and 1"),
        (torch.zeros(8, 2), "3 columns of 0 and 1"),
    ],
)
def test_labels_that_are_no_classes(labels, expected):
    with pytest.raises(DataError, match=f"path: labels must be .*{expected}"):
        node_task(labels)


def test_bad_data():
    with pytest.raises(DataError, match="no graphs"):
        Task("none", [], torch.zeros(0), [], "ab")
    with pytest.raises(DataError, match="got 7 labels for 8 nodes"):
        node_task(LABELS[:7])
    with pytest.raises(ArgumentError, match="'level' must be one of"):
        node_task(level="edge")
    with pytest.raises(DataError, match="path, split 1: train, val and test must not overlap"):
        node_task().with_splits([SPLITS[0], split_of([0], [0], [1])])
    with pytest.raises(DataError, match=r"three, split 0: .* from 0 to 2 .got 5"):
        inductive_task().with_splits([split_of([0], [5], [1])])  # units are graphs, not nodes
    with pytest.raises(DataError, match="path, split 0: no row of the training set has a label"):
        node_task().with_splits([split_of([3, 6], [0], [1])])
