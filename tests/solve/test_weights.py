"""What is found out about weights, against dense linear algebra."""

import copy
import pickle

import pytest
import torch

from kernels import reference
from mgnni.solve.weights import KnownWeights, Weights
from problems import weight


@pytest.mark.parametrize("form", ["random", "rank-one", "identity", "indefinite"])
def test_symmetric_weights_are_decoupled(form, device):
    stack = torch.stack([weight(form, 5, seed) for seed in range(3)]).to(device)
    weights = Weights(stack)
    assert weights.symmetric
    assert weights.transposed() is weights
    q, values = weights.decoupling.eigenvectors, weights.decoupling.eigenvalues.to(device)
    torch.testing.assert_close(q @ torch.diag_embed(values) @ q.mT, stack, rtol=0, atol=1e-14)
    eye = torch.eye(5, dtype=torch.float64, device=device).expand(3, 5, 5)
    torch.testing.assert_close(q.mT @ q, eye, rtol=0, atol=1e-14)


def test_eigenpairs_at_hand_are_not_found_again_unless_they_have_failed(device):
    stack = torch.stack([weight("random", 5, seed) for seed in range(2)]).float()
    weights = Weights(stack.to(device), normed=True)
    pairs = [one.to(device) for one in reference.eigenpairs(stack)]
    weights.__dict__["planned_pairs"] = tuple(pairs)
    falling = weights.decoupling
    assert torch.equal(falling.eigenvalues, pairs[0][:, :5].cpu())
    assert torch.equal(falling.eigenvectors, pairs[1][..., :5])
    weights.polynomials["of these"] = object()
    largest = torch.linalg.matrix_norm(stack.double(), 2)
    for spectral, exact in zip(weights.spectral, largest.tolist(), strict=True):
        assert exact <= spectral <= exact + 2e-7  # what a kernel may leave is allowed for
    weights.decompose_anew()
    better = weights.decoupling
    assert better is not falling
    assert not weights.polynomials, "theirs are in another order"
    weights.polynomials["of the better ones"] = object()
    weights.decompose_anew()
    assert weights.decoupling is better
    assert weights.polynomials
    q, values = weights.decoupling.eigenvectors, weights.decoupling.eigenvalues.to(device)
    assert torch.equal(values, values.sort().values)
    again = q.double() @ torch.diag_embed(values) @ q.double().mT
    torch.testing.assert_close(again, stack.to(device).double(), rtol=0, atol=1e-6)


def test_a_weight_that_is_not_finite_leaves_the_others_theirs(device):
    stack = torch.stack([weight("random", 5, seed) for seed in range(2)]).to(device)
    stack[0, 1, 2] = torch.inf
    values = Weights(stack, normed=True).decoupling.eigenvalues
    assert values[0].isnan().all()
    torch.testing.assert_close(values[1], torch.linalg.eigvalsh(stack[1].cpu()))


@pytest.mark.parametrize("form", ["random", "general"])
def test_norms(form, device):
    stack = torch.stack([weight(form, 5, seed) for seed in range(3)]).to(device)
    weights = Weights(stack)
    spectral = torch.linalg.svdvals(stack)[:, 0].tolist()
    assert weights.spectral == pytest.approx(spectral, rel=1e-12)
    frobenius = stack.square().sum((1, 2)).sqrt().tolist()
    assert weights.frobenius == pytest.approx(frobenius, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_asymmetry_is_found_above_rounding(dtype, device):
    symmetric = weight("random", 4).to(device, dtype)
    size, eps = symmetric.abs().max().item(), torch.finfo(dtype).eps
    for factor, expected in ((0, True), (2, True), (100, False), (1e6, False)):
        other = symmetric.clone()
        other[0, 1] += factor * eps * size
        assert Weights(other.unsqueeze(0)).symmetric is expected
        # One that is not, among many that are.
        assert Weights(torch.stack([symmetric, other, symmetric])).symmetric is expected


def test_transposing(device):
    stack = torch.stack([weight("general", 4, seed) for seed in range(2)]).to(device)
    weights = Weights(stack)
    assert not weights.symmetric
    torch.testing.assert_close(weights.transposed().tensor, stack.transpose(1, 2))


def test_no_channels(device):
    weights = Weights(torch.zeros(2, 0, 0, dtype=torch.float64, device=device))
    assert weights.symmetric
    assert weights.spectral == [0.0, 0.0]


class TestKnownWeights:
    def weights(self):
        factor = torch.rand(3, 5, 5, dtype=torch.float64)
        return factor.mT @ factor / 20

    def test_the_same_numbers_are_not_decomposed_again(self, device):
        known, tensor = KnownWeights(), self.weights().to(device)
        first = known.of(tensor)
        assert known.of(tensor.clone()) is first

    @pytest.mark.parametrize("change", ["in place", "dtype", "fewer"])
    def test_any_change_is_noticed(self, change, device):
        known, tensor = KnownWeights(), self.weights().to(device)
        first = known.of(tensor)
        _ = first.decoupling
        if change == "in place":
            tensor[1, 2, 3] += 1e-15
        elif change == "dtype":
            tensor = tensor.float()
        else:
            tensor = tensor[:2]
        second = known.of(tensor)
        assert second is not first
        expected = torch.linalg.eigvalsh(tensor.double().cpu())
        torch.testing.assert_close(second.decoupling.eigenvalues, expected)

    def test_copies_and_pickles_are_empty(self):
        known = KnownWeights()
        known.of(self.weights())
        for copied in (copy.deepcopy(known), pickle.loads(pickle.dumps(known))):
            assert copied._last is None

    def test_what_is_proven_of_them_is_a_difference(self, device):
        known, tensor = KnownWeights(), self.weights().to(device)
        first = known.of(tensor)
        second = known.of(tensor, normed=True)
        assert second.normed
        assert not first.normed
        assert known.of(tensor, normed=True) is second

    def test_it_knows_which_it_holds(self, device):
        known, tensor = KnownWeights(), self.weights().to(device)
        first = known.of(tensor)
        assert known.holds(first)
        second = known.of(2 * tensor)
        assert known.holds(second)
        assert not known.holds(first)

    def test_memory_of_an_inference_pass_is_not_held(self, device):
        known, tensor = KnownWeights(), self.weights().to(device)
        with torch.inference_mode():
            known.of(tensor)
        assert known._last is None
