"""Readouts against sums of linear maps, and sort pooling against sorting by hand."""

import pytest
import torch

from mgnni.layers.readout import JumpingReadout, SortPooling


@pytest.mark.parametrize("widths", [(3,), (4, 1, 2)])
def test_jumping_readout_has_one_linear_map_per_layer(widths, device):
    readout = JumpingReadout(widths, 2, 0.0).to(device, torch.float64)
    layers = [torch.randn(5, width, dtype=torch.float64, device=device) for width in widths]
    want = torch.zeros(5, 2, dtype=torch.float64, device=device)
    for linear, layer in zip(readout.linear, layers, strict=True):
        want = want + layer @ linear.weight.T + linear.bias
    torch.testing.assert_close(readout(torch.cat(layers, dim=1)), want)


def test_jumping_readout_drops_the_logits_of_each_layer_independently(device):
    readout = JumpingReadout((1, 1), 400, 0.5).to(device)
    with torch.no_grad():
        for linear, score in zip(readout.linear, (1.0, 10.0), strict=True):
            linear.weight.fill_(score)
            linear.bias.zero_()
    scores = readout.train()(torch.ones(10, 2, device=device))
    values, counts = scores.unique(return_counts=True)
    assert values.tolist() == [0.0, 2.0, 20.0, 22.0]  # each kept or dropped by itself
    assert (counts > 800).all()  # a quarter of 4000 each
    assert torch.equal(
        readout.eval()(torch.ones(1, 2, device=device)), torch.full_like(scores[:1], 11)
    )


def test_jumping_readout_resets_every_layer():
    readout = JumpingReadout((3, 4), 2, 0.0)
    before = [parameter.detach().clone() for parameter in readout.parameters()]
    readout.reset_parameters()
    for old, new in zip(before, readout.parameters(), strict=True):
        assert not torch.equal(old, new)


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
def test_sort_pooling_sorts_and_pads_with_zeros(k, device):
    x, batch = rows(device)
    pool = SortPooling(k)
    assert torch.equal(pool(x, batch, 4), by_hand(x, batch, k, 4))
    order = torch.randperm(len(x), device=device)
    assert torch.equal(pool(x[order], batch[order], 4), by_hand(x, batch, k, 4))


def test_sort_pooling_pads_graphs_without_nodes(device):
    x, batch = rows(device)
    got = SortPooling(4)(x, batch + (batch > 1), 6)  # graphs 2 and 5 have none
    assert torch.equal(got, by_hand(x, batch + (batch > 1), 4, 6))
    assert not got[2].any()
    assert not got[5].any()


def test_sort_pooling_keeps_tied_nodes_once(device):
    x, batch = rows(device)
    x[:, -1] = 0.5
    got = SortPooling(8)(x, batch, 4)
    for graph, size in enumerate(SIZES):
        mine = x[batch == graph]
        found = [int((mine == row).all(1).nonzero()) for row in got[graph, :size]]
        assert sorted(found) == list(range(size))
        assert not got[graph, size:].any()
