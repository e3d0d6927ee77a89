"""The closed form on graphs whose spectrum is known by heart."""

import math

import torch

from mgnni import Propagation, solve_equilibrium
from problems import generator


def test_a_ring_diagonalises_by_waves(device):
    r"""On a ring of n nodes a wave of frequency k has eigenvalue (1 + 2 cos(2 pi k / n)) / 3."""
    n, gamma, scale = 12, 0.95, 3
    nodes = torch.arange(n)
    forth = torch.stack([nodes, (nodes + 1) % n])
    edge_index = torch.cat([forth, forth.flip(0)], dim=1).to(device)
    operator = Propagation.from_edge_index(edge_index, n, dtype=torch.float64)
    w = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64, device=device)  # +1 and -1
    for k in range(n // 2 + 1):
        wave = torch.cos(2 * math.pi * k * nodes.double() / n).to(device)
        s = ((1 + 2 * math.cos(2 * math.pi * k / n)) / 3) ** scale
        bias = torch.stack([wave, torch.zeros_like(wave)], dim=1)
        result = solve_equilibrium(operator, w, bias, scale, gamma, solver="spectral", tol=1e-12)
        # (I - g s W)^{-1} = [[1, g s], [g s, 1]] / (1 - g^2 s^2)
        below = 1 - (gamma * s) ** 2
        expected = torch.stack([wave / below, gamma * s * wave / below], dim=1)
        torch.testing.assert_close(result.value, expected, rtol=0, atol=1e-12)
        assert result.iterations == 0


def test_every_equation_of_a_batch_uses_the_eigenpairs_found_once(device, monkeypatch):
    calls = []
    eigh = torch.linalg.eigh

    def counted(matrix, *args, **kwargs):
        calls.append(matrix.shape)
        return eigh(matrix, *args, **kwargs)

    edge_index = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]], device=device)
    batch = torch.tensor([0, 0, 1, 1, 2], device=device)
    operator = Propagation.from_edge_index(edge_index, 5, batch=batch, dtype=torch.float64)
    w = torch.full((1, 1), 0.5, dtype=torch.float64, device=device)
    monkeypatch.setattr(torch.linalg, "eigh", counted)
    for seed in range(3):
        bias = torch.randn(5, 1, dtype=torch.float64, generator=generator(seed)).to(device)
        result = solve_equilibrium(operator, w, bias, 1, 0.8, solver="spectral", tol=1e-13)
        # Pairs: P is all 1/2, so the mean is divided by 1 - 0.4; the lone node likewise.
        pairs = bias[:4].view(2, 2)
        mean = pairs.mean(1, keepdim=True)
        expected = (pairs - mean + mean / 0.6).view(4, 1)
        torch.testing.assert_close(result.value[:4], expected)
        torch.testing.assert_close(result.value[4], bias[4] / 0.6)
    assert [shape for shape in calls if len(shape) == 3 and shape[-1] > 1] == [(3, 2, 2)]
