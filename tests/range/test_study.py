"""A study of a graph: measured ranges stay below what is proven, and advice is right."""

from __future__ import annotations

import pytest
import torch

from mgnni import Propagation
from mgnni.errors import ArgumentError
from mgnni.range import chain_influence, linear_influence
from mgnni.range.advice import advise, recommend
from mgnni.range.bounds import walks
from mgnni.range.hops import hops_to
from mgnni.range.study import (
    Setting,
    labeled_pairs,
    sample_nodes,
    shortest_walks,
    study_range,
)
from range.graphs import chain, random_graph

SETTINGS = [Setting(gamma, scale) for gamma in (0.5, 0.9) for scale in (1, 4)]


@pytest.mark.parametrize("directed", [True, False])
def test_a_chain_has_the_range_of_its_closed_form(directed: bool) -> None:
    study = study_range(chain(80, directed), SETTINGS, theta=1e-4, labeled=torch.arange(0, 80, 2))
    assert study.longest == 79
    assert study.nodes.tolist() == list(range(80))
    for one in study.ranges:
        setting = one.setting
        exact = torch.stack(
            [
                chain_influence(setting.gamma, 80, node, setting.scale, directed=directed)
                for node in range(80)
            ],
            dim=1,
        )
        place = torch.arange(80)
        apart = place.unsqueeze(1) - place  # q - p
        apart = apart if directed else apart.abs()
        above = apart[(exact > 1e-4) & (apart >= 0)]
        assert one.measured == int(above.max())
        assert one.proven is not None
        assert one.measured <= one.proven <= one.printed
        pairs = (apart[::2, ::2] > 0).sum()
        inside = ((apart[::2, ::2] > 0) & (apart[::2, ::2] <= one.measured)).sum()
        assert one.inside == pytest.approx(float(inside / pairs))
        assert (one.profile.largest[: len(one.bound_curve)] <= one.bound_curve * (1 + 1e-9)).all()


def test_measured_ranges_stay_below_the_proven_ones_on_any_graph() -> None:
    for seed in range(60):
        study = study_range(random_graph(seed), SETTINGS, theta=1e-3)
        for one in study.ranges:
            assert one.measured <= one.proven
            kept = len(one.bound_curve)
            assert (one.profile.largest[:kept] <= one.bound_curve * (1 + 1e-9) + 1e-9).all()


def test_a_study_measures_what_the_influence_says() -> None:
    propagation = random_graph(7)
    study = study_range(propagation, [Setting(0.8, 2, 0.6)], theta=1e-3)
    influence = linear_influence(propagation, 0.6, 0.8, 2)
    far = hops_to(propagation, study.nodes)[influence > 1e-3]
    assert study.ranges[0].measured == int(far.max())


def test_the_printed_curve_uses_the_entries_of_shortest_walks() -> None:
    propagation = random_graph(3)
    nodes = torch.arange(propagation.num_nodes)
    study = study_range(propagation, [Setting(0.9, 1)], theta=1e-9)
    distance = hops_to(propagation, nodes)
    entries = shortest_walks(propagation, nodes, distance, study.longest)
    for hop in range(study.longest + 1):
        expected = max(
            float(walks(propagation, p, hop)[q])
            for p in nodes.tolist()
            for q in nodes.tolist()
            if distance[q, p] == hop
        )
        assert float(entries[hop]) == pytest.approx(expected, rel=1e-9)
    torch.testing.assert_close(
        study.ranges[0].printed_curve,
        0.9 ** torch.arange(len(entries)).double() / (1 - 0.9) * entries,
    )


def test_samples_are_distinct_and_repeatable() -> None:
    one, again = sample_nodes(10**6, 50, seed=3), sample_nodes(10**6, 50, seed=3)
    assert torch.equal(one, again)
    assert one.unique().numel() == 50
    assert sample_nodes(20, 50).tolist() == list(range(20))
    assert len(sample_nodes(10**9 // 10**3)) == 16
    with pytest.raises(ArgumentError, match="'samples' must be a positive int"):
        sample_nodes(20, 0)


def test_pairs_are_counted_between_labelled_nodes_only() -> None:
    distance = torch.tensor([[0, 1, 2, -1], [1, 0, 1, 5], [3, 3, 3, 0]])
    counted = labeled_pairs(distance, torch.tensor([0, 1, 3]), torch.tensor([0, 2, 3]))
    assert counted.tolist() == [0, 0, 1, 2]  # 2 hops to node 0, and 3 hops twice to node 3


@pytest.mark.parametrize("symmetric", [True, False])
def test_advice_is_the_smallest_scale(symmetric: bool) -> None:
    for one in advise(60, symmetric=symmetric, theta=1e-5, gammas=(0.7, 0.9)):
        assert one.chain is not None
        assert one.possible is not None
        assert one.possible <= one.chain
        reached = [
            float(chain_influence(one.gamma, 1001, 500, scale, directed=not symmetric)[560])
            for scale in (one.chain - 1, one.chain)
            if scale
        ]
        assert reached[-1] > 1e-5
        assert len(reached) == 1 or reached[0] <= 1e-5


def test_recommendations_name_what_suffices_and_why() -> None:
    text = recommend(study_range(chain(12, False), SETTINGS), symmetric=True)
    assert text.startswith("gamma 0.5 with scale 4 is enough: it reaches 11 hops")
    text = recommend(study_range(chain(300, False), SETTINGS), symmetric=True)
    assert text.startswith("None of these settings reaches 299 hops")
    assert "square root of the scale" in text.splitlines()[-1]
    text = recommend(study_range(chain(3000, True), [Setting(0.5, 1)]), symmetric=False)
    assert "in proportion to scale / (1 - gamma)" in text.splitlines()[-1]
    tree = Propagation.from_edge_index(_binary_tree(9), 2**9 - 1)
    text = recommend(study_range(tree, [Setting(0.5, 1)]), symmetric=True)
    assert "Where a graph branches, influence is divided." in text
    assert "eigenvalue of their weights" not in text
    text = recommend(study_range(tree, [Setting(0.5, 1, 0.2)]), symmetric=True)
    assert "The largest eigenvalue of their weights is 0.2." in text


def _binary_tree(levels: int) -> torch.Tensor:
    child = torch.arange(1, 2**levels - 1)
    edges = torch.stack([(child - 1) // 2, child])
    return torch.cat([edges, edges.flip(0)], dim=1)
