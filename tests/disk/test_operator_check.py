"""Stored graphs that are not what they say are refused before anything is computed from them."""

import json
import re

import numpy as np
import pytest
import torch

from mgnni import Propagation
from mgnni.disk.operator_check import check_operator
from mgnni.disk.precompute import precompute
from mgnni.disk.stored_graph import StoredGraph, store_graph
from mgnni.disk.sweep import Sweep
from mgnni.errors import DataError
from mgnni.train.row_training import RowOptions, RowTraining
from problems import generator

NODES = 30


def stored(folder, directed=False, **files):
    """A stored graph, some of whose files are replaced."""
    edges = torch.randint(NODES, (2, 60), generator=generator(0))
    edges = edges if directed else torch.cat([edges, edges.flip(0)], 1)
    operator = Propagation.from_edge_index(edges, NODES)
    x = torch.randn(NODES, 3, generator=generator(1))
    labels = torch.arange(NODES) % 3
    part = torch.arange(NODES) % 4
    graph = store_graph(folder, operator, x, labels, part)
    for name, change in files.items():
        np.save(folder / f"{name}.npy", change(np.array(graph.array(name))))
    return StoredGraph.open(folder)


def set_at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


@pytest.mark.parametrize("directed", [False, True])
def test_what_the_library_stores_is_accepted(tmp_path, directed):
    graph = stored(tmp_path, directed)
    assert graph.symmetric != directed
    check_operator(graph)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"col": set_at(0, NODES)}, "col.npy: must lie between 0 and 29"),
        ({"col": set_at(0, -1)}, "col.npy: must lie between 0 and 29"),
        ({"values": set_at(0, float("nan"))}, "values.npy: must be finite"),
        ({"values": set_at(0, -0.1)}, "values.npy: must be finite and not negative"),
        ({"crow": set_at(0, 1)}, "crow.npy: must run from 0"),
        ({"crow": lambda crow: np.where(np.arange(NODES + 1) == 5, 0, crow)}, "must not decrease"),
        (
            {"values": set_at(1, 0.9)},
            "must hold a symmetric operator",
        ),
        ({"values": lambda values: 1.15 * values}, "must hold an operator of norm at most one"),
    ],
)
def test_files_that_are_no_normalised_operator_are_refused(tmp_path, files, message):
    with pytest.raises(DataError, match=re.escape(message)):
        precompute(stored(tmp_path / "graph", **files), tmp_path / "terms")


def test_a_directed_graph_that_claims_to_be_symmetric_is_refused(tmp_path):
    stored(tmp_path / "graph", directed=True)
    path = tmp_path / "graph" / "graph.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "symmetric": True}))
    with pytest.raises(DataError, match="set 'symmetric' to false"):
        precompute(StoredGraph.open(tmp_path / "graph"), tmp_path / "terms")


@pytest.mark.parametrize("label", [-1, 3])
def test_labels_out_of_range_are_refused_before_training(tmp_path, label):
    graph = stored(tmp_path / "graph", y=lambda y: np.where(np.arange(NODES) == 1, label, y))
    terms = precompute(graph, tmp_path / "terms")
    with pytest.raises(DataError, match="must lie between 0 and 2"):
        RowTraining(Sweep.open(terms), RowOptions(hidden_channels=4))


def test_a_single_edge_at_a_hub_without_its_reverse_is_found(tmp_path):
    hub = torch.stack([torch.arange(1, 3000), torch.zeros(2999, dtype=torch.long)])
    operator = Propagation.from_edge_index(torch.cat([hub, hub.flip(0)], 1), 3000)
    graph = store_graph(tmp_path, operator, torch.ones(3000, 1))
    check_operator(graph)
    values = np.array(graph.array("values"))
    values[1] = 0  # from node 1 to the hub, whose row is the first
    np.save(tmp_path / "values.npy", values)
    with pytest.raises(DataError, match="must hold a symmetric operator"):
        check_operator(graph)


def test_an_empty_graph_is_accepted(tmp_path):
    operator = Propagation.from_edge_index(torch.empty(2, 0, dtype=torch.long), 0)
    check_operator(store_graph(tmp_path, operator, torch.empty(0, 1)))
