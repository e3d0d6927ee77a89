"""The order of the data is no matter: neither for the order of the nodes nor for a training."""

import pytest
import torch
from torch_geometric.data import Data

import mgnni.train.canonical as module
from mgnni.data.split import Split
from mgnni.data.task import Task
from mgnni.train.canonical import canonical_order
from problems import generator
from train.cases import config, node_data, random_split, runs, trained


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
    order = canonical_order(data.x, data.edge_index, weight)
    assert order.sort().values.tolist() == list(range(len(order)))
    for seed in range(5):
        x, edge_index, other, place = shuffled(data.x, data.edge_index, weight, seed)
        assert torch.equal(canonical_order(x, edge_index, other), place[order])


def test_links_tell_nodes_of_equal_features_apart():
    # A path of five nodes: the middle, its neighbours, and the ends; directed, all five.
    path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    x = torch.ones(5, 2)
    for seed in range(5):
        _, edges, _, place = shuffled(x, path, None, seed)
        assert torch.equal(canonical_order(x, edges, None), place[canonical_order(x, path, None)])


def test_both_directions_and_weights_count():
    x, two = torch.zeros(4, 1), torch.tensor([[0, 2], [1, 3]])
    # Node 1 and node 3 differ in the weight of what reaches them only.
    forth = canonical_order(x, two, torch.tensor([1.0, 2.0]))
    back = canonical_order(x, two, torch.tensor([2.0, 1.0]))
    swap = torch.tensor([2, 3, 0, 1])
    assert torch.equal(swap[forth], back)
    assert not torch.equal(forth, back)


def test_no_weights_are_weights_of_one_and_the_two_zeros_are_one():
    data, _ = node_data()
    ones = torch.ones(data.edge_index.size(1))
    first = canonical_order(data.x, data.edge_index, None)
    assert torch.equal(first, canonical_order(data.x, data.edge_index, ones))
    x = data.x.clone()
    x[::2, 1] = 0.0
    minus = x.clone()
    minus[::2, 1] = -0.0
    assert torch.equal(
        canonical_order(x, data.edge_index, None), canonical_order(minus, data.edge_index, None)
    )


def test_large_features_are_looked_at_in_pieces(monkeypatch):
    data, _ = node_data()
    whole = canonical_order(data.x, data.edge_index, None)
    monkeypatch.setattr(module, "AT_ONCE", 7)
    assert torch.equal(canonical_order(data.x, data.edge_index, None), whole)


@pytest.mark.parametrize("nodes", [0, 1])
def test_hardly_any_nodes(nodes):
    no_edges = torch.empty(2, 0, dtype=torch.long)
    assert canonical_order(torch.ones(nodes, 3), no_edges, None).tolist() == list(range(nodes))


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
