import math

import pytest
import torch
from sklearn.utils.class_weight import compute_sample_weight
from torch.nn import functional
from torch_geometric.data import Data

from mgnni import MGNNI
from mgnni.errors import ArgumentError, DataError, MgnniError
from mgnni.train.config import Config, ModelConfig
from mgnni.train.ensemble import build_model
from mgnni.train.graph_learner import GraphLearner
from mgnni.train.inputs import check_graphs
from mgnni.train.learner import prepared
from mgnni.train.loss import row_losses, row_weights
from mgnni.train.node_learner import NodeLearner
from mgnni.train.training import learner_for
from train.cases import (
    config,
    graph_task,
    inductive_task,
    node_task,
    num_parameters,
    runs,
    training,
)


def begun(task, chosen, which):
    made = training(task, chosen, which)
    made._begin(which)
    return made.learner


def test_the_loss_of_a_row_is_cross_entropy():
    logits = torch.randn(2, 5, 3, dtype=torch.float64)
    labels = torch.tensor([[0, 1, 2, 0, 1], [2, 2, 1, 0, 0]])
    wanted = torch.stack(
        [
            functional.cross_entropy(a, b, reduction="none")
            for a, b in zip(logits, labels, strict=True)
        ]
    )
    torch.testing.assert_close(row_losses(logits, labels), wanted)
    by_hand = -math.log(math.exp(logits[1, 2, 1]) / sum(map(math.exp, logits[1, 2].tolist())))
    assert float(row_losses(logits, labels)[1, 2]) == pytest.approx(by_hand)


def test_the_loss_of_several_labels_is_their_mean():
    logits = torch.tensor([[0.0, 2.0], [-1.0, 3.0]])
    labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    wanted = [
        (math.log(2) + math.log(1 + math.exp(2))) / 2,
        (math.log(1 + math.exp(-1)) + math.log(1 + math.exp(-3))) / 2,
    ]
    assert row_losses(logits, labels).tolist() == pytest.approx(wanted)
    assert torch.equal(row_losses(logits, labels.long()), row_losses(logits, labels))


def test_an_unknown_label_has_a_finite_loss_to_be_weighted_with_zero():
    assert row_losses(torch.randn(3, 4), torch.tensor([1, -1, 2])).isfinite().all()


def test_half_precision_is_widened():
    logits = torch.randn(3, 4)
    wanted = row_losses(logits.bfloat16().float(), torch.tensor([1, 0, 2]))
    assert torch.equal(row_losses(logits.bfloat16(), torch.tensor([1, 0, 2])), wanted)


def test_the_gradient_of_each_run_is_shortened_by_itself():
    learner = begun(node_task(2), config(clip=1.0), runs(2))
    stacks = learner.ensemble.stacks
    for stack in stacks:
        stack.grad = torch.randn(stack.shape)
    for stack in stacks:  # the first run is within the limit, the second is not
        stack.grad[0] *= 1e-3
    before = [stack.grad.clone() for stack in stacks]
    norm = torch.cat([grad[1].flatten() for grad in before]).norm()
    assert norm > 1
    learner._clip(1.0)
    for grad, stack in zip(before, stacks, strict=True):
        assert torch.equal(stack.grad[0], grad[0])
        torch.testing.assert_close(stack.grad[1], grad[1] / norm)


def test_a_gradient_of_zero_stays_so():
    learner = begun(node_task(1), config(), runs())
    for stack in learner.ensemble.stacks:
        stack.grad = torch.zeros_like(stack)
    learner._clip(0.1)
    assert all(bool((stack.grad == 0).all()) for stack in learner.ensemble.stacks)


def test_the_model_is_what_the_configuration_says():
    chosen = Config(ModelConfig(hidden_channels=None, scales=(1, 3), head="graph", gamma=0.5))
    model = build_model(chosen, 7, 2, "graph")
    assert isinstance(model, MGNNI)
    assert (model.in_channels, model.out_channels, model.level) == (7, 2, "graph")
    assert model.equilibrium.factor.shape == (2, 7, 7)
    assert model.equilibrium.gamma == 0.5


def test_parameters_are_counted_without_the_statistics_and_without_drawing():
    chosen = Config(ModelConfig(hidden_channels=4, attention_channels=2, batch_norm=True))
    before = torch.random.get_rng_state()
    perceptron = (5 * 4 + 4) + (4 * 4 + 4)
    attention = (4 * 2 + 2) + 2
    head = 2 * 4 + 4 * 3  # batch norm, decoder
    assert num_parameters(chosen, 5, 3, "node") == perceptron + 2 * 4 * 4 + attention + head
    assert torch.equal(torch.random.get_rng_state(), before)
    with pytest.raises(ArgumentError, match="hidden_channels"):
        num_parameters(Config(ModelConfig(input_map="identity")), 5, 3, "node")


def test_a_graph_is_made_undirected_only_where_asked_for():
    edges = torch.tensor([[0, 1, 1, 2], [1, 2, 2, 2]])
    graph = Data(edge_index=edges, edge_weight=torch.tensor([1.0, 2.0, 3.0, 4.0]), num_nodes=4)
    for undirected in (None, False):
        same = prepared(graph, Config(undirected=undirected))
        assert torch.equal(same.edge_index, edges)
    made = prepared(graph, Config(undirected=True))
    pairs = map(tuple, made.edge_index.T.tolist())
    found = dict(zip(pairs, made.edge_weight.tolist(), strict=True))
    # The weights of an edge listed twice, or in both directions, are one: the largest.
    assert found == {(0, 1): 1, (1, 0): 1, (1, 2): 3, (2, 1): 3, (2, 2): 4}
    assert torch.equal(graph.edge_index, edges)  # not changed itself
    bare = prepared(Data(edge_index=edges, num_nodes=4), Config(undirected=True))
    assert bare.edge_weight is None
    assert bare.edge_index.size(1) == 5


def test_graphs_that_make_no_batch_are_refused():
    task = graph_task()
    for change, message in (
        ({"x": torch.ones(4, 7)}, r"graph 3 \(from 0\): must have 4 features.*got 7"),
        (
            {"x": torch.ones(0, 4)},
            r"graph 3 \(from 0\): must have nodes \(got none\); leave it out",
        ),
        ({"edge_weight": torch.ones(12)}, r"graph 3 \(from 0\): must have an edge_weight if"),
    ):
        graphs = [graph.clone() for graph in task.graphs]
        for key, value in change.items():
            graphs[3][key] = value
        graphs[3].num_nodes = graphs[3].x.size(0)
        with pytest.raises(DataError, match=message):
            training(task.with_graphs(graphs), config(), runs())
    check_graphs(task.graphs, 4)


def test_which_learner_a_task_has():
    assert learner_for(node_task()) is NodeLearner
    assert learner_for(graph_task()) is GraphLearner
    assert learner_for(inductive_task()) is GraphLearner


@pytest.mark.parametrize("place", [0, 1])
def test_what_diverged_is_found(place):
    learner = begun(node_task(2), config(lr=0.25), runs(2))
    learner.check_finite(3)
    learner.check_finite(3, [1.0, 2.0, 1.0, 2.0])
    for bad in (math.nan, math.inf, -math.inf):
        for where in (place, place + 2):  # its training loss, and that of validation
            losses = [1.0, 2.0, 1.0, 2.0]
            losses[where] = bad
            with pytest.raises(MgnniError, match=rf"loss of split {place}.*epoch 3.*got 0\.25"):
                learner.check_finite(3, losses)
    with torch.no_grad():
        learner.ensemble.stacks[-1][place, 0, 0] = 1e25  # its square is infinite
    with pytest.raises(MgnniError, match=f"weights of split {place}"):
        learner.check_finite(3)


def test_the_best_weights_are_remembered_run_by_run():
    learner = begun(node_task(2), config(), runs(2))
    first = learner.ensemble.snapshot()
    learner.keep_best([0, 1])
    with torch.no_grad():
        for stack in learner.ensemble.stacks:
            stack.add_(1)
    learner.keep_best([])
    learner.keep_best([1])
    for name, value in first.items():
        assert torch.equal(learner.best_of(0)[name], value[0])
        assert torch.equal(learner.best_of(1)[name], value[1] + 1)
    learner.use_best()
    for name, value in learner.ensemble.snapshot().items():
        assert torch.equal(value[1], learner.best_of(1)[name])
        assert torch.equal(value[0], first[name][0])


def test_balanced_weights_are_those_of_scikit_learn():
    labels = torch.tensor([0, 2, 2, 2, 0, 2])  # class 1 does not occur
    wanted = compute_sample_weight("balanced", labels.numpy())
    assert row_weights(labels, "balanced").tolist() == pytest.approx(wanted.tolist())
    assert row_weights(labels, "none").tolist() == [1.0] * 6
