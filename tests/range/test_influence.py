"""Influence in linear equilibria against dense inverses, autograd and closed forms."""

from __future__ import annotations

import pytest
import torch

from mgnni import MultiscaleEquilibrium, normalized_gram, solve_equilibrium
from mgnni.errors import ArgumentError
from mgnni.range import (
    Resolvent,
    chain_influence,
    hop_profile,
    hops_to,
    linear_influence,
    resolvent_rows,
)
from mgnni.range import influence as module
from range.graphs import chain, dense_resolvent, random_graph


def gram(channels: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    factor = torch.randn(1, channels, channels, dtype=torch.float64, generator=generator)
    return normalized_gram(factor)[0]


@pytest.mark.parametrize("numbers", [1, 2**26], ids=["one by one", "together"])
def test_influence_is_the_norm_of_dense_inverses(
    numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "NUMBERS", numbers)  # one node at a time, or all
    for seed in range(12 if numbers == 1 else 40):
        propagation, weight = random_graph(seed), gram(5, seed)
        gamma, scale = (0.5, 0.8, 0.95)[seed % 3], 1 + seed % 5
        inverse = torch.stack(
            [
                dense_resolvent(propagation, gamma * value, scale)
                for value in torch.linalg.eigvalsh(weight).tolist()
            ]
        )
        for norm, exact in {
            "spectral": inverse.abs().amax(0),
            "frobenius": torch.linalg.vector_norm(inverse, dim=0),
        }.items():
            found = linear_influence(propagation, weight, gamma, scale, norm=norm)
            torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-10)


def test_an_indefinite_weight_has_the_largest_entry_of_all_eigenvalues() -> None:
    propagation = chain(6, directed=True)
    weight = torch.diag(torch.tensor([0.3, -0.9], dtype=torch.float64))
    found = linear_influence(propagation, weight)
    each = [dense_resolvent(propagation, 0.8 * value).abs() for value in (0.3, -0.9)]
    torch.testing.assert_close(found, torch.maximum(*each), rtol=1e-9, atol=1e-12)


def test_influence_is_that_of_the_implicit_gradient() -> None:
    propagation, weight = random_graph(11), gram(3)
    bias = torch.randn(propagation.num_nodes, 3, dtype=torch.float64)

    def states(bias: torch.Tensor) -> torch.Tensor:
        return solve_equilibrium(propagation, weight, bias, 2, 0.9, tol=1e-12).value

    jacobian = torch.autograd.functional.jacobian(states, bias)  # (q, channels, p, channels)
    exact = torch.linalg.vector_norm(jacobian, dim=(1, 3))
    found = linear_influence(propagation, weight, 0.9, 2, norm="frobenius")
    torch.testing.assert_close(found, exact, rtol=1e-8, atol=1e-10)
    largest = torch.linalg.matrix_norm(jacobian.permute(0, 2, 1, 3), 2)
    torch.testing.assert_close(
        linear_influence(propagation, weight, 0.9, 2), largest, rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("loop", [0.0, 1.0])
def test_influence_on_chains_is_the_closed_form(directed: bool, loop: float) -> None:
    propagation = chain(60, directed, loop)
    resolvents = [Resolvent(mu, scale) for mu in (0.5, 0.8) for scale in (1, 2, 4, 8)]
    rows = resolvent_rows(propagation, resolvents, torch.arange(60))
    for one, found in zip(resolvents, rows, strict=True):
        for node in (0, 30):
            exact = chain_influence(one.mu, 60, node, one.scale, directed=directed, loop=loop)
            torch.testing.assert_close(found[:, node], exact, rtol=0, atol=1e-10)


def test_a_large_scale_has_long_gaps_between_its_terms() -> None:
    """In powers of P, only every 40th has a coefficient."""
    found = linear_influence(chain(90, directed=True), 1.0, 0.8, 40)
    torch.testing.assert_close(
        found, dense_resolvent(chain(90, directed=True), 0.8, 40), rtol=1e-9, atol=1e-10
    )


def test_the_measured_range_grows_like_the_root_of_the_scale_unless_directed() -> None:
    for directed, growth in ((False, 2.0), (True, 4.0)):
        propagation, last = chain(1500, directed), torch.tensor([1400])
        distance = hops_to(propagation, last)
        found = []
        for scale in (4, 16, 64) if not directed else (1, 4, 16):
            rows = linear_influence(propagation, 1.0, 0.8, scale, last)
            profile = hop_profile(rows, distance, sampled_from=1500)
            found.append(profile.effective_range(1e-6))
        assert found[1] / found[0] == pytest.approx(growth, rel=0.15)
        assert found[2] / found[1] == pytest.approx(growth, rel=0.15)


def test_float32_ends_the_range_of_gamma_one_half_at_about_25_hops() -> None:
    """As in the paper: mask the first node of a chain, in float32 and with its tolerance."""
    for directed in (True, False):
        propagation = chain(100, directed).to(torch.float32)
        layer = MultiscaleEquilibrium(8, scales=(1,), gamma=0.5, solver="picard")
        with torch.no_grad():  # g(F) has rank one, so that its largest eigenvalue is one
            layer.factor.zero_()
            layer.factor[0, 0, 0] = 1.0
        bias = torch.zeros(100, 8)
        bias[0] = 1.0
        with torch.no_grad():
            states = layer(bias, propagation)[0]
            masked = layer(torch.zeros_like(bias), propagation)[0]
        moved = torch.linalg.vector_norm(states - masked, dim=1)
        exact = chain_influence(0.5, 100, 0, directed=directed)
        assert (moved[:8] > 1e-6).all()
        assert (moved[25:] == 0).all(), "Picard iteration has stopped before it gets there"
        assert (exact[25:60] > 0).all(), "in exact arithmetic it never is zero"
        assert (exact[25:] < torch.finfo(torch.float32).eps * exact[0]).all()


def test_a_weight_that_is_not_symmetric_is_refused() -> None:
    weight = torch.tensor([[0.0, 0.5], [0.0, 0.0]])
    with pytest.raises(
        ArgumentError, match=r"'weight' must be a symmetric matrix .*jacobian_influence"
    ):
        linear_influence(chain(4, True), weight)
    with pytest.raises(ArgumentError, match="'norm' must be one of"):
        linear_influence(chain(4, True), norm="nuclear")
