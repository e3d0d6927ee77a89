"""The large eigenvalues of wide weights, against all eigenvalues by dense linear algebra."""

import pytest
import torch

from mgnni.solve.outliers import BLOCK, KEPT, outliers
from problems import generator


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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_outliers_are_eigenpairs(dtype, device):
    pairs = [with_spectrum(trained(200), seed) for seed in (0, 1)]
    weight = torch.stack([w for w, _ in pairs]).to(device, dtype)
    found = outliers(weight)
    assert found.values.shape == (2, KEPT)
    rounding = 50 * torch.finfo(dtype).eps
    for index, (_, vectors) in enumerate(pairs):
        values = found.values[index, :3].tolist()
        assert values == pytest.approx([0.9, -0.4, 0.1], rel=1e-6)
        # Of both signs: an eigenvector is one up to its sign.
        angle = (found.vectors[index, :2].double().cpu() * vectors[:2]).sum(1).abs()
        torch.testing.assert_close(angle, torch.ones_like(angle), rtol=0, atol=1e-6)
        x, e = found.vectors[index].double(), found.rest[index].double()
        eye = torch.eye(KEPT, dtype=torch.float64, device=device)
        torch.testing.assert_close(x @ x.T, eye, rtol=0, atol=rounding)
        torch.testing.assert_close(x @ e.T, torch.zeros_like(eye), rtol=0, atol=rounding)
        image = x @ weight[index].double()
        theta = found.values[index].unsqueeze(1)
        torch.testing.assert_close(theta * x + e, image, rtol=0, atol=rounding)


def test_all_other_eigenvalues_lie_in_the_interval(device):
    weight = with_spectrum(trained(300))[0].to(device)
    found = outliers(weight.unsqueeze(0))
    x = found.vectors[0]
    across = torch.eye(300, dtype=torch.float64, device=device) - x.T @ x
    rest = torch.linalg.eigvalsh(across @ weight @ across)
    (low, high) = found.interval[0]
    assert low <= rest.min() * 0.8
    assert rest.max() * 0.8 <= high
    assert high < 0.01  # and none of the outliers does


def test_positive_semidefinite_weights_have_an_interval_from_zero(device):
    factor = torch.randn(150, 150, dtype=torch.float64, device=device)
    gram = factor.T @ factor
    low, high = outliers((gram / gram.norm()).unsqueeze(0)).interval[0]
    assert low == 0 < high


@pytest.mark.parametrize("rank", [0, 1, 40])
def test_directions_that_do_not_exist_are_rows_of_zeros(rank, device):
    values = torch.zeros(100, dtype=torch.float64)
    values[:rank] = torch.linspace(0.2, 0.1, rank, dtype=torch.float64)
    weight = with_spectrum(values)[0].to(device)
    found = outliers(weight.unsqueeze(0))
    x = found.vectors[0]
    assert x.isfinite().all()
    norms = x.norm(dim=1)
    assert bool(((norms - 1).abs() < 1e-9).logical_or(norms == 0).all())
    largest = torch.linalg.eigvalsh(weight)[-1].item()
    assert found.values[0].max().item() == pytest.approx(largest, abs=1e-3)


@pytest.mark.parametrize("channels", [1, 5, 2 * BLOCK])
def test_narrow_weights_are_decomposed_in_full(channels, device):
    weight = with_spectrum(torch.linspace(-0.3, 0.9, channels))[0].to(device)
    found = outliers(weight.unsqueeze(0))
    expected = torch.linalg.eigvalsh(weight)
    torch.testing.assert_close(found.values[0].sort().values, expected, rtol=0, atol=1e-13)
    assert found.rest.abs().max() < 1e-13
    assert found.interval == [[0.0, 0.0]]


def test_the_same_weight_has_the_same_outliers(device):
    weight = with_spectrum(trained(100))[0].to(device).unsqueeze(0)
    torch.manual_seed(1)
    first = outliers(weight)
    torch.manual_seed(2)
    second = outliers(weight)
    torch.testing.assert_close(first.vectors, second.vectors, rtol=0, atol=0)
