"""Well-posed weights: singular values, and a bound on the symmetric part."""

import pytest
import torch

from mgnni.errors import ArgumentError
from mgnni.layers.well_posed import MonotoneWeight, OrthogonalWeight


@pytest.mark.parametrize("channels", [1, 2, 7, 10])
@pytest.mark.parametrize("mu", [-2.0, 0.0, 1.0, 30.0])
def test_all_singular_values_of_an_orthogonal_weight_are_equal(channels, mu, device):
    layer = OrthogonalWeight(channels, kappa=0.7).to(device, torch.float64)
    with torch.no_grad():
        layer.mu.fill_(mu)
        layer.skew.mul_(5)
        weight = layer()
    size = 0.7 / (1 + torch.tensor(-mu, dtype=torch.float64).exp())
    square = size**2 * torch.eye(channels, dtype=torch.float64)
    torch.testing.assert_close((weight @ weight.T).cpu(), square, rtol=0, atol=1e-12)
    # The Cayley transform has determinant one; the signs decide.
    negative = int((layer.signs < 0).sum())
    assert negative == int(0.2 * channels)
    assert torch.linalg.det(weight).sign().item() == (-1) ** negative


def test_the_cayley_transform_of_a_rotation_is_known(device):
    layer = OrthogonalWeight(2, kappa=0.5, negative=0.0).to(device, torch.float64)
    with torch.no_grad():
        layer.mu.fill_(0.0)
        layer.skew.copy_(torch.tensor([[0.0, 0.3], [0.0, 0.0]]))
    angle = torch.tensor(2 * 0.3, dtype=torch.float64)  # tan(angle / 2) is the entry, below
    angle = 2 * torch.atan(angle / 2)
    turn = torch.stack(
        [torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])]
    )
    torch.testing.assert_close(layer().cpu().detach(), 0.25 * turn)


def test_signs_are_random_and_part_of_the_state_dict(device):
    torch.manual_seed(1)
    layer = OrthogonalWeight(40).to(device)
    assert "signs" in layer.state_dict()
    before = layer.signs.clone()
    layer.reset_parameters()
    assert (layer.signs != before).any()
    assert int((layer.signs < 0).sum()) == 8
    assert layer.mu.item() == 1.0


@pytest.mark.parametrize("mu", [-3.0, 0.0, 0.7])
def test_with_a_laplacian_a_monotone_weight_is_strongly_monotone(mu, device):
    layer = MonotoneWeight(4).to(device, torch.float64)
    with torch.no_grad():
        layer.mu.fill_(mu)
        layer.root.mul_(4)
        layer.skew.mul_(4)
        weight = layer().cpu()
    assert (weight - weight.T).abs().max() > 0.1
    laplacian = torch.diag(torch.linspace(0, 2, 9, dtype=torch.float64))
    system = torch.eye(36, dtype=torch.float64) - torch.kron(laplacian, weight)
    smallest = torch.linalg.eigvalsh((system + system.T) / 2).min().item()
    m = torch.tensor(mu, dtype=torch.float64).exp().item()
    assert smallest >= min(1, m) - 1e-12
    assert torch.linalg.matrix_norm(weight, 2) > 1  # so that the plain map need not contract


@pytest.mark.parametrize("kappa", [0, 1, 1.5, "0.9"])
def test_a_kappa_that_does_not_contract_is_refused(kappa):
    with pytest.raises(ArgumentError, match="'kappa' must lie in"):
        OrthogonalWeight(3, kappa)
