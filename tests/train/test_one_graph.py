import pytest
import torch
from sklearn.metrics import log_loss

from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.train.learner import Learner
from mgnni.train.one_graph import NodeLearner
from train.cases import EXACT, config, node_data, node_task, runs, trained, training


def begun(task, chosen, which) -> NodeLearner:
    made = training(task, chosen, which)
    made._begin(which)
    assert isinstance(made.learner, NodeLearner)
    return made.learner


def test_a_run_is_given_the_labels_of_its_own_part_and_no_other():
    task = node_task(2)
    learner = begun(task, config(), runs(2))
    for part in ("train", "val"):
        labels, weight = learner.parts[part]
        for place in range(2):
            rows = learner.place[task.rows(place, part)]
            outside = torch.ones(task.num_rows, dtype=torch.bool)
            outside[rows] = False
            assert (labels[place, rows] == task.targets(place, part)).all()
            assert (labels[place, outside] == 0).all()
            assert (weight[place, outside] == 0).all()
            assert float(weight[place].sum()) == pytest.approx(1)
    assert set(learner.parts) == {"train", "val"}


def test_the_loss_is_the_mean_over_the_labelled_training_nodes():
    task = node_task(2)
    learner = begun(task, config(**EXACT, dropout=0.0), runs(2))
    before = learner.scores("train")
    found = learner.train_epoch(1)
    for split, (loss, logits) in enumerate(zip(found, before, strict=True)):
        labels = task.targets(split, "train")
        assert loss == pytest.approx(log_loss(labels, logits.softmax(1), labels=[0, 1, 2]))


@pytest.mark.parametrize("multilabel", [False, True])
def test_fast_validation_is_the_slow_one(multilabel):
    task = node_task(3, multilabel=multilabel)
    learner = begun(task, config(**EXACT), runs(3))
    learner.train_epoch(1)
    slow = Learner.validate(learner)
    for ours, wanted in zip(learner.validate(), slow, strict=True):
        assert ours == pytest.approx(wanted, rel=1e-12)
    assert len({loss for loss, _ in slow}) == 3


def test_logits_are_computed_once_for_the_same_weights():
    learner = begun(node_task(2), config(epochs=1), runs(2))
    learner.train_epoch(1)
    solves = learner.certificates.forward.solves
    learner.validate()
    assert learner.certificates.forward.solves == solves + 4  # two runs, two scales
    learner.validate()
    learner.scores("val")
    assert learner.certificates.forward.solves == solves + 4
    learner.train_epoch(2)
    first = learner.scores("val")[0]
    learner.keep_best([1])
    learner.use_best()
    assert not torch.equal(learner.scores("val")[0], first)


def test_scores_after_some_runs_left_are_those_of_the_others():
    task = node_task(3)
    learner = begun(task, config(), runs(3))
    learner.train_epoch(1)
    before = learner.scores("val")
    learner.keep([0, 2])
    after = learner.scores("val")
    assert len(after) == 2
    for a, b in zip(after, (before[0], before[2]), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    learner.train_epoch(2)  # the optimiser has let go of the third, too


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.long, torch.uint8])
def test_features_of_any_type(dtype):
    data, y = node_data()
    data.x = (data.x > 0.5).to(dtype)
    task = Task("types", [data], y, [node_task(1).splits[0]], "abc")
    wanted = task.with_graphs([task.graphs[0].clone()])
    wanted.graphs[0].x = data.x.float()
    for chosen in (config(epochs=3), config(epochs=3, **EXACT)):
        one, other = (trained(each, chosen, runs()).finished[0] for each in (task, wanted))
        for name, value in one.weights.items():
            assert torch.equal(value, other.weights[name])


def test_a_graph_without_edges():
    data, y = node_data()
    data.edge_index = torch.empty(2, 0, dtype=torch.long)
    task = Task("points", [data], y, [node_task(1).splits[0]], "abc")
    (one,) = trained(task, config(epochs=60, lr=0.05), runs()).finished
    assert one.val["accuracy"] > 0.6  # the features alone tell


def test_unlabelled_training_nodes_teach_nothing():
    data, y = node_data()
    split = node_task(1).splits[0]
    hidden = y.clone()
    hidden[split.train[:3]] = -1
    fewer = Split.of(split.train[3:], split.val, split.test)
    one = trained(Task("t", [data], hidden, [split], "abc"), config(epochs=5), runs())
    other = trained(Task("t", [data], hidden, [fewer], "abc"), config(epochs=5), runs())
    for name, value in one.finished[0].weights.items():
        assert torch.equal(value, other.finished[0].weights[name])


def test_edge_weights_count():
    data, y = node_data()
    ones = torch.ones(data.edge_index.size(1), dtype=torch.float64)
    losses = []
    for weight in (None, ones, ones + data.edge_index.sum(0) % 3):
        other = data.clone()
        other.edge_weight = weight
        task = Task("w", [other], y, [node_task(1).splits[0]], "abc")
        losses.append(trained(task, config(**EXACT, epochs=2), runs()).log[-1]["loss"][0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    assert losses[0] != pytest.approx(losses[2], rel=1e-3)


@pytest.mark.parametrize("options", [{}, {"batch_norm": True}, {"head": "residual"}], ids=str)
def test_mixed_precision(options):
    task = node_task(2)
    one, other = (
        trained(task, config(epochs=4, precision=precision, **options), runs(2))
        for precision in ("bf16", "32")
    )
    assert one.certificates.forward.failures == 0
    assert one.certificates.forward.relative_residual <= 1e-6  # solved in full precision
    for a, b in zip(one.finished, other.finished, strict=True):
        assert all(value.dtype is not torch.bfloat16 for value in a.weights.values())
        assert a.test["accuracy"] == pytest.approx(b.test["accuracy"], abs=0.35)
    found, wanted = one.log[0]["loss"], other.log[0]["loss"]
    assert found == pytest.approx(wanted, rel=0.05)
    assert found != wanted  # it was mixed
