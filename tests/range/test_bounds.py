"""Sound bounds hold for every graph; those of the paper do not."""

from __future__ import annotations

import math

import pytest
import torch

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.range.bounds import (
    contraction,
    distance_bound,
    sound_bound,
    sound_range,
    symmetric_bound,
    walks,
)
from mgnni.range.hops import hops_from
from mgnni.range.printed import printed_bound, printed_range
from problems import dense_solution
from range.graphs import chain, dense_resolvent, random_graph

ONE = torch.eye(1, dtype=torch.float64)


@pytest.mark.parametrize("block", range(5))
def test_no_change_exceeds_the_sound_bound(block: int) -> None:
    tight = 0
    for seed in range(100 * block, 100 * (block + 1)):
        propagation = random_graph(seed)
        generator = torch.Generator().manual_seed(seed)
        nodes, channels = propagation.num_nodes, 1 + seed % 4
        weight = torch.randn(channels, channels, dtype=torch.float64, generator=generator)
        if seed % 2:  # the weights of MGNNI are symmetric, but the bound does not need that
            weight = weight.mT @ weight
        weight = weight / torch.linalg.matrix_norm(weight, 2 if seed % 3 else "fro")
        gamma, scale, node = (0.5, 0.8, 0.95)[seed % 3], 1 + seed % 5, seed % nodes
        change = torch.zeros(nodes, channels, dtype=torch.float64)
        change[node] = 10 ** (seed % 3) * torch.randn(
            channels, dtype=torch.float64, generator=generator
        )
        moved = torch.linalg.vector_norm(
            dense_solution(propagation, weight, change, scale, gamma), dim=1
        )
        hops = hops_from(propagation, torch.tensor([node]))[0]
        bound = sound_bound(propagation, node, hops, weight, gamma, scale)
        bound = bound * torch.linalg.vector_norm(change)
        assert (moved <= bound * (1 + 1e-9) + 1e-12).all(), f"seed {seed}"
        assert (moved[hops < 0] <= 1e-12).all()
        tight += int((moved > 0.5 * bound).sum())
    assert tight > 10, "the bounds must not be so large that they say nothing"


@pytest.mark.parametrize(
    ("directed", "hops", "truth", "printed"), [(True, 5, 0.219, 0.0512), (False, 2, 0.533, 0.435)]
)
def test_theorem_1_as_printed_is_false(
    directed: bool, hops: int, truth: float, printed: float
) -> None:
    propagation = chain(60, directed, normalization="out" if directed else "sym")
    first = torch.zeros(60, 1, dtype=torch.float64)
    first[0] = 1.0
    moved = float(dense_solution(propagation, ONE, first, 1, 0.8)[hops])
    entry = float(walks(propagation, 0, hops)[hops])
    claimed = printed_bound(torch.ones(1), ONE, entry, hops, gamma=0.8)
    distance = hops_from(propagation, torch.tensor([0]))[0]
    sound = float(sound_bound(propagation, 0, distance, gamma=0.8)[hops])
    assert claimed < moved <= sound
    assert moved == pytest.approx(truth, rel=5e-3)
    assert claimed == pytest.approx(printed, rel=5e-3)


@pytest.mark.parametrize("scale", [2, 4])
def test_theorem_3_as_printed_is_false(scale: int) -> None:
    hops = 4
    propagation = chain(41, directed=False)
    moved = float(dense_resolvent(propagation, 0.8, scale)[20 + hops, 20])
    entry = float(walks(propagation, 20, hops)[20 + hops])
    assert printed_bound(torch.ones(1), ONE, entry, hops, 0.8, scale) < moved
    assert moved <= float(distance_bound(0.8, torch.tensor(hops), scale))


def test_corollary_1_fails_for_the_normalisation_of_the_authors() -> None:
    # p -> 1000 nodes -> q: the out-degree of q is one, so that its state is not divided.
    middle = torch.arange(1, 1001)
    edges = torch.cat(
        [torch.stack([0 * middle, middle]), torch.stack([middle, 0 * middle + 1001])], dim=1
    )
    propagation = Propagation.from_edge_index(edges, 1002, normalization="out", dtype=torch.float64)
    bias = torch.zeros(1002, 1, dtype=torch.float64)
    bias[0] = 1.0
    moved = float(dense_solution(propagation, ONE, bias, 1, 0.8)[-1])
    theta = 4.0
    assert moved > theta, "so the effective range is at least two hops"
    assert printed_range(theta, 0.8) < 2
    hops = hops_from(propagation, torch.tensor([0]))[0]
    assert moved <= float(sound_bound(propagation, 0, hops, gamma=0.8)[-1])


def test_corollary_1_holds_if_the_operator_and_the_change_have_norm_one() -> None:
    for theta in (1e-12, 1e-6, 0.1, 1.0):
        for gamma in (0.2, 0.8, 0.99):
            for scale in (1, 3, 8):
                assert sound_range(theta, gamma, scale) <= max(
                    math.floor(printed_range(theta, gamma, scale)), 0
                )


def test_a_very_long_range_is_not_cut_off() -> None:
    for gap in (1e-8, 1e-12, 2.0**-53):
        for scale in (1, 100):
            found = sound_range(1e-6, 1 - gap, scale)
            exact = scale * (math.log(1e-6 * gap) / math.log1p(-gap))
            assert found == pytest.approx(exact, rel=1e-3)


def test_the_range_of_an_undirected_graph_grows_like_the_root_of_the_scale() -> None:
    found = [sound_range(1e-6, 0.8, scale, symmetric=True) for scale in (1, 4, 16, 64, 256)]
    assert found == [22, 46, 92, 184, 366]
    assert printed_range(1e-6, 0.8, 256) > 17_000
    for rate in (0.3, 0.8, 0.99):  # the closed form in docs/math.md
        for scale in (1, 5, 100):
            closed = math.sqrt(scale / math.log(1 / rate)) * math.log(
                2 / ((1 - math.sqrt(rate)) * 1e-6)
            )
            assert sound_range(1e-6, rate, scale, symmetric=True) <= closed
    for scale in (1, 7, 50):
        bound = math.sqrt(2 * math.log(1 / 0.8) / scale)
        far = torch.tensor([400, 401])
        one, other = symmetric_bound(0.8, far, scale).tolist()
        assert math.log(one / other) >= bound


def test_the_symmetric_bound_is_twice_the_sum_of_a_chain_and_no_larger_than_the_other() -> None:
    # On the infinite chain without loops the influence at d hops is half the coefficient c_d.
    hops = torch.arange(40)
    for scale in (1, 2, 3):
        middle = dense_resolvent(chain(801, False, 0.0), 0.8, scale)[400:, 400]
        bound = symmetric_bound(0.8, hops, scale)
        tails = 2 * middle.flip(0).cumsum(0).flip(0)
        torch.testing.assert_close(bound[1:], tails[1:40], rtol=1e-9, atol=1e-14)
        assert float(bound[0]) == pytest.approx(5.0)
        assert (bound <= distance_bound(0.8, hops, scale) * (1 + 1e-12)).all()


def test_without_propagation_nothing_travels() -> None:
    hops = torch.tensor([0, 1, 2, -1])
    for bound in (distance_bound, symmetric_bound):
        for scale in (1, 3):
            assert bound(0.0, hops, scale).tolist() == [1, 0, 0, 0]
    assert sound_range(1e-6, 0.0, symmetric=True) == 0


def test_a_directed_chain_exceeds_the_bound_of_undirected_graphs() -> None:
    propagation = chain(41, directed=True, loop=0.0)
    moved = dense_resolvent(propagation, 0.8)[:, 0]
    hops = hops_from(propagation, torch.tensor([0]))[0]
    assert float(moved[40]) > 1000 * float(symmetric_bound(0.8, hops)[40])
    assert (moved <= sound_bound(propagation, 0, hops, gamma=0.8) * (1 + 1e-9)).all()


def test_the_bound_knows_the_largest_eigenvalue_and_the_norm_of_the_operator() -> None:
    propagation = chain(5, False)
    weight = torch.diag(torch.tensor([0.5, -0.25]))
    assert contraction(propagation, weight, 0.8) == pytest.approx(0.4)
    assert contraction(propagation, 0.5, 0.8, 3) == pytest.approx(0.4)
    edges = torch.tensor([[0, 1], [1, 0]])
    weighted = Propagation.from_edge_index(
        edges, 2, torch.full((2,), 0.5), normalization="none", self_loops=False
    )
    assert contraction(weighted, 1.0, 0.8, 2) == pytest.approx(0.2, rel=1e-5)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"'contraction' must lie in \[0, 1\) \(got 1.5\)"):
        distance_bound(1.5, torch.tensor([1]))
    with pytest.raises(ArgumentError, match=r"'theta' must lie in \(0, inf\)"):
        sound_range(0.0, 0.5)
    with pytest.raises(ArgumentError, match="'gamma' must be above 0"):
        printed_range(1e-6, 0.0)
