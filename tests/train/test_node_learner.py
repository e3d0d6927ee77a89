import pytest
import torch
from sklearn.metrics import log_loss
from torch_geometric.data import Data

import mgnni.data.hashes as hashes
from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.train.learner import Learner
from mgnni.train.node_learner import NodeLearner, node_order
from problems import generator
from train.cases import (
    EXACT,
    config,
    node_data,
    node_task,
    random_split,
    runs,
    trained,
    training,
)


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


def test_groups_of_runs_see_the_same_tensors():
    """Models keep what they compute from a graph while it is the same, for all groups of runs."""
    task = node_task(2, directed=True)
    one, other = (begun(task, config(), [run]) for run in runs(2))
    assert all(a is b for a, b in zip(one.inputs, other.inputs, strict=True))
    undirected = begun(task, config(undirected=True), runs())
    assert undirected.inputs[1].size(1) > one.inputs[1].size(1)
    assert begun(task, config(precision="64"), runs()).inputs[0].dtype is torch.float64
    task.graphs[0].x[0, 0] += 1.0
    assert not torch.equal(begun(task, config(), runs()).inputs[0], one.inputs[0])


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


def shuffled(x, edge_index, weight, seed):
    """The same graph with its nodes and edges in another order; and the new place of each node."""
    g = generator(seed)
    place = torch.randperm(x.size(0), generator=g)
    edges = torch.randperm(edge_index.size(1), generator=g)
    other = torch.empty_like(x)
    other[place] = x
    weight = None if weight is None else weight[edges]
    return other, place[edge_index][:, edges], weight, place


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_every_order_leads_to_the_same_one(directed, weighted):
    data, _ = node_data(directed)
    weight = torch.rand(data.edge_index.size(1), generator=generator(3)) if weighted else None
    order = node_order(data.x, data.edge_index, weight)
    assert order.sort().values.tolist() == list(range(len(order)))
    for seed in range(5):
        x, edge_index, other, place = shuffled(data.x, data.edge_index, weight, seed)
        assert torch.equal(node_order(x, edge_index, other), place[order])


def test_links_tell_nodes_of_equal_features_apart():
    # A path of five nodes: the middle, its neighbours, and the ends; directed, all five.
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    x = torch.ones(5, 2)
    for seed in range(5):
        _, edges, _, place = shuffled(x, path, None, seed)
        assert torch.equal(node_order(x, edges, None), place[node_order(x, path, None)])


def test_both_directions_and_weights_count():
    x, two = torch.zeros(4, 1), torch.tensor([[0, 2], [1, 3]])
    # Node 1 and node 3 differ in the weight of what reaches them only.
    forth = node_order(x, two, torch.tensor([1.0, 2.0]))
    back = node_order(x, two, torch.tensor([2.0, 1.0]))
    swap = torch.tensor([2, 3, 0, 1])
    assert torch.equal(swap[forth], back)
    assert not torch.equal(forth, back)


def test_no_weights_are_weights_of_one_and_the_two_zeros_are_one():
    data, _ = node_data()
    ones = torch.ones(data.edge_index.size(1))
    first = node_order(data.x, data.edge_index, None)
    assert torch.equal(first, node_order(data.x, data.edge_index, ones))
    x = data.x.clone()
    x[::2, 1] = 0.0
    minus = x.clone()
    minus[::2, 1] = -0.0
    assert torch.equal(
        node_order(x, data.edge_index, None), node_order(minus, data.edge_index, None)
    )


def test_large_features_are_looked_at_in_pieces(monkeypatch):
    data, _ = node_data()
    whole = node_order(data.x, data.edge_index, None)
    monkeypatch.setattr(hashes, "CHUNK", 7)
    assert torch.equal(node_order(data.x, data.edge_index, None), whole)


@pytest.mark.parametrize("nodes", [0, 1])
def test_hardly_any_nodes(nodes):
    no_edges = torch.empty(2, 0, dtype=torch.long)
    assert node_order(torch.ones(nodes, 3), no_edges, None).tolist() == list(range(nodes))


def test_a_training_does_not_depend_on_the_order_of_the_data():
    data, y = node_data(directed=True)
    split = random_split(len(y), 0)
    chosen = config(epochs=10, hidden_channels=16, attention_channels=16)
    first = trained(Task("a", [data], y, [split], "abc"), chosen, runs()).finished[0]
    x, edge_index, _, place = shuffled(data.x, data.edge_index, None, 7)
    labels = torch.empty_like(y)
    labels[place] = y
    parts = Split.of(*(place[split.part(part)] for part in ("train", "val", "test")))
    other = Task("a", [Data(x=x, edge_index=edge_index)], labels, [parts], "abc")
    second = trained(other, chosen, runs()).finished[0]
    assert (first.selected_epoch, first.val, first.test) == (
        second.selected_epoch,
        second.val,
        second.test,
    )
    for name, value in first.weights.items():
        torch.testing.assert_close(value, second.weights[name], rtol=1e-4, atol=1e-6)
