"""Weights against dense linear algebra: eigenpairs, norms, transposes and outliers."""

import pytest
import torch

from kernels.reference import use_kernels
from mgnni.solve.weights import BLOCK, KEPT, WIDE, Weights, find_outliers
from problems import generator, weight


def with_spectrum(values, seed=0):
    """A symmetric matrix with these eigenvalues, and its eigenvectors in rows."""
    values = torch.as_tensor(values, dtype=torch.float64)
    square = torch.randn(len(values), len(values), dtype=torch.float64, generator=generator(seed))
    vectors = torch.linalg.qr(square).Q.T
    return vectors.T @ (values.unsqueeze(1) * vectors), vectors


def trained(channels):
    """Few large eigenvalues, one of them negative, and many small ones of both signs."""
    bulk = torch.linspace(-0.002, 0.004, channels - 4, dtype=torch.float64)
    return torch.cat([torch.tensor([0.9, -0.4, 0.1, 0.03], dtype=torch.float64), bulk])


@pytest.mark.parametrize("form", ["random", "rank-one", "identity", "indefinite"])
def test_symmetric_weights_are_their_eigenpairs(form, device):
    stack = torch.stack([weight(form, 5, seed) for seed in range(3)]).to(device)
    weights = Weights(stack)
    assert weights.symmetric
    assert weights.transposed() is weights
    q, values = weights.eigenpairs.vectors, weights.eigenpairs.values.to(device)
    torch.testing.assert_close(q @ torch.diag_embed(values) @ q.mT, stack, rtol=0, atol=1e-14)
    eye = torch.eye(5, dtype=torch.float64, device=device).expand(3, 5, 5)
    torch.testing.assert_close(q.mT @ q, eye, rtol=0, atol=1e-14)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("channels", [5, 116, 130])
def test_gram_weights_are_their_eigenpairs_by_kernel_or_by_lapack(
    channels, exact, device, monkeypatch
):
    use_kernels(device, monkeypatch)
    stack = torch.stack([weight("random", channels, seed) for seed in range(2)]).float()
    weights = Weights(stack.to(device), psd_norm=1.0, exact=exact)
    found = weights.eigenpairs
    again = (
        found.vectors.double().cpu() * found.values.unsqueeze(1) @ found.vectors.double().cpu().mT
    )
    torch.testing.assert_close(again, stack.double(), rtol=0, atol=1e-6)
    largest = torch.linalg.matrix_norm(stack.double(), 2)
    for spectral, norm in zip(weights.spectral, largest.tolist(), strict=True):
        assert norm * (1 - 1e-12) <= spectral <= norm + 2e-6  # the error of a kernel is included
    # As the kernels read them: falling, and padded with zeros.
    values, vectors = weights.device_eigenpairs()
    assert values.size(1) == vectors.size(2) >= channels
    assert values.size(1) % 8 == 0
    assert torch.equal(values, values.sort(descending=True).values)
    again = vectors.double() * values.unsqueeze(1) @ vectors.double().mT
    torch.testing.assert_close(again.cpu(), stack.double(), rtol=0, atol=1e-6)


def test_a_weight_that_is_not_finite_leaves_the_others_theirs(device):
    stack = torch.stack([weight("random", 5, seed) for seed in range(2)]).to(device)
    stack[0, 1, 2] = torch.inf
    values = Weights(stack, psd_norm=1.0).eigenpairs.values
    assert values[0].isnan().all()
    torch.testing.assert_close(values[1], torch.linalg.eigvalsh(stack[1].cpu()))


@pytest.mark.parametrize("form", ["random", "general"])
def test_norms_are_those_of_a_singular_value_decomposition(form, device):
    stack = torch.stack([weight(form, 5, seed) for seed in range(3)]).to(device)
    weights = Weights(stack)
    spectral = torch.linalg.svdvals(stack)[:, 0].tolist()
    assert weights.spectral == pytest.approx(spectral, rel=1e-12)
    assert weights.transposed().spectral == pytest.approx(spectral, rel=1e-12)
    frobenius = stack.square().sum((1, 2)).sqrt().tolist()
    assert weights.frobenius == pytest.approx(frobenius, rel=1e-12)


def test_a_negative_eigenvalue_counts_by_its_size(device):
    w = torch.diag(torch.tensor([0.3, -0.9], dtype=torch.float64)).unsqueeze(0).to(device)
    assert Weights(w).spectral == [pytest.approx(0.9)]
    assert Weights(2 * w).spectral == [pytest.approx(1.8)]


def test_the_spectral_norm_of_a_very_wide_symmetric_weight_is_exact(device):
    values = torch.linspace(-0.8, 0.3, WIDE + 1, dtype=torch.float64)
    w = with_spectrum(values)[0].unsqueeze(0).to(device)
    assert Weights(w).spectral == [pytest.approx(0.8, rel=1e-10)]


def test_gram_weights_have_norms_of_at_most_one(device):
    weights = Weights(weight("random", 5).unsqueeze(0).to(device), psd_norm=1.0)
    assert weights.frobenius == [1.0]
    assert weights.symmetric


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_asymmetry_is_found_above_rounding(dtype, device):
    symmetric = weight("random", 4).to(device, dtype)
    size, eps = symmetric.abs().max().item(), torch.finfo(dtype).eps
    for factor, expected in ((0, True), (2, True), (100, False), (1e6, False)):
        other = symmetric.clone()
        other[0, 1] += factor * eps * size
        assert Weights(other.unsqueeze(0)).symmetric is expected
        # One that is not symmetric, among others that are.
        assert Weights(torch.stack([symmetric, other, symmetric])).symmetric is expected


def test_transposed_weights_are_transposed_back_to_themselves(device):
    stack = torch.stack([weight("general", 4, seed) for seed in range(2)]).to(device)
    weights = Weights(stack)
    assert not weights.symmetric
    torch.testing.assert_close(weights.transposed().tensor, stack.transpose(1, 2))
    assert weights.transposed().transposed() is weights


def test_weights_without_channels_are_symmetric_and_of_norm_zero(device):
    weights = Weights(torch.zeros(2, 0, 0, dtype=torch.float64, device=device))
    assert weights.symmetric
    assert weights.spectral == [0.0, 0.0]


class TestOutliers:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
    def test_outliers_are_eigenpairs(self, dtype, device):
        pairs = [with_spectrum(trained(200), seed) for seed in (0, 1)]
        weight = torch.stack([w for w, _ in pairs]).to(device, dtype)
        found = find_outliers(weight)
        assert found.values.shape == (2, KEPT)
        rounding = 50 * torch.finfo(dtype).eps
        for index, (_, vectors) in enumerate(pairs):
            values = found.values[index, :3].tolist()
            assert values == pytest.approx([0.9, -0.4, 0.1], rel=1e-6)
            # Eigenvectors are unique up to their sign.
            angle = (found.vectors[index, :2].double().cpu() * vectors[:2]).sum(1).abs()
            torch.testing.assert_close(angle, torch.ones_like(angle), rtol=0, atol=1e-6)
            x, e = found.vectors[index].double(), found.rest[index].double()
            eye = torch.eye(KEPT, dtype=torch.float64, device=device)
            torch.testing.assert_close(x @ x.T, eye, rtol=0, atol=rounding)
            torch.testing.assert_close(x @ e.T, torch.zeros_like(eye), rtol=0, atol=rounding)
            image = x @ weight[index].double()
            theta = found.values[index].unsqueeze(1)
            torch.testing.assert_close(theta * x + e, image, rtol=0, atol=rounding)

    def test_all_other_eigenvalues_lie_in_the_interval(self, device):
        weight = with_spectrum(trained(300))[0].to(device)
        found = find_outliers(weight.unsqueeze(0))
        x = found.vectors[0]
        across = torch.eye(300, dtype=torch.float64, device=device) - x.T @ x
        rest = torch.linalg.eigvalsh(across @ weight @ across)
        (low, high) = found.interval[0]
        assert low <= rest.min() * 0.8
        assert rest.max() * 0.8 <= high
        assert high < 0.01  # so no outlier does

    def test_positive_semidefinite_weights_have_an_interval_from_zero(self, device):
        factor = torch.randn(150, 150, dtype=torch.float64, device=device)
        gram = factor.T @ factor
        low, high = find_outliers((gram / gram.norm()).unsqueeze(0)).interval[0]
        assert low == 0 < high

    @pytest.mark.parametrize("rank", [0, 1, 40])
    def test_directions_that_do_not_exist_are_rows_of_zeros(self, rank, device):
        values = torch.zeros(100, dtype=torch.float64)
        values[:rank] = torch.linspace(0.2, 0.1, rank, dtype=torch.float64)
        weight = with_spectrum(values)[0].to(device)
        found = find_outliers(weight.unsqueeze(0))
        x = found.vectors[0]
        assert x.isfinite().all()
        norms = x.norm(dim=1)
        assert bool(((norms - 1).abs() < 1e-9).logical_or(norms == 0).all())
        largest = torch.linalg.eigvalsh(weight)[-1].item()
        assert found.values[0].max().item() == pytest.approx(largest, abs=1e-3)

    @pytest.mark.parametrize("channels", [1, 5, 2 * BLOCK])
    def test_narrow_weights_are_decomposed_completely(self, channels, device):
        weight = with_spectrum(torch.linspace(-0.3, 0.9, channels))[0].to(device)
        found = find_outliers(weight.unsqueeze(0))
        expected = torch.linalg.eigvalsh(weight)
        torch.testing.assert_close(found.values[0].sort().values, expected, rtol=0, atol=1e-13)
        assert found.rest.abs().max() < 1e-13
        assert found.interval == [[0.0, 0.0]]

    def test_the_same_weight_has_the_same_outliers(self, device):
        weight = with_spectrum(trained(100))[0].to(device).unsqueeze(0)
        torch.manual_seed(1)
        first = find_outliers(weight)
        torch.manual_seed(2)
        second = find_outliers(weight)
        torch.testing.assert_close(first.vectors, second.vectors, rtol=0, atol=0)
