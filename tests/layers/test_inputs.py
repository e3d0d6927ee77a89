"""The input map against the same matrix products, written out."""

import pytest
import torch

from mgnni.layers.inputs import MLP
from problems import generator


def features(device, rows=5, columns=3):
    return torch.randn(rows, columns, dtype=torch.float64, generator=generator(1)).to(device)


def make(widths, device, *, dropout=0.5, activate_last=False):
    return MLP(widths, dropout, activate_last).to(device, torch.float64)


def test_shapes_of_its_parameters(device):
    shapes = [tuple(p.shape) for p in make((3, 7, 5, 4), device).parameters()]
    assert shapes == [(7, 3), (7,), (5, 7), (5,), (4, 5), (4,)]


@pytest.mark.parametrize("activate_last", [False, True], ids=["mlp", "mlp-relu"])
def test_it_is_the_products_with_relus_between(activate_last, device):
    mlp = make((3, 7, 5, 4), device, activate_last=activate_last).eval()
    x = features(device)
    w1, b1, w2, b2, w3, b3 = mlp.parameters()
    zero = torch.zeros((), dtype=torch.float64, device=device)
    h = torch.maximum(x @ w1.T + b1, zero)
    h = torch.maximum(h @ w2.T + b2, zero)
    want = h @ w3.T + b3
    assert (want < 0).any()  # or the last ReLU would not show
    if activate_last:
        want = torch.maximum(want, zero)
    torch.testing.assert_close(mlp(x), want, rtol=1e-12, atol=1e-14)


def test_one_layer_is_linear(device):
    mlp = make((3, 4), device).eval()
    weight, bias = mlp.parameters()
    x = features(device)
    torch.testing.assert_close(mlp(x), x @ weight.T + bias, rtol=1e-12, atol=1e-14)


def test_dropout_comes_before_every_linear_map_and_never_after_the_last(device):
    # With weights of one and biases of zero an entry is a sum of inputs that were kept, doubled.
    mlp = make((1, 1, 1), device, dropout=0.5).train()
    with torch.no_grad():
        for parameter in mlp.parameters():
            parameter.fill_(1.0 if parameter.dim() == 2 else 0.0)
    values = set(mlp(torch.ones(400, 1, dtype=torch.float64, device=device)).flatten().tolist())
    assert values == {0.0, 4.0}  # twice doubled or dropped
    with torch.no_grad():
        mlp.linear[-1].bias.fill_(3.0)
    values = set(mlp(torch.ones(400, 1, dtype=torch.float64, device=device)).flatten().tolist())
    assert values == {3.0, 7.0}  # the last bias is never dropped


def test_reset_draws_every_parameter_anew_from_the_seed(device):
    mlp = make((3, 7, 4), device)
    before = [p.detach().clone() for p in mlp.parameters()]
    torch.manual_seed(5)
    mlp.reset_parameters()
    once = [p.detach().clone() for p in mlp.parameters()]
    torch.manual_seed(5)
    mlp.reset_parameters()
    for old, new, again in zip(before, once, mlp.parameters(), strict=True):
        assert (old != new).any()
        torch.testing.assert_close(again.detach(), new, rtol=0, atol=0)
