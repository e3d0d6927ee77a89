"""Made graphs have the sizes of those they stand for; made weights their spectrum."""

from __future__ import annotations

import pytest
import torch
from torch_geometric.utils import is_undirected

from mgnni.bench.problems import (
    SHAPES,
    node_problem,
    ppi_problem,
    small_problem,
    trained_factor,
    uniform_graph,
    web_graph,
)
from mgnni.implicit.normalized_gram import normalized_gram


@pytest.mark.parametrize("largest", [0.9, 0.93, 0.99])
def test_trained_weights_have_the_eigenvalue(largest):
    weight = normalized_gram(
        trained_factor(2, 20, largest, torch.Generator().manual_seed(0)).double()
    )
    values = torch.linalg.eigvalsh(weight)
    assert torch.allclose(values[:, -1], torch.tensor(largest).double(), atol=1e-6)
    assert torch.allclose(values.norm(dim=1), torch.ones(2).double(), atol=1e-6)


def test_initial_weights_are_those_of_xavier():
    values = torch.linalg.eigvalsh(
        normalized_gram(trained_factor(4, 64, None, torch.Generator().manual_seed(0)))
    )
    assert 0.3 < float(values[:, -1].min()) <= float(values[:, -1].max()) < 0.4


def test_a_web_graph_is_heavy_tailed_and_directed():
    edges = web_graph(2277, 36101, torch.Generator().manual_seed(0))
    degree = torch.bincount(edges[1], minlength=2277)
    assert 30_000 < edges.size(1) <= 36101
    assert degree.max() > 8 * degree.float().mean()
    assert not is_undirected(edges, num_nodes=2277)


def test_a_uniform_graph_has_as_many_edges_as_asked_for(device):
    edges = uniform_graph(50, 1000, device)
    assert edges.shape == (2, 1000)
    assert edges.device.type == device.type
    assert is_undirected(edges.cpu(), torch.ones(1000), num_nodes=50)


@pytest.mark.parametrize("name", SHAPES)
def test_one_graph_like_the_benchmark(name, monkeypatch, tmp_path):
    monkeypatch.setenv("MGNNI_DATA", str(tmp_path))  # where there is none
    task = node_problem(name, quick=False)
    nodes, edges, features, classes = SHAPES[name]
    (graph,) = task.graphs
    assert task.name == f"{name}-like"
    assert (graph.num_nodes, task.num_features, len(task.classes)) == (nodes, features, classes)
    assert 0.8 * edges < graph.num_edges <= edges
    assert torch.allclose(graph.x.sum(1), torch.ones(nodes))
    assert len(task.splits) == 10


def test_many_graphs_like_ppi():
    task = ppi_problem(quick=False)
    assert len(task.graphs) == 24
    assert [len(task.splits[0].part(part)) for part in ("train", "val", "test")] == [20, 2, 2]
    nodes = sum(graph.num_nodes for graph in task.graphs) / 24
    edges = sum(graph.num_edges for graph in task.graphs) / 24
    assert 0.85 < nodes / 2245 < 1.15
    assert 0.85 < edges / 61318 < 1.15
    assert task.multilabel
    assert len(task.classes) == 121


def test_small_graphs_like_molecules():
    task = small_problem(quick=False)
    assert len(task.splits[0].train) == 128
    assert all(graph.num_nodes == 18 for graph in task.graphs)
    bonds = sum(graph.num_edges for graph in task.graphs) / len(task.graphs)
    assert 34 <= bonds <= 40
    assert task.level == "graph"
