"""Large products by another library, against those of torch in float64."""

import pytest
import torch

from mgnni.solve.dense import LARGE, TALL, is_large, large_product, product, tall_product
from problems import generator


def normal(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("lead", [(), (2,)])
def test_products(lead, dtype, device):
    a, b = normal(*lead, 7, LARGE + 5), normal(*lead, 7, LARGE + 9, seed=1)
    want = a.mT @ b
    a, b = a.to(device, dtype), b.to(device, dtype)
    rtol = 1e-12 if dtype is torch.float64 else 1e-5
    torch.testing.assert_close(product(a.mT, b).double().cpu(), want, rtol=rtol, atol=rtol)
    assert is_large(a.mT, b) is (device.type == "cpu")


def test_a_matrix_times_its_own_transpose_is_symmetric(device):
    a = normal(2, 40, LARGE + 1).float().to(device)
    gram = product(a.mT, a)
    torch.testing.assert_close(gram, gram.mT, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(gram.double(), a.double().mT @ a.double(), rtol=1e-5, atol=1e-4)


def test_it_writes_where_it_is_told():
    a, out = normal(LARGE + 1, LARGE + 1), torch.empty(LARGE + 1, LARGE + 1).double()
    assert large_product(a, a, out) is out
    torch.testing.assert_close(out, a @ a)


def test_what_autograd_or_a_transform_must_see_is_left_to_torch():
    a = normal(LARGE + 1, LARGE + 1)
    assert is_large(a, a)
    assert not is_large(a[:LARGE], a)
    assert not is_large(a.half(), a.half())
    leaf = a.clone().requires_grad_()
    assert not is_large(leaf, a)
    with torch.no_grad():
        assert is_large(leaf, a)
    seen = []
    torch.func.vmap(lambda x: seen.append(is_large(x, x)) or x.sum())(a.unsqueeze(0))
    assert seen == [False]
    (grad,) = torch.autograd.grad(product(leaf, a)[0, 0], leaf)
    torch.testing.assert_close(grad[0], a[:, 0])


@pytest.mark.parametrize("rows", [10, TALL, 2 * TALL - 1, 2 * TALL, 40 * TALL + 5])
def test_long_sums_keep_their_digits(device, rows):
    a, b = normal(2, 2, rows, 3, seed=rows).float().to(device).unbind()
    with torch.no_grad():
        found = tall_product(a, b)
    exact = a.double().mT @ b.double()
    assert found.dtype is torch.float32
    assert float((found - exact).norm() / exact.norm()) < 4e-6  # one sum over the longest: 1e-5
    assert tall_product(a.clone().requires_grad_(), b).requires_grad
