"""Which nodes are kept, and in which order, against sorting by hand."""

import pytest
import torch

from mgnni.layers.sort_pooling import SortPooling

SIZES = (5, 1, 3, 8)
CHANNELS = 4


def rows(device):
    torch.manual_seed(3)
    x = torch.randn(sum(SIZES), CHANNELS, dtype=torch.float64).to(device)
    batch = torch.repeat_interleave(torch.arange(len(SIZES)), torch.tensor(SIZES)).to(device)
    return x, batch


def by_hand(x, batch, k, num_graphs):
    out = torch.zeros(num_graphs, k, x.size(1), dtype=x.dtype, device=x.device)
    for graph in range(num_graphs):
        mine = x[batch == graph]
        order = sorted(range(len(mine)), key=lambda i: -mine[i, -1].item())
        for place, node in enumerate(order[:k]):
            out[graph, place] = mine[node]
    return out


@pytest.mark.parametrize("k", [4, 6, 20])  # fewer than some graphs have, and more than any
def test_the_largest_come_first_and_zeros_fill_up(k, device):
    x, batch = rows(device)
    pool = SortPooling(k)
    assert torch.equal(pool(x, batch, 4), by_hand(x, batch, k, 4))
    order = torch.randperm(len(x), device=device)
    assert torch.equal(pool(x[order], batch[order], 4), by_hand(x, batch, k, 4))


def test_a_graph_without_nodes_is_all_zeros(device):
    x, batch = rows(device)
    got = SortPooling(4)(x, batch + (batch > 1), 6)  # graphs 2 and 5 have none
    assert torch.equal(got, by_hand(x, batch + (batch > 1), 4, 6))
    assert not got[2].any()
    assert not got[5].any()


def test_ties_keep_every_node_once(device):
    x, batch = rows(device)
    x[:, -1] = 0.5
    got = SortPooling(8)(x, batch, 4)
    for graph, size in enumerate(SIZES):
        mine = x[batch == graph]
        found = [int((mine == row).all(1).nonzero()) for row in got[graph, :size]]
        assert sorted(found) == list(range(size))
        assert not got[graph, size:].any()
