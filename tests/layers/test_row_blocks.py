"""Blocks of rows give what all rows at once give, and keep no activations."""

import pytest
import torch
from torch import nn

from mgnni import MGNNI, Propagation
from mgnni.layers import row_blocks
from mgnni.layers.mlp import MLP
from mgnni.layers.row_blocks import fits_row_blocks, in_row_blocks
from problems import generator


def gradients(module, x, run):
    x = x.clone().requires_grad_()
    module.zero_grad()
    out = run(x)
    out.square().sum().backward()
    return [out.detach(), x.grad, *(one.grad.clone() for one in module.parameters())]


def test_blocks_give_the_same_outputs_and_gradients(device):
    module = MLP((5, 7, 3), 0.0, activate_last=False).double().to(device)
    x = torch.randn(50, 5, dtype=torch.float64, generator=generator(0)).to(device)
    want = gradients(module, x, module)
    got = gradients(module, x, lambda rows: in_row_blocks(module, rows, device, rows=16))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("keyed", [False, True])
def test_dropout_is_the_same_when_a_block_is_computed_again(keyed, device):
    module = nn.Sequential(MLP((4, 4), 0.5, activate_last=False)).to(device)
    module[0].dropout[0].keyed = keyed
    with torch.no_grad():
        module[0].linear[0].weight.copy_(torch.eye(4))
        module[0].linear[0].bias.zero_()
    x = torch.ones(40, 4, device=device).requires_grad_()
    out = in_row_blocks(module, x, device, rows=8)
    (grad,) = torch.autograd.grad(out.sum(), x)
    assert torch.equal(grad != 0, out != 0)
    blocks = (out != 0).view(5, 8, 4)
    assert not torch.equal(blocks[0], blocks[1]), "every block has the same mask"


def test_batch_normalization_is_not_split():
    x = torch.ones(row_blocks.ROWS + 1, 1)
    assert fits_row_blocks(nn.Linear(1, 1), x, x.device)
    assert not fits_row_blocks(nn.Sequential(nn.BatchNorm1d(1)), x, x.device)
    assert not fits_row_blocks(nn.Linear(1, 1), x[:5], x.device)


@pytest.mark.parametrize("memory", ["low", "half"])
def test_a_model_with_little_memory_is_the_same_model(memory, device, monkeypatch):
    monkeypatch.setattr(row_blocks, "ROWS", 10)
    torch.manual_seed(0)
    model = MGNNI(6, 8, 3, (1, 2), dropout=0.0, tol=1e-10, memory="fast").double().to(device)
    other = MGNNI(6, 8, 3, (1, 2), dropout=0.0, tol=1e-10, memory=memory).double().to(device)
    other.load_state_dict(model.state_dict())
    edge_index = torch.randint(64, (2, 300), generator=generator(1)).to(device)
    graph = Propagation.from_edge_index(edge_index, 64, dtype=torch.float64)
    x = torch.randn(64, 6, dtype=torch.float64, generator=generator(2)).to(device)
    want = gradients(model, x, lambda rows: model(rows, graph))
    got = gradients(other, x, lambda rows: other(rows, graph))
    for one, two in zip(got, want, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-7, atol=1e-9)
