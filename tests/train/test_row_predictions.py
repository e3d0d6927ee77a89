"""Predictions from stored terms, against the same model on the whole graph."""

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from cli.tables import write_nodes
from mgnni import Propagation
from mgnni.disk.generate import generate_graph
from mgnni.disk.precompute import precompute
from mgnni.disk.sweep import Sweep
from mgnni.errors import DataError
from mgnni.graph.csr import csr
from mgnni.train.minibatch import train_rows
from mgnni.train.row_predictions import is_row_model, predict_rows
from mgnni.train.row_training import RowOptions, make_row_model
from mgnni.train.terms_source import find_stored_graph

OPTIONS = RowOptions(hidden_channels=4, epochs=3, batch_size=70, lr=0.03)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A stored graph, its terms, and the model.pt of a training."""
    folder = tmp_path_factory.mktemp("rows")
    graph = generate_graph(folder / "graph", 300, 1200, features=5, classes=3)
    terms = precompute(graph, folder / "terms", tol=1e-4)
    report = train_rows(terms, folder / "run", OPTIONS)
    return graph, terms, folder / "run" / "model.pt", report


def test_predictions_are_those_of_the_model_on_the_whole_graph(trained):
    graph, terms, path, report = trained
    assert is_row_model(path)
    found = predict_rows(path, terms)
    model = make_row_model(Sweep.open(terms), OPTIONS).model.double().eval()
    model.load_state_dict(torch.load(path, weights_only=True)["state"])
    shape = (graph.num_nodes, graph.num_nodes)
    matrix, _ = graph.block(0, graph.num_nodes)
    dense = csr(matrix.crow_indices(), matrix.col_indices(), matrix.values(), shape).to_dense()
    edges = dense.fill_diagonal_(0).nonzero().T  # without the self-loops, which are added again
    operator = Propagation.from_edge_index(edges, graph.num_nodes, dtype=torch.float64)
    logits, weight = model(
        torch.from_numpy(np.array(graph.array("x"))).double(), operator, return_attention=True
    )
    torch.testing.assert_close(
        found.prediction.probability.double(), logits.softmax(1), atol=1e-3, rtol=0
    )
    torch.testing.assert_close(found.prediction.attention.double(), weight, atol=1e-3, rtol=0)
    assert found.ids == range(300)
    assert found.classes == ("0", "1", "2")
    for part, name in (("val", "val"), ("test", "test")):
        rows = torch.tensor([one == name for one in found.split])
        right = found.prediction.chosen.int().argmax(1)[rows] == found.labels[rows]
        assert float(right.double().mean()) == pytest.approx(report["accuracy"][part])


def test_ids_and_classes_are_those_of_the_files(tmp_path):
    data = write_nodes(tmp_path / "data")
    graph = find_stored_graph(str(data), tmp_path / "terms" / "graph")
    terms = precompute(graph, tmp_path / "terms")
    train_rows(terms, tmp_path / "run", RowOptions(hidden_channels=4, epochs=20, lr=0.1))
    found = predict_rows(tmp_path / "run" / "model.pt", terms)
    assert found.ids.to_pylist() == [f"n{i:02d}" for i in range(24)]
    assert found.classes == ("blue", "red")
    names = [found.classes[i] for i in found.prediction.chosen.int().argmax(1).tolist()]
    assert names == ["red"] * 12 + ["blue"] * 12
    # A threshold of zero predicts the second class everywhere.
    all_red = predict_rows(tmp_path / "run" / "model.pt", terms, threshold=0.0)
    assert all_red.prediction.chosen[:, 1].all()


def test_terms_of_another_graph_or_for_other_equations_are_refused(trained, tmp_path):
    graph, _, path, _ = trained
    other = generate_graph(tmp_path / "graph", 300, 1200, features=5, classes=3, seed=1, origin="b")
    terms = precompute(other, tmp_path / "other")
    with pytest.raises(DataError, match="the graph that the model was trained on, with origin"):
        predict_rows(path, terms)
    for name, options in {"scales": {"scales": (1,)}, "gamma": {"gamma": 0.5}}.items():
        terms = precompute(graph, tmp_path / name, **options)
        with pytest.raises(DataError, match=r"scales \[1, 2\] and a gamma of at least 0.8"):
            predict_rows(path, terms)


def test_terms_for_a_larger_gamma_give_the_same_predictions(trained, tmp_path):
    graph, terms, path, _ = trained
    wider = precompute(graph, tmp_path / "wider", gamma=0.9, tol=1e-4)
    one, other = (predict_rows(path, folder).prediction.probability for folder in (terms, wider))
    torch.testing.assert_close(one, other, atol=1e-3, rtol=0)


def test_damaged_ids_are_named(tmp_path):
    data = write_nodes(tmp_path / "data")
    terms = precompute(find_stored_graph(str(data), tmp_path / "graph"), tmp_path / "terms")
    train_rows(terms, tmp_path / "run", RowOptions(hidden_channels=4, epochs=1))
    path = tmp_path / "graph" / "ids.parquet"
    table = parquet.read_table(path)
    parquet.write_table(table.slice(0, 3), path)
    with pytest.raises(DataError, match=r"ids\.parquet: must have one id per node, 24 \(got 3\)"):
        predict_rows(tmp_path / "run" / "model.pt", terms)
    path.write_bytes(b"no table")
    with pytest.raises(DataError, match=r"ids\.parquet: cannot be read"):
        predict_rows(tmp_path / "run" / "model.pt", terms)
