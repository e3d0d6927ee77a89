from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional
from torch_geometric.data import Batch

from mgnni import Propagation
from mgnni.data.split import Split
from mgnni.errors import ArgumentError
from mgnni.train.batch_learner import BatchLearner
from mgnni.train.config import Config, changed, options_class
from mgnni.train.ensemble import build_model
from mgnni.train.graph_learner import GraphLearner
from mgnni.train.runs import INITIAL, Run, graph_order
from train.cases import EXACT, config, graph_task, inductive_task, runs, trained, training

GRAPHS = {"head": "graph", "head_layers": 1, "dropout": 0.0}


FIRST = Run(0, 0)


def begun(task, chosen, run=FIRST) -> GraphLearner:
    made = training(task, chosen, [run])
    made._begin([run])
    assert isinstance(made.learner, GraphLearner)
    return made.learner


def contents(learner: GraphLearner, epoch: int) -> list[list[int]]:
    """The sizes of the graphs of each batch, which tell them apart well enough."""
    return [inputs[1].batch.bincount().tolist() for inputs, _, _ in learner.batches(epoch)]


def in_batches(task, drawn):
    """Sizes of the graphs of each batch of three; their order in it is that of the data."""
    return [
        [int(task.graphs[unit].num_nodes) for unit in batch.sort().values]
        for batch in torch.split(drawn, 3)
    ]


def test_batches_hold_every_training_graph_once_in_the_order_of_the_epoch():
    task = graph_task()
    learner = begun(task, config(batch_size=3))
    train = task.splits[0].train
    for epoch in (1, 2):
        drawn = train[graph_order(Run(0, 0), epoch, train.numel())]
        found = contents(learner, epoch)
        assert [len(batch) for batch in found] == [3, 3, 2]
        assert found == in_batches(task, drawn)
    assert contents(learner, 1) == contents(learner, 1)
    assert contents(learner, 1) != contents(learner, 2)
    assert contents(learner, 1) != contents(begun(task, config(batch_size=3), Run(0, 1)), 1)


def test_unshuffled_batches_are_drawn_once():
    task = graph_task()
    learner = begun(task, config(batch_size=3, shuffle=False))
    first, second = (list(learner.batches(epoch)) for epoch in (1, 7))
    for one, other in zip(first, second, strict=True):
        assert one[0][1] is other[0][1]  # the same operator
    train = task.splits[0].train
    drawn = train[graph_order(Run(0, 0), 0, train.numel())]
    assert contents(learner, 1) == in_batches(task, drawn)
    assert drawn.tolist() != train.tolist()  # files are often sorted by class
    assert contents(learner, 1) != contents(begun(task, learner.config, Run(0, 1)), 1)


def test_an_epoch_may_have_a_number_of_batches():
    task = graph_task()
    learner = begun(task, config(batch_size=3, batches_per_epoch=5))
    assert [len(batch) for batch in contents(learner, 1)] == [3] * 5
    assert contents(learner, 1) != contents(learner, 2)
    fixed = begun(task, config(batch_size=3, batches_per_epoch=5, shuffle=False))
    assert contents(fixed, 1) == contents(fixed, 2)


def test_inputs_are_those_of_a_batch_built_from_its_graphs():
    task = inductive_task()
    learner = begun(task, config(batch_size=2, undirected=True, **EXACT))
    drawn = task.splits[0].train[graph_order(FIRST, 1, 3)][:2]
    ((x, propagation), *_), *_ = learner.batches(1)
    batch = Batch.from_data_list([task.graphs[unit] for unit in drawn])
    torch.testing.assert_close(x, batch.x.double())
    built = Propagation.from_edge_index(
        batch.edge_index, batch.num_nodes, batch=batch.batch, dtype=torch.float64
    )
    torch.testing.assert_close(propagation.to_dense(), built.to_dense())
    assert torch.equal(propagation.batch, built.batch)


def test_operators_are_built_once_and_small_graphs_solved_in_closed_form(monkeypatch):
    learner = begun(graph_task(), config(batch_size=3))
    monkeypatch.setattr(Propagation, "from_edge_index", None)  # nobody may ask for another
    for epoch in (1, 2):
        learner.train_epoch(epoch)
        learner.validate()
    assert learner.certificates.forward.solvers == {"spectral"}
    assert learner.certificates.backward.solvers == {"spectral"}
    assert learner.certificates.forward.failures == 0


def test_labels_and_weights_of_a_batch():
    task = graph_task()
    split = Split.of(torch.tensor([0, 1, 2, 3, 4]), torch.tensor([5]), torch.tensor([6]))
    task = task.with_splits([split])
    learner = begun(task, config(batch_size=5))
    (_, labels, weight) = next(iter(learner.batches(1)))
    assert labels[0].tolist() == [0, -1, 0, 1, 0]
    assert weight[0].tolist() == [0.25, 0, 0.25, 0.25, 0.25]


def test_a_batch_without_labels_is_left_out():
    task = graph_task()  # graph 1 has no label
    split = Split.of(torch.tensor([0, 1, 2]), torch.tensor([5]), torch.tensor([6]))
    learner = begun(task.with_splits([split]), config(batch_size=1))
    assert len(list(learner.batches(1))) == 2
    assert learner.train_epoch(1)[0] > 0


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (graph_task(), GRAPHS),
        (inductive_task(), {"dropout": 0.0}),
        (inductive_task(multilabel=False), {"dropout": 0.0}),
    ],
    ids=["graphs", "several labels a node", "one label a node"],
)
def test_a_plain_loop_finds_the_same(task, options):
    """One graph after another through a model of our own, and autograd over their sum."""
    chosen = config(**EXACT, **options, epochs=3, batch_size=2, lr=0.03)
    ours = trained(task, chosen, [Run(0, 4)])
    run = Run(0, 4)
    torch.manual_seed(run.seed_for(INITIAL))
    model = build_model(chosen, task.num_features, len(task.classes), task.level).double()
    optimizer = torch.optim.Adam(
        model.parameters(), lr=chosen.lr, weight_decay=chosen.weight_decay, fused=False
    )
    train = task.splits[0].train
    for epoch in range(1, 4):
        losses = []
        for units in torch.split(train[graph_order(run, epoch, train.numel())], 2):
            logits, labels = [], []
            for unit in units:
                graph = task.graphs[unit]
                logits.append(model(graph.x.double(), graph.edge_index))
                labels.append(task._labels[task.rows_of(unit.view(1))])
            known = torch.cat(labels)
            wide = known.dim() == 2
            rows = ~known.isnan().any(1) if wide else known >= 0
            if not rows.any():
                continue
            scores, known = torch.cat(logits)[rows], known[rows]
            loss = (
                functional.binary_cross_entropy_with_logits(scores, known.double())
                if wide
                else functional.cross_entropy(scores, known)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert ours.log[epoch - 1]["loss"][0] == pytest.approx(sum(losses) / len(losses), rel=1e-9)


@pytest.mark.parametrize("task", [graph_task(), inductive_task()], ids=["graphs", "nodes"])
def test_batch_composition_does_not_change_scores(task):
    options = GRAPHS if task.level == "graph" else {}
    found = []
    for size in (1, 2, 100):
        learner = begun(task, config(**EXACT, **options, batch_size=size))
        found.append([learner.scores(part)[0] for part in ("train", "val", "test")])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_scores_are_of_the_labelled_rows_in_their_order():
    task = inductive_task()
    learner = begun(task, config(**EXACT))
    model = learner.ensemble.model
    parameters = {name: value[0] for name, value in learner.ensemble.snapshot().items()}
    model.load_state_dict(parameters)
    model = model.double().eval()
    with torch.no_grad():
        rows = torch.cat([model(g.x.double(), g.edge_index) for g in task.graphs])
    for part in ("train", "val", "test"):
        torch.testing.assert_close(learner.scores(part)[0], rows[task.rows(0, part)])


def test_several_runs_are_refused():
    made = training(graph_task(), config(), runs(2))
    assert [len(group) for group in made.groups] == [1, 1]
    with pytest.raises(ArgumentError, match=r"'runs' must hold a single run .*got 2"):
        made._begin(runs(2))


def test_rings_can_be_told_apart():
    made = trained(graph_task(40), config(**GRAPHS, epochs=40, lr=0.03), runs(2))
    assert all(one.test["accuracy"] > 0.8 for one in made.finished)


def test_of_a_resumed_mesh_only_the_first_process_has_the_solves_of_its_checkpoint():
    task, chosen = graph_task(), config(batch_size=3)
    first = begun(task, chosen)
    first.train_epoch(1)
    solves = first.certificates.forward.solves
    assert solves > 0
    found = []
    for rank in range(2):
        mesh = SimpleNamespace(rows=1, columns=1, size=2, rank=rank, barrier=lambda: None)
        learner = BatchLearner(task, chosen, [FIRST], first.fabric, mesh)
        learner.load_state(first.state())
        found.append(learner.certificates.forward.solves)
    assert found == [solves, 0], "their sum is that of the checkpoint"


def test_several_processes_refuse_dropout_of_edges():
    task = graph_task()
    mesh = SimpleNamespace(rows=1, columns=1, size=2, rank=0, barrier=lambda: None)
    fabric = training(task, config(), runs(1)).fabric
    gat = changed(Config(options_class("gat")(), "gat"), {"hidden_channels": 4})
    with pytest.raises(ArgumentError, match=r"'mesh' .*edges \(got gat .*attention_dropout to 0"):
        BatchLearner(task, gat, [FIRST], fabric, mesh)
    BatchLearner(task, changed(gat, {"attention_dropout": 0.0}), [FIRST], fabric, mesh)
