"""Large products by another library, against those of torch in float64."""

import pytest
import torch

from mgnni.solve import products
from mgnni.solve.products import (
    FEW,
    LARGE,
    TALL,
    gram,
    is_large,
    large_product,
    product,
    tall_product,
)
from problems import generator


def normal(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("lead", [(), (2,)])
def test_products_are_those_of_float64(lead, dtype, device):
    wide, tall = normal(*lead, 27, LARGE + 5), normal(*lead, LARGE + 5, LARGE + 9, seed=1)
    rtol = 1e-12 if dtype is torch.float64 else 1e-5
    # Few rows, few columns, a short sum; matrices and transposed ones.
    for a, b in ((wide, tall), (tall.mT, wide.mT), (wide.mT, wide[..., 3:])):
        want = a @ b
        a, b = (x.to(device, dtype).mT.contiguous().mT for x in (a, b))
        for left, right in ((a, b), (a.contiguous(), b), (a, b.contiguous())):
            got = product(left, right).double().cpu()
            torch.testing.assert_close(got, want, rtol=rtol, atol=30 * rtol)
            assert is_large(left, right) is (device.type == "cpu")


@pytest.mark.parametrize("onednn", [True, False])
@pytest.mark.parametrize("shape", [(40, LARGE + 1), (2, LARGE + 30, LARGE + 7), (3, 5, 4)])
def test_a_matrix_times_its_own_transpose_is_symmetric(shape, onednn, device, monkeypatch):
    if not onednn:
        monkeypatch.setattr(products, "has_onednn", lambda: False)
    a = normal(*shape).float().to(device)
    square = gram(a)
    if is_large(a.mT, a):
        assert torch.equal(square, square.mT)
    torch.testing.assert_close(square.double(), a.double().mT @ a.double(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [None, lambda *_: torch.zeros(1, 1), lambda a, b: a @ b.T],
    ids=["gone", "wrong", "other arguments"],
)
def test_a_onednn_function_that_is_missing_or_changed_is_not_used(function, monkeypatch):
    monkeypatch.setattr(products, "_linear", function)
    products.has_onednn.cache_clear()
    assert not products.has_onednn()
    monkeypatch.undo()
    products.has_onednn.cache_clear()
    a = normal(LARGE + 1, LARGE + 1).float()
    torch.testing.assert_close(
        large_product(a, a).double(), a.double() @ a.double(), rtol=1e-4, atol=1e-3
    )


def test_matrices_with_gaps_between_rows_are_multiplied():
    a, b = normal(60, LARGE + 40).float(), normal(LARGE + 40, LARGE + 40).float()
    left, right = a[:, 7:], b[7:, : LARGE + 1]
    torch.testing.assert_close(
        large_product(left, right).double(), left.double() @ right.double(), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize("width", [5, LARGE + 3])
def test_a_product_is_added_to_a_bias(width, device):
    a, b = normal(2, 30, width), normal(2, width, width, seed=1)
    bias = normal(1, 30, width, seed=2).expand(2, -1, -1)  # shared, and must not be written to
    want = bias + 0.7 * a @ b
    left, right, given = (x.to(device).float() for x in (a, b, bias))
    before = given.clone()
    got = products.biased_product(given, left, right, 0.7)
    torch.testing.assert_close(got.double().cpu(), want, rtol=1e-4, atol=1e-3)
    assert torch.equal(given, before)


def test_the_result_is_written_to_the_given_memory():
    a, out = normal(LARGE + 1, LARGE + 1), torch.empty(LARGE + 1, LARGE + 1).double()
    assert large_product(a, a, out) is out
    torch.testing.assert_close(out, a @ a)


def test_products_under_autograd_or_a_transform_use_torch():
    a = normal(LARGE + 1, LARGE + 1)
    assert is_large(a, a)
    assert is_large(a[:FEW], a)
    assert not is_large(a[: FEW - 1], a)
    assert not is_large(a[:LARGE], a[:, :LARGE])
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
