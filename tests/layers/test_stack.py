"""Stacks of convolutions with dropout, batch norm and ReLU."""

import pytest
import torch
from torch import nn

from mgnni.layers.regularization import Dropout
from mgnni.layers.stack import Stack


class Affine(nn.Linear):
    """A convolution that adds a constant, so that outputs are known."""

    def forward(self, x, shift):
        return super().forward(x) + shift


def stack(activate_last, batch_norm=False, dropout=0.0):
    return Stack(Affine, (2, 3, 4), dropout, batch_norm, activate_last).double()


@pytest.mark.parametrize("activate_last", [False, True])
def test_stack_returns_the_output_of_every_layer(activate_last):
    layers, x = stack(activate_last), torch.randn(5, 2, dtype=torch.float64)
    first, last = layers(x, 0.5)
    one, two = layers.convs
    hidden = (x @ one.weight.T + one.bias + 0.5).clamp(min=0)
    out = hidden @ two.weight.T + two.bias + 0.5
    assert (out < 0).any()
    torch.testing.assert_close(first, hidden)
    torch.testing.assert_close(last, out.clamp(min=0) if activate_last else out)


def test_batch_norm_comes_before_every_relu():
    x = torch.randn(50, 2, dtype=torch.float64)
    for activate_last, norms in ((False, 1), (True, 2)):
        layers = stack(activate_last, batch_norm=True).train()
        assert len(layers.norms) == norms
        first = layers(x, 0.5)[0]
        before = layers.convs[0](x, 0.5)
        deviation = before.var(0, unbiased=False).add(1e-5).sqrt()
        torch.testing.assert_close(first, ((before - before.mean(0)) / deviation).clamp(min=0))


def test_every_layer_has_a_dropout_key_of_its_own():
    layers = stack(False, dropout=0.5).train()
    parts = [part for part in layers.modules() if isinstance(part, Dropout)]
    assert len(parts) == 2
    for key, part in enumerate(parts, start=1):
        part.keyed = True
        part.key.fill_(key << 33)
    x = torch.randn(5, 2, dtype=torch.float64)
    first, last = layers(x, 0.0)
    one, two = layers.convs
    torch.testing.assert_close(first, one(parts[0](x), 0.0).relu())
    torch.testing.assert_close(last, two(parts[1](first), 0.0))
    assert (parts[0](first) != parts[1](first)).any()
