"""The parametrisation g(F): its formula, norm, eigenvalues and derivatives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mgnni.implicit.cache import Cache
from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.solve.products import LARGE
from problems import generator


def factor(*shape, device="cpu", seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(device)


def test_the_result_is_the_gram_matrix_over_its_frobenius_norm(device):
    f = torch.tensor([[1.0, 2.0], [0.0, 1.0]], dtype=torch.float64, device=device)
    # F^T F = [[1, 2], [2, 5]], whose entries square to 1 + 4 + 4 + 25 = 34.
    want = torch.tensor([[1.0, 2.0], [2.0, 5.0]], dtype=torch.float64, device=device) / 34**0.5
    torch.testing.assert_close(normalized_gram(f), want, rtol=1e-11, atol=0)


def test_the_rows_of_the_factor_are_summed_over_not_its_columns(device):
    f = torch.tensor([[0.0, 3.0], [0.0, 0.0]], dtype=torch.float64, device=device)
    want = torch.tensor([[0.0, 0.0], [0.0, 1.0]], dtype=torch.float64, device=device)
    torch.testing.assert_close(normalized_gram(f), want, rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 4, 4)])
def test_every_factor_of_a_stack_has_its_own_result(shape, device):
    stack = factor(*shape, device=device)
    together = normalized_gram(stack).reshape(-1, 4, 4)
    for got, alone in zip(together, stack.reshape(-1, 4, 4), strict=True):
        gram = alone.T @ alone
        torch.testing.assert_close(got, gram / gram.square().sum().sqrt(), rtol=1e-11, atol=0)


@given(
    seed=st.integers(0, 2**16),
    channels=st.integers(1, 6),
    size=st.floats(1e-4, 1e6),
    rank_one=st.booleans(),
)
def test_the_result_is_symmetric_semidefinite_and_of_norm_at_most_one(
    seed, channels, size, rank_one
):
    f = size * factor(channels, channels, seed=seed)
    if rank_one:
        f = f[:, :1] @ f[:1]  # the slowest weights there are: the spectral norm is all of it
    w = normalized_gram(f)
    torch.testing.assert_close(w, w.T, rtol=1e-14, atol=1e-16)
    eigenvalues = torch.linalg.eigvalsh(w)
    assert eigenvalues.min() > -1e-14
    assert eigenvalues.max() <= torch.linalg.matrix_norm(w) + 1e-14
    assert torch.linalg.matrix_norm(w) <= 1 + 1e-14


def test_epsilon_keeps_the_norm_below_one(device):
    f = torch.ones(1, 1, dtype=torch.float64, device=device)
    assert normalized_gram(f, eps=1e-3).item() == pytest.approx(1 / 1.001, rel=1e-14)
    assert normalized_gram(f).item() < 1


def test_a_factor_of_zeros_gives_zeros_and_finite_gradients(device):
    f = torch.zeros(2, 3, 3, dtype=torch.float64, device=device, requires_grad=True)
    w = normalized_gram(f)
    assert w.abs().max() == 0
    (grad,) = torch.autograd.grad(w.sum(), f)
    assert grad.isfinite().all()


def test_the_gradient_is_that_of_the_formula(device):
    f = factor(2, 3, 3, device=device).requires_grad_()
    assert torch.autograd.gradcheck(normalized_gram, (f,))


def test_the_result_does_not_depend_on_the_size_of_the_factor(device):
    f = factor(3, 3, device=device)
    torch.testing.assert_close(normalized_gram(1e3 * f), normalized_gram(f), rtol=1e-11, atol=0)


def plain(f, eps=1e-12):
    """The formula, differentiated by autograd."""
    gram = f.mT @ f
    return gram / (torch.linalg.matrix_norm(gram, keepdim=True) + eps)


def test_second_derivatives_are_those_of_the_formula(device):
    f = factor(2, 3, 3, device=device).requires_grad_()
    assert torch.autograd.gradgradcheck(normalized_gram, (f,))
    for loss in (lambda w: w.pow(3).sum(), lambda w: w[..., 0, 1].sum()):
        hessians = [
            torch.autograd.functional.hessian(lambda x, g=g, loss=loss: loss(g(x)), f)
            for g in (normalized_gram, plain)
        ]
        torch.testing.assert_close(*hessians, rtol=1e-10, atol=1e-12)


def test_the_gradient_includes_a_large_epsilon(device):
    f = factor(3, 3, device=device).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: normalized_gram(x, eps=2.0), (f,))
    assert torch.autograd.gradgradcheck(lambda x: normalized_gram(x, eps=2.0), (f,))


@pytest.mark.parametrize("vectorize", [False, True])
def test_transforms_give_the_results_of_the_formula(vectorize, device):
    f = factor(3, 4, 4, device=device)
    torch.testing.assert_close(
        torch.func.vmap(normalized_gram)(f), plain(f), rtol=1e-12, atol=1e-14
    )
    moved = torch.func.vmap(normalized_gram, in_dims=1, out_dims=1)(f.movedim(0, 1))
    torch.testing.assert_close(moved.movedim(1, 0), plain(f), rtol=1e-12, atol=1e-14)
    ours = torch.autograd.functional.jacobian(normalized_gram, f, vectorize=vectorize)
    want = torch.autograd.functional.jacobian(plain, f)
    torch.testing.assert_close(ours, want, rtol=1e-10, atol=1e-13)
    torch.testing.assert_close(torch.func.jacrev(normalized_gram)(f), want, rtol=1e-10, atol=1e-13)
    each = [
        torch.func.vmap(torch.func.grad(lambda x, g=g: g(x).pow(3).sum()))(f)
        for g in (normalized_gram, plain)
    ]
    torch.testing.assert_close(*each, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("shape", [(LARGE + 3, LARGE + 3), (2, LARGE + 3, LARGE + 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_large_factors_give_the_results_of_the_formula(shape, dtype, device):
    f = (factor(*shape) @ torch.diag(torch.linspace(0.1, 3, shape[-1]).double())).to(device, dtype)
    cotangent = factor(*shape, seed=1).to(device, dtype)  # not symmetric
    exact = f.double().requires_grad_()
    want = plain(exact)
    (want_grad,) = torch.autograd.grad(want, exact, cotangent.double())
    f.requires_grad_()
    stacked = torch.func.vmap(normalized_gram)(f.unsqueeze(0))[0]
    for ours in (normalized_gram(f), stacked):
        torch.testing.assert_close(ours.double(), want, rtol=1e-5, atol=1e-8)
        torch.testing.assert_close(ours, ours.mT, rtol=1e-6, atol=1e-9)
        (grad,) = torch.autograd.grad(ours, f, cotangent)
        gap = (grad.double() - want_grad).norm() / want_grad.norm()
        assert gap <= (1e-12 if dtype is torch.float64 else 1e-5)


class TestCached:
    def test_equal_factors_give_the_same_memory(self, device):
        cache, f = Cache(), factor(2, 4, 4, device=device).requires_grad_()
        with torch.no_grad():
            first = normalized_gram(f, cache=cache)
        again = normalized_gram(f, cache=cache)
        if device.type == "cpu":  # comparing factors would make the host wait for a device
            assert again.data_ptr() == first.data_ptr()
        # A result computed without gradients is differentiable later.
        ours, want = (torch.autograd.grad(w.pow(3).sum(), f)[0] for w in (again, plain(f)))
        torch.testing.assert_close(ours, want, rtol=1e-12, atol=1e-14)
        assert torch.autograd.gradgradcheck(lambda x: normalized_gram(x, cache=cache), (f,))

    @pytest.mark.parametrize("change", ["in place", "eps", "dtype", "fewer"])
    def test_changed_factors_give_another_result(self, change, device):
        cache, f, eps = Cache(), factor(2, 4, 4, device=device), 1e-12
        normalized_gram(f, cache=cache)
        if change == "in place":
            f[1, 2, 3] += 1.0
        elif change == "eps":
            eps = 0.5
        elif change == "dtype":
            f = f.float()
        else:
            f = f[:1]
        torch.testing.assert_close(normalized_gram(f, eps, cache=cache), plain(f, eps))

    def test_runs_under_vmap_are_cached_together(self, device):
        cache, f = Cache(), factor(3, 2, 4, 4, device=device)
        for _ in range(2):
            ours = torch.func.vmap(lambda x: normalized_gram(x, cache=cache))(f)
            torch.testing.assert_close(ours, plain(f))

    def test_training_works_after_inference_mode(self, device):
        cache, f = Cache(), factor(2, 4, 4, device=device).requires_grad_()
        with torch.inference_mode():
            normalized_gram(f, cache=cache)
        normalized_gram(f, cache=cache).pow(3).sum().backward()
        (want,) = torch.autograd.grad(plain(f).pow(3).sum(), f)
        torch.testing.assert_close(f.grad, want)


def test_a_cached_weight_is_not_returned_for_another_norm(device):
    f, cache = factor(2, 4, 4, device=device), Cache()
    for norm in ("frobenius", "spectral", "frobenius"):
        got = normalized_gram(f, norm=norm, cache=cache)
        torch.testing.assert_close(got, normalized_gram(f, norm=norm), rtol=0, atol=0)
