"""The readout of all layers against the sum of linear maps, one a layer."""

import pytest
import torch

from mgnni.layers.jumping import JumpingReadout


@pytest.mark.parametrize("widths", [(3,), (4, 1, 2)])
def test_each_layer_has_a_linear_map_of_its_own(widths, device):
    readout = JumpingReadout(widths, 2, 0.0).to(device, torch.float64)
    layers = [torch.randn(5, width, dtype=torch.float64, device=device) for width in widths]
    want = torch.zeros(5, 2, dtype=torch.float64, device=device)
    for linear, layer in zip(readout.linear, layers, strict=True):
        want = want + layer @ linear.weight.T + linear.bias
    torch.testing.assert_close(readout(torch.cat(layers, dim=1)), want)


def test_scores_are_dropped_layer_by_layer(device):
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


def test_reset_parameters_draws_every_layer_anew():
    readout = JumpingReadout((3, 4), 2, 0.0)
    before = [parameter.detach().clone() for parameter in readout.parameters()]
    readout.reset_parameters()
    for old, new in zip(before, readout.parameters(), strict=True):
        assert not torch.equal(old, new)
