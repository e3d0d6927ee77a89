"""Training on stored terms: what it learns, and that an interruption changes nothing."""

import numpy as np
import pytest
import torch

from mgnni import load_task
from mgnni.disk.generate import generate_graph
from mgnni.disk.precompute import precompute
from mgnni.disk.stored_graph import TEST, TRAIN, StoredGraph
from mgnni.disk.sweep import Sweep
from mgnni.errors import ArgumentError, ConvergenceError, DataError
from mgnni.train import minibatch, row_training
from mgnni.train.minibatch import train_rows
from mgnni.train.row_training import RowOptions, RowTraining, certificate
from mgnni.train.store_task import store_task
from mgnni.train.terms_source import find_stored_graph

OPTIONS = RowOptions(hidden_channels=4, epochs=3, batch_size=100, dropout=0.3, lr=0.03)


@pytest.fixture(scope="module")
def terms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms")
    graph = generate_graph(folder / "graph", 400, 1600, features=5, classes=3)
    return precompute(graph, folder / "terms", tol=1e-3)


def test_an_interrupted_training_ends_with_the_same_weights(terms, tmp_path, monkeypatch):
    whole = train_rows(terms, tmp_path / "whole", OPTIONS)
    monkeypatch.setattr(minibatch, "SAVE_EVERY", 0.0)
    calls = 0

    def stop(epoch, part, best):
        nonlocal calls
        calls += 1
        if calls == 5:  # in the middle of the second epoch
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_rows(terms, tmp_path / "parts", OPTIONS, stop)
    with pytest.raises(ArgumentError, match="as in the interrupted training"):
        train_rows(terms, tmp_path / "parts", RowOptions(lr=0.5))
    parts = train_rows(terms, tmp_path / "parts", OPTIONS)
    assert parts["resumed"]
    assert not whole["resumed"]
    assert parts["history"] == whole["history"]
    states = [
        torch.load(tmp_path / name / "model.pt", weights_only=True)["state"]
        for name in ("whole", "parts")
    ]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_every_training_node_is_seen_once_per_epoch_in_another_order(terms):
    training = RowTraining(Sweep.open(terms), RowOptions(batch_size=32))
    orders = []
    for training.epoch in (0, 1):
        nodes = np.concatenate([training._nodes_of(groups) for groups in training.batches()])
        assert np.array_equal(np.sort(nodes), training.nodes[TRAIN])
        orders.append(nodes)
    assert not np.array_equal(*orders)


def test_terms_that_do_not_suffice_stop_the_training(terms, monkeypatch):
    sweep = Sweep.open(terms)
    monkeypatch.setattr(type(sweep.terms), "errors", lambda self: [1.0] * len(self.index))
    training = RowTraining(sweep, OPTIONS)
    with pytest.raises(ConvergenceError, match="certified residual"):
        certificate(training.model, sweep)


def test_a_graph_without_labels_cannot_be_trained_on(terms):
    sweep = Sweep.open(terms)
    bare = StoredGraph(**{**vars(sweep.graph), "classes": 0})
    unlabelled = Sweep(**{**vars(sweep), "graph": bare})
    with pytest.raises(DataError, match="must have labels"):
        RowTraining(unlabelled, OPTIONS)


def test_a_task_is_stored_with_its_split(tmp_path):
    task = load_task("chains", length=5, num_chains_per_class=6)
    graph = store_task(task, tmp_path / "graph")
    part, y = graph.array("part"), graph.array("y")
    for name, number in (("train", 1), ("val", 2), ("test", 3)):
        assert np.array_equal(np.flatnonzero(part == number), task.rows(0, name).numpy())
    assert np.array_equal(y[part == 1], task.targets(0, "train").numpy())
    with pytest.raises(ArgumentError, match="'split' must be from 0"):
        store_task(task, tmp_path / "other", split=99)


def test_a_graph_of_another_split_or_of_other_data_is_not_taken_for_the_one_asked_for(tmp_path):
    folder, synthetic = tmp_path / "chains", tmp_path / "synthetic"
    options = {"length": 6, "num_splits": 2, "num_chains_per_class": 4}
    first = find_stored_graph("chains", folder, options=options)
    assert find_stored_graph("chains", folder, options=options) == first, "to go on with it"
    with pytest.raises(ArgumentError, match=r"split 1.*got.*split 0.*another output"):
        find_stored_graph("chains", folder, split=1, options=options)
    with pytest.raises(ArgumentError, match="another output"):
        find_stored_graph("chains", folder, options={**options, "length": 7})
    find_stored_graph("", synthetic, synthetic=(50, 200, 9, 0))
    with pytest.raises(ArgumentError, match=r"seed 1.*got.*seed 0"):
        find_stored_graph("", synthetic, synthetic=(50, 200, 9, 1))


@pytest.mark.parametrize("content", [b"nothing of torch", b""])
def test_a_damaged_checkpoint_is_an_error_with_a_way_out(terms, tmp_path, content):
    (tmp_path / "state.pt").write_bytes(content)
    with pytest.raises(DataError, match=r"state\.pt: is not a checkpoint.*delete it"):
        train_rows(terms, tmp_path, OPTIONS)


def test_the_checkpoint_of_another_command_is_refused(terms, tmp_path):
    torch.save({"groups": []}, tmp_path / "state.pt")
    with pytest.raises(ArgumentError, match=r"interrupted training.*another output"):
        train_rows(terms, tmp_path, OPTIONS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seed", -1),
        ("epochs", 0),
        ("batch_size", 0),
        ("hidden_channels", 0),
        ("lr", -0.1),
        ("lr", float("nan")),
        ("weight_decay", float("inf")),
        ("tol", float("inf")),
        ("tol", float("nan")),
        ("tol", 0.0),
        ("device", "gpu"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(name, value):
    with pytest.raises(ArgumentError, match=f"'{name}' must "):
        RowOptions(**{name: value})


def test_a_device_that_is_not_there_is_refused(terms, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ArgumentError, match="'device' cuda is not available here"):
        RowTraining(Sweep.open(terms), RowOptions(device="cuda"))


def test_the_random_numbers_of_the_caller_stay_the_same(terms):
    before = torch.random.get_rng_state()
    first, second = (RowTraining(Sweep.open(terms), RowOptions(seed=seed)) for seed in (1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    weights = [one.model.state_dict() for one in (first, second)]
    assert any(not torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_the_report_has_the_accuracy_of_the_most_frequent_class(terms, tmp_path):
    report = train_rows(terms, tmp_path / "run", RowOptions(hidden_channels=4, epochs=1))
    graph = Sweep.open(terms).graph
    part, y = graph.array("part"), graph.array("y")
    most = np.bincount(y[part == TRAIN]).argmax()
    assert report["baseline"] == pytest.approx((y[part == TEST] == most).mean())


def test_a_training_ends_with_the_last_certified_weights_if_terms_do_not_suffice(
    terms, tmp_path, monkeypatch
):
    options = RowOptions(**{**vars(OPTIONS), "epochs": 10})
    report = train_rows(terms, tmp_path / "run", options)
    bounds = []
    honest = row_training.certificate

    def later(model, sweep):
        bounds.append(honest(model, sweep))
        if len(bounds) > 6:
            raise ConvergenceError("stored terms: do not suffice")
        return bounds[-1]

    assert report["stopped"] is None
    monkeypatch.setattr(row_training, "certificate", later)
    cut = train_rows(terms, tmp_path / "cut", options)
    assert cut["stopped"] == "stopped after 6 epochs: stored terms: do not suffice"
    assert cut["history"] == report["history"][:6]
    assert cut["accuracy"]["val"] == max(one["val_accuracy"] for one in cut["history"])


def test_more_epochs_and_another_tolerance_continue_an_interrupted_training(
    terms, tmp_path, monkeypatch
):
    monkeypatch.setattr(minibatch, "SAVE_EVERY", 0.0)

    def stop(epoch, part, best):
        if epoch == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_rows(terms, tmp_path / "run", OPTIONS, stop)
    longer = RowOptions(**{**vars(OPTIONS), "epochs": 5, "tol": 0.1})
    report = train_rows(terms, tmp_path / "run", longer)
    assert report["resumed"]
    whole = train_rows(terms, tmp_path / "whole", RowOptions(**{**vars(OPTIONS), "epochs": 5}))
    assert report["history"] == whole["history"]


def test_terms_and_their_graph_can_be_moved(tmp_path):
    graph = generate_graph(tmp_path / "a" / "graph", 60, 200, features=3, classes=2)
    here = precompute(graph, tmp_path / "a", tol=1e-3)
    before = train_rows(here, tmp_path / "before", OPTIONS)
    (tmp_path / "a").rename(tmp_path / "b")
    after = train_rows(tmp_path / "b", tmp_path / "after", OPTIONS)
    assert after["history"] == before["history"]


def test_a_graph_without_test_nodes_has_no_test_accuracy(tmp_path):
    graph = generate_graph(tmp_path / "graph", 60, 200, features=3, classes=2)
    part = np.array(graph.array("part"))
    part[part == TEST] = 0
    np.save(tmp_path / "graph" / "part.npy", part)
    terms = precompute(StoredGraph.open(tmp_path / "graph"), tmp_path / "terms", tol=1e-3)
    report = train_rows(terms, tmp_path / "run", OPTIONS)
    assert report["accuracy"]["test"] is None
    assert report["baseline"] is None
