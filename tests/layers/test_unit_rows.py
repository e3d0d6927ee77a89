"""Rows of unit length, as by PyTorch, except for the gradient of rows of zeros."""

import torch
from torch.nn.functional import normalize

from mgnni.layers.unit_rows import unit_rows
from problems import generator


def test_rows_and_gradients_are_those_of_normalize(device):
    x = torch.randn(12, 5, generator=generator(0)).to(device)
    x *= 10.0 ** torch.arange(-9, 3, device=device).unsqueeze(1)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, wanted = unit_rows(one), normalize(other, dim=-1)
    torch.testing.assert_close(found, wanted)
    cotangent = torch.randn(12, 5, generator=generator(1)).to(device)
    found.backward(cotangent)
    wanted.backward(cotangent)
    torch.testing.assert_close(one.grad, other.grad)


def test_rows_of_zeros_and_their_gradients_do_not_change(device):
    x = torch.zeros(2, 3, device=device).requires_grad_()
    out = unit_rows(x)
    assert not out.any()
    out.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
