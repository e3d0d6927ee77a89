import copy
import math
import os
import pickle
import random
import re
import zipfile
from dataclasses import replace
from typing import Any

import pytest
import torch
from sklearn.metrics import accuracy_score
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import ToSparseTensor
from torch_geometric.utils import to_undirected

from mgnni.data.tables.schema import TableOptions
from mgnni.disk.generate import generate_graph
from mgnni.disk.precompute import precompute
from mgnni.errors import ArgumentError, DataError, DataWarning
from mgnni.train.fit import fit
from mgnni.train.fitted import FORMAT, Fitted
from mgnni.train.minibatch import train_rows
from mgnni.train.row_training import RowOptions
from train.cases import (
    SMALL,
    assert_same_bits,
    graph_task,
    inductive_task,
    node_data,
    node_task,
    random_split,
)

SHORT = {**SMALL, "epochs": 3}


def masked(splits=2) -> Data:
    """A graph as PyG users hold it."""
    data, y = node_data()
    data.y = y
    every = [random_split(40, index) for index in range(splits)]
    for part in ("train", "val", "test"):
        mask = torch.zeros(40, splits, dtype=torch.bool)
        for column, split in enumerate(every):
            mask[split.part(part), column] = True
        data[f"{part}_mask"] = mask
    return data


@pytest.fixture(scope="module")
def nodes() -> Fitted:
    return fit(masked(), split="all", **SHORT)


@pytest.fixture(scope="module")
def graphs() -> Fitted:
    return fit(graph_task(), split=0, **SHORT)


@pytest.fixture(scope="module")
def several() -> Fitted:
    return fit(inductive_task(), **SHORT)


def test_predictions_are_those_that_were_measured(nodes):
    data = masked()
    for place, run in enumerate(nodes.report["runs"]):
        rows = data.test_mask[:, place]
        found = accuracy_score(data.y[rows], nodes.predict(run=place)[rows])
        assert found == pytest.approx(run["test"]["accuracy"])


def test_graph_predictions_are_those_that_were_measured(graphs):
    task = graph_task()
    rows = task.rows(0, "test")
    found = accuracy_score(task._labels[rows], graphs.predict(threshold=0.5)[rows])
    assert found == pytest.approx(graphs.report["runs"][0]["test"]["accuracy"])


@pytest.mark.parametrize("kind", ["nodes", "graphs"])
def test_probabilities_and_attention_add_up_to_one(kind, request):
    fitted = request.getfixturevalue(kind)
    chosen, probability, attention = fitted.predictions(fitted.data)
    assert probability.size(1) == len(fitted.classes)
    assert attention.size(1) == len(fitted.config.model.scales)
    assert probability.size(0) == attention.size(0) == (40 if kind == "nodes" else 20)
    for rows in (probability, attention):
        assert bool((rows >= 0).all())
        torch.testing.assert_close(rows.sum(1), torch.ones(rows.size(0)))
    assert torch.equal(fitted.predict_proba(), probability)
    half = None if kind == "nodes" else 0.5  # three classes have no threshold
    assert torch.equal(fitted.predict(threshold=half), probability.argmax(1))
    assert torch.equal(chosen.long().argmax(1), fitted.predict())
    assert torch.equal(chosen.sum(1), torch.ones(chosen.size(0), dtype=torch.long))


def test_scores_decide_where_probabilities_are_equal(nodes, monkeypatch):
    def model(*inputs):
        logits = torch.zeros(40, len(nodes.classes), dtype=torch.float64)
        logits[:, 1] = 1e-30
        return logits

    model.parameters = lambda: iter([torch.zeros(1)])
    monkeypatch.setattr(type(nodes), "model", lambda self, run=None: model)
    assert nodes.predict_proba().unique().numel() == 1
    assert nodes.predict().tolist() == [1] * 40


def test_several_labels_have_probabilities_of_their_own(several):
    probability = several.predict_proba()
    assert probability.shape == (39, 2)
    assert bool(((probability > 0) & (probability < 1)).all())
    assert torch.equal(several.predict(), (probability >= 0.5).long())
    model = several.model()
    task = inductive_task()
    with torch.no_grad():
        wanted = torch.cat([model(g.x, g.edge_index) for g in task.graphs]).sigmoid()
    torch.testing.assert_close(probability, wanted, rtol=1e-4, atol=1e-5)


def test_attention_of_a_graph_is_the_mean_over_its_nodes(graphs):
    model = graphs.model()
    task = graph_task()
    with torch.no_grad():
        wanted = [model(g.x, g.edge_index, return_attention=True)[1].mean(0) for g in task.graphs]
    found = graphs.predictions(task.graphs).attention
    torch.testing.assert_close(found, torch.stack(wanted), rtol=1e-4, atol=1e-5)


def test_other_data_and_other_batches(nodes, graphs, tmp_path):
    data = masked()
    wanted = nodes.predict_proba()
    bare = Data(x=data.x, edge_index=data.edge_index)
    assert torch.equal(nodes.predict_proba(bare), wanted)  # labels are not needed
    torch.save(data.to_dict(), tmp_path / "graph.pt")
    for path in (tmp_path / "graph.pt", str(tmp_path / "graph.pt")):
        assert torch.equal(nodes.predict_proba(path), wanted)

    task = graph_task()
    whole = graphs.predict_proba(list(task.graphs))
    torch.testing.assert_close(whole, graphs.predict_proba(), rtol=1e-5, atol=1e-6)
    small = replace(graphs, config=replace(graphs.config, batch_size=3))
    torch.testing.assert_close(small.predict_proba(), whole, rtol=1e-4, atol=1e-5)
    one = graphs.predict_proba([task.graphs[3]])
    torch.testing.assert_close(one, whole[3:4], rtol=1e-4, atol=1e-5)


def test_a_model_trained_on_an_undirected_graph_predicts_on_one():
    data, y = node_data(directed=True)
    data.y = y
    for place, part in enumerate(("train", "val", "test")):
        data[f"{part}_mask"] = torch.arange(40) % 3 == place
    fitted = fit(data, undirected=True, **SHORT)
    both_ways = Data(x=data.x, edge_index=to_undirected(data.edge_index, num_nodes=40))
    one_way = Data(x=data.x, edge_index=data.edge_index)
    with torch.no_grad():
        wanted = fitted.model()(both_ways.x, both_ways.edge_index).softmax(1)
        differs = fitted.model()(one_way.x, one_way.edge_index).softmax(1)
    assert not torch.allclose(differs, wanted, atol=1e-3)
    for graph in (None, one_way, both_ways):
        torch.testing.assert_close(fitted.predict_proba(graph), wanted, rtol=1e-4, atol=1e-5)


def test_edges_listed_once_after_an_undirected_training(tmp_path):
    data = masked()
    once = data.edge_index[:, data.edge_index[0] <= data.edge_index[1]]
    one_way = Data(x=data.x, edge_index=once)
    message = "^data: the training graph was undirected, but not every edge of this one has"
    fitted = fit(data, **SHORT)
    fitted.save(tmp_path / "model.pt")
    for one in (fitted, Fitted.load(tmp_path)):
        with pytest.warns(DataWarning, match=message) as caught:
            found = one.predict_proba(one_way)
        assert caught[0].filename == __file__
        with torch.no_grad():  # no edge is added
            wanted = one.model()(data.x, once).softmax(1)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    # Training and prediction add reverse edges.
    for options in ({"tables": TableOptions(directed=False)}, {"undirected": True}):
        fitted = fit(data, **options, **SHORT)
        wanted = fitted.predict_proba(data)
        torch.testing.assert_close(fitted.predict_proba(one_way), wanted, rtol=1e-4, atol=1e-5)


def test_sparse_adjacency_matrices_as_edges_and_weights(tmp_path):
    data, data.y = node_data(directed=True)
    data = data.coalesce()
    data.edge_weight = torch.rand(data.num_edges) + 0.5
    for name in ("train", "val", "test"):
        data[f"{name}_mask"] = masked()[f"{name}_mask"]
    matrix = ToSparseTensor(layout=torch.sparse_csr)(data.clone())
    assert matrix.edge_index is None
    fitted, other = fit(data, **SHORT), fit(matrix, **SHORT)
    wanted = fitted.predict_proba(data)
    for found in (other.predict_proba(), other.predict_proba(data), fitted.predict_proba(matrix)):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    turned = matrix.clone()
    turned.adj_t = matrix.adj_t.to_dense().T.to_sparse_csr()
    assert not torch.allclose(fitted.predict_proba(turned), wanted, atol=1e-3)
    bare = Data(x=data.x, edge_index=data.edge_index)
    with pytest.raises(DataError, match=r"there must be an edge_weight, .* as in training"):
        fitted.predict_proba(bare)


def test_which_run_predicts(nodes):
    best = max(range(2), key=lambda place: nodes.val[place]["accuracy"])
    assert nodes.best == best
    assert torch.equal(nodes.predict_proba(), nodes.predict_proba(run=best))
    assert not torch.equal(nodes.predict_proba(run=0), nodes.predict_proba(run=1))
    for wrong in (-1, 2):
        with pytest.raises(ArgumentError, match=rf"'run' must lie between 0 and 1 \(got {wrong}\)"):
            nodes.predict(run=wrong)


def test_equals_are_decided_by_the_first_and_none_by_nothing(nodes):
    tie = ({"accuracy": 0.5}, {"accuracy": 0.5})
    assert replace(nodes, val=tie).best == 0
    assert replace(nodes, val=({}, {})).best == 0
    assert replace(nodes, val=({}, {"accuracy": 0.0})).best == 1


def test_predicting_leaves_the_generator_alone(nodes):
    before = torch.random.get_rng_state()
    nodes.predict()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_module_to_go_on_with(nodes):
    model = nodes.model(1)
    assert not model.training
    assert_same_bits(dict(model.state_dict()), nodes.weights[1])
    model.train()(masked().x, masked().edge_index).sum().backward()
    assert model.head.linear.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ["nodes", "graphs", "several"])
def test_a_saved_model_is_the_same_to_the_last_bit(kind, request, tmp_path):
    fitted = request.getfixturevalue(kind)
    fitted.save(tmp_path / "model.pt")
    assert os.listdir(tmp_path) == ["model.pt"]
    for path in (tmp_path / "model.pt", tmp_path, str(tmp_path)):
        again = Fitted.load(path)
        for a, b in zip(again.weights, fitted.weights, strict=True):
            assert_same_bits(a, b)
        for name in ("config", "level", "multilabel", "classes", "num_features", "metric"):
            assert getattr(again, name) == getattr(fitted, name)
        assert (again.runs, again.val, again.schema) == (fitted.runs, fitted.val, fitted.schema)
        assert again.report is None
        assert torch.equal(again.predictions(fitted.data).probability, fitted.predict_proba())
    with pytest.raises(ArgumentError, match="'data' must be given to a model"):
        again.predict()


def test_double_precision_comes_back(tmp_path):
    fitted = fit(node_task(1), **SHORT, precision="64", tol=1e-12)
    assert fitted.predict_proba().dtype is torch.float64
    fitted.save(tmp_path / "model.pt")
    again = Fitted.load(tmp_path)
    assert_same_bits(again.weights[0], fitted.weights[0])
    assert torch.equal(again.predictions(fitted.data).probability, fitted.predict_proba())


def written(fitted: Fitted, path, **changes):
    content = {**fitted.to_dict(), **changes}
    torch.save({key: value for key, value in content.items() if value is not None}, path)
    return path


NOT_OURS = "is not a checkpoint of mgnni, or it is damaged (nothing in it was run); train again"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format": FORMAT + 1, "versions": {"mgnni": "9.9"}},
            "written by mgnni '9.9' in format 2",
        ),
        ({"format": None, "versions": None}, "written by mgnni 'unknown' in format None"),
        ({"kind": "other"}, "is not a model of mgnni"),
        ({"kind": None}, "is not a model of mgnni"),
        ({"config": None}, "do not fit together ('config')"),
        ({"config": {"epoch": 1}}, "did you mean 'epochs'"),
        ({"config": 3}, "must be a table of options"),
        ({"num_features": 6}, "the schema does not have 6 features"),
        ({"num_features": 0}, "the schema does not have 0 features"),
        ({"num_features": "5"}, "'model.num_features' must be of type int (got '5')"),
        ({"multilabel": 1}, "'model.multilabel' must be of type bool (got 1)"),
        ({"metric": ["accuracy"]}, "'model.metric' must be of type str"),
        (
            {"classes": ["0", "1"]},
            "weight head.linear.weight must be a float tensor of shape (2, 6)",
        ),
        ({"classes": "01"}, "'model.classes' must be a list"),
        ({"versions": "old", "format": "new"}, "written by mgnni 'unknown' in format 'new'"),
        ({"level": "graf"}, "'level' must be one of"),
        ({"weights": [{}, {}]}, "weight equilibrium.factor must be"),
        ({"weights": []}, "do not fit together"),
        ({"weights": 3}, "do not fit together"),
        ({"weights": ["a", "b"]}, "do not fit together"),
        ({"runs": [{"split": 0}]}, "do not fit together"),
        ({"runs": []}, "do not fit together"),
        ({"val": []}, "do not fit together"),
        ({"val": [{"accuracy": "high"}] * 2}, "'model.val' must be of type float (got 'high')"),
        ({"schema": {"version": 99}}, "version 1 is needed"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(nodes, tmp_path, changes, message):
    path = written(nodes, tmp_path / "model.pt", **changes)
    with pytest.raises(DataError) as caught:
        Fitted.load(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_of_mini_batches_is_refused_with_what_reads_it(tmp_path):
    graph = generate_graph(tmp_path / "graph", 200, 600, features=5, classes=3)
    terms = precompute(graph, tmp_path / "terms", tol=1e-3)
    train_rows(terms, tmp_path / "rows", RowOptions(hidden_channels=4, epochs=1))
    with pytest.raises(DataError) as caught:
        Fitted.load(tmp_path / "rows")
    message = str(caught.value)
    assert "model.pt: is a model of mgnni minibatch, for stored terms" in message
    assert "predict with: mgnni predict MODEL TERMS" in message


VALUES = [
    *(None, True, -1, 0, 3, 2**40, 0.5, math.nan, "", "x", "node\nlevel", b"x", (), (1,), [], [[]]),
    *(
        {},
        {"a": 1},
        {1: "a"},
        {"mgnni": []},
        torch.ones(2),
        torch.zeros(0),
        torch.ones(1).to_sparse(),
    ),
]


def mutated(value: Any, draw: random.Random) -> Any:
    """The same plain data with one thing in it replaced, removed or added."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.85:
        value = copy.copy(value)
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key, how = draw.choice(keys), draw.random()
        if how < 0.8:
            value[key] = mutated(value[key], draw)
        elif how < 0.9 or isinstance(value, list):
            del value[key]
        else:
            value[draw.choice(["", "other", 3])] = draw.choice(VALUES)
        return value
    return draw.choice(VALUES)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["nodes", "graphs"])
def test_a_mutated_file_is_an_error_of_one_line_or_a_model(kind, seed, request, tmp_path):
    fitted = request.getfixturevalue(kind)
    draw, path, messages = random.Random(seed), tmp_path / "model.pt", []
    for _ in range(60):
        torch.save(mutated(fitted.to_dict(), draw), path)
        try:
            loaded = Fitted.load(path)
        except DataError as error:
            messages.append(str(error))
            continue
        assert repr(loaded)
        assert loaded.predictions(fitted.data).probability.size(1) == len(loaded.classes)
    assert 20 < len(messages) < 60
    for message in messages:
        assert str(path) in message
        assert len(message.splitlines()) == 1
        assert len(message) < 600


def test_a_fitted_model_is_shown_in_one_line(nodes, graphs):
    assert re.fullmatch(
        r"Fitted\(mgnni, level='node', features=5, classes=3, runs=2, "
        r"best validation accuracy=0\.\d{4}\)",
        repr(nodes),
    )
    assert "level='graph'" in str(graphs)
    assert "runs=1 (1 of 2 splits)," in repr(graphs)  # the others were not trained
    without = replace(graphs, val=({},), report=None)
    assert repr(without).endswith("runs=1)")


def test_weights_of_every_run_must_fit(nodes, tmp_path):
    second = {**nodes.weights[1], "head.linear.weight": torch.zeros(1, 1)}
    path = written(nodes, tmp_path / "model.pt", weights=[nodes.weights[0], second])
    with pytest.raises(DataError, match=r"weight head\.linear\.weight must be"):
        Fitted.load(path)


def test_a_file_cut_anywhere_is_refused(nodes, tmp_path):
    nodes.save(tmp_path / "model.pt")
    whole = (tmp_path / "model.pt").read_bytes()
    for size in [0, 1, 30, *range(100, len(whole), len(whole) // 17), len(whole) - 1]:
        (tmp_path / "model.pt").write_bytes(whole[:size])
        with pytest.raises(DataError) as caught:
            Fitted.load(tmp_path)
        assert NOT_OURS in str(caught.value)


def test_a_changed_bit_of_a_weight_is_noticed(nodes, tmp_path):
    nodes.save(tmp_path / "model.pt")
    whole = bytearray((tmp_path / "model.pt").read_bytes())
    value = nodes.weights[0]["equilibrium.factor"].flatten()[3:5].numpy().tobytes()
    assert whole.count(value) == 1
    whole[whole.index(value)] ^= 1
    (tmp_path / "model.pt").write_bytes(whole)
    with pytest.raises(DataError, match="it is damaged"):
        Fitted.load(tmp_path)


class Trap:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple:
        return os.system, (self.command,)


@pytest.mark.parametrize("how", ["pickle", "torch", "legacy", "inside a model"])
def test_no_code_of_a_file_is_run(nodes, tmp_path, how):
    witness = tmp_path / "it-ran"
    trap, path = Trap(f"touch {witness}"), tmp_path / "model.pt"
    if how == "pickle":
        path.write_bytes(pickle.dumps(trap))
    elif how == "inside a model":
        written(nodes, path, val=[trap, trap])
    else:
        torch.save(trap, path, _use_new_zipfile_serialization=how == "torch")
    with pytest.raises(DataError) as caught:
        Fitted.load(path)
    assert NOT_OURS in str(caught.value)
    assert not witness.exists()
    pickle.loads(pickle.dumps(trap))  # the trap works, where one lets it
    assert witness.exists()


def test_what_is_no_checkpoint_at_all(tmp_path):
    torch.save([1, 2], tmp_path / "model.pt")
    with pytest.raises(
        DataError, match=r"is not a checkpoint of mgnni \(got a list\); train again"
    ):
        Fitted.load(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("hello", "there")
    with pytest.raises(DataError, match="is not a checkpoint of mgnni"):
        Fitted.load(tmp_path)
    (tmp_path / "model.pt").unlink()
    with pytest.raises(DataError, match=r"model\.pt: no such file; the folder of a complete"):
        Fitted.load(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        Fitted.load(tmp_path / "nowhere")


def test_data_that_do_not_fit_are_refused(nodes, graphs):
    data = masked()
    with pytest.raises(DataError, match=r"feature|column"):
        nodes.predict(Data(x=data.x[:, :3], edge_index=data.edge_index))
    with pytest.raises(DataError, match=r"graph 0 \(from 0\): must have 4 features.*got 5"):
        graphs.predictions([Data(x=data.x, edge_index=data.edge_index)])
    with pytest.raises(ArgumentError, match=r"'data' must be a path.*got int"):
        nodes.predict(3)
    with pytest.raises(DataError, match="check the path"):
        nodes.predict("nowhere.pt")


@pytest.mark.parametrize(
    "data", [Data(x=torch.ones(2, 4)), Data(edge_index=torch.zeros(2, 1).long()), [3], [None]]
)
def test_what_is_no_graph_is_refused(graphs, data):
    with pytest.raises(DataError, match="must be a PyG Data with x and edge_index"):
        graphs.predict(data)


def test_no_graph_is_refused(nodes, graphs):
    with pytest.raises(ArgumentError, match="at least one graph"):
        graphs.predict([])
    with pytest.raises(DataError):
        nodes.predict([])


def test_a_batch_of_graphs_is_data_too(nodes):
    data = masked()
    bare = Data(x=data.x, edge_index=data.edge_index)
    both = Batch.from_data_list([bare, bare])
    found = nodes.predict_proba(Data(x=both.x, edge_index=both.edge_index))
    wanted = nodes.predict_proba(bare)
    torch.testing.assert_close(found[:40], wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[40:], wanted, rtol=1e-4, atol=1e-5)
