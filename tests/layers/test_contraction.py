"""The parametrisation: its formula, its norm below one, its eigenvalues above zero."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mgnni.layers.contraction import contraction
from problems import generator


def factor(*shape, device="cpu", seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def test_it_is_the_gram_matrix_over_its_frobenius_norm(device):
    f = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64, device=device)
    # F^T F = [[1, 2], [2, 5]], whose entries square to 1 + 4 + 4 + 25 = 34.
    want = torch.tensor([[1.0, 2.0], [2.0, 5.0]], dtype=torch.float64, device=device) / 34**0.5
    torch.testing.assert_close(contraction(f), want, rtol=1e-11, atol=0)


def test_the_rows_of_the_factor_are_summed_over_not_its_columns(device):
    f = torch.tensor([[0.0, 3.0], [0.0, 0.0]], dtype=torch.float64, device=device)
    want = torch.tensor([[0.0, 0.0], [0.0, 1.0]], dtype=torch.float64, device=device)
    torch.testing.assert_close(contraction(f), want, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 4, 4)])
def test_a_stack_is_taken_one_by_one(shape, device):
    stack = factor(*shape, device=device)
    together = contraction(stack).reshape(-1, 4, 4)
    for got, alone in zip(together, stack.reshape(-1, 4, 4), strict=True):
        gram = alone.T @ alone
        torch.testing.assert_close(got, gram / gram.square().sum().sqrt(), rtol=1e-11, atol=0)


@given(
    seed=st.integers(0, 2**16),
    channels=st.integers(1, 6),
    size=st.floats(1e-4, 1e6),
    rank_one=st.booleans(),
)
def test_it_is_symmetric_semidefinite_and_below_one(seed, channels, size, rank_one):
    f = size * factor(channels, channels, seed=seed)
    if rank_one:
        f = f[:, :1] @ f[:1]  # the slowest weights there are: the spectral norm is all of it
    w = contraction(f)
    torch.testing.assert_close(w, w.T, rtol=1e-14, atol=1e-16)
    eigenvalues = torch.linalg.eigvalsh(w)
    assert eigenvalues.min() > -1e-14
    assert eigenvalues.max() <= torch.linalg.matrix_norm(w) + 1e-14
    assert torch.linalg.matrix_norm(w) <= 1 + 1e-14


def test_epsilon_keeps_it_below_one(device):
    f = torch.ones(1, 1, dtype=torch.float64, device=device)
    assert contraction(f, eps=1e-3).item() == pytest.approx(1 / 1.001, rel=1e-14)
    assert contraction(f).item() < 1


def test_a_factor_of_zeros_gives_zeros_and_finite_gradients(device):
    f = torch.zeros(2, 3, 3, dtype=torch.float64, device=device, requires_grad=True)
    w = contraction(f)
    assert w.abs().max() == 0
    (grad,) = torch.autograd.grad(w.sum(), f)
    assert grad.isfinite().all()


def test_its_gradient_is_that_of_the_formula(device):
    f = factor(2, 3, 3, device=device).requires_grad_()
    assert torch.autograd.gradcheck(contraction, (f,))


def test_its_size_does_not_matter(device):
    f = factor(3, 3, device=device)
    torch.testing.assert_close(contraction(1e3 * f), contraction(f), rtol=1e-11, atol=0)
