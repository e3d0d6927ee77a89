from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, is_undirected

from mgnni.data.chains import color_chains
from mgnni.errors import ArgumentError

MASKS = ("train_mask", "val_mask", "test_mask")


def chains_of(data: Data) -> list[list[int]]:
    """The nodes of every chain, found by walking along the edges rather than by number."""
    after: dict[int, set[int]] = {node: set() for node in range(data.num_nodes)}
    for source, target in data.edge_index.T.tolist():
        after[source].add(target)
        after[target].add(source)
    chains, seen = [], set()
    for start in range(data.num_nodes):
        if start in seen:
            continue
        chain, queue = [], deque([start])
        seen.add(start)
        while queue:
            node = queue.popleft()
            chain.append(node)
            for other in sorted(after[node] - seen):
                seen.add(other)
                queue.append(other)
        chains.append(chain)
    return chains


def distances(data: Data) -> list[int]:
    """Breadth-first distance of every node to the nearest one that carries a colour."""
    after: dict[int, list[int]] = {node: [] for node in range(data.num_nodes)}
    for source, target in data.edge_index.T.tolist():
        after[source].append(target)
    start = data.x.any(dim=1).nonzero().squeeze(1).tolist()
    distance = dict.fromkeys(start, 0)
    queue = deque(start)
    while queue:
        node = queue.popleft()
        for other in after[node]:
            if other not in distance:
                distance[other] = distance[node] + 1
                queue.append(other)
    return [distance[node] for node in range(data.num_nodes)]


@settings(max_examples=25)
@given(
    per_class=st.integers(3, 6),
    colored=st.integers(3, 11),
    more=st.integers(0, 7),
    width=st.integers(2, 5),
    directed=st.booleans(),
    seed=st.integers(0, 2**40),
)
def test_every_node_has_the_label_of_the_strict_majority(
    per_class: int, colored: int, more: int, width: int, directed: bool, seed: int
) -> None:
    data = color_chains(
        per_class,
        colored + more,
        colored,
        width,
        seed,
        directed,
        train_fraction=0.3,
        val_fraction=0.3,
    )
    chains = chains_of(data)
    assert [len(chain) for chain in chains] == [colored + more] * (2 * per_class)
    labels = []
    for number, chain in enumerate(chains):
        colors = [data.x[node].nonzero().squeeze(1).tolist() for node in chain]
        assert all(len(color) == 1 and color[0] < 2 for color in colors[:colored])
        assert not any(colors[colored:]), "only the first nodes are coloured"
        (winner, most), (_, least) = Counter(color[0] for color in colors[:colored]).most_common()
        assert most > least >= 1
        assert data.y[chain].tolist() == [winner] * len(chain)
        assert data.chain[chain].tolist() == [number] * len(chain)
        labels.append(winner)
    assert Counter(labels) == {0: per_class, 1: per_class}
    assert data.x.sum() == data.x.count_nonzero() == 2 * per_class * colored  # all ones
    assert data.hop.tolist() == distances(data)


def test_the_minority_is_uniform_in_one_to_four_of_ten() -> None:
    data = color_chains(1000, 10, seed=3)
    winner = data.x[torch.arange(data.num_nodes), data.y].view(-1, 10).sum(1)
    minority = Counter((10 - winner).int().tolist())
    assert set(minority) == {1, 2, 3, 4}
    assert all(abs(count - 500) < 5 * (500 * 0.75) ** 0.5 for count in minority.values())
    place = data.x.view(2, 1000, 10, -1)[0, :, :, 1].mean(0)  # where class 0 has the other colour
    assert torch.all((place - 0.25).abs() < 5 * (0.25 * 0.75 / 1000) ** 0.5)


def test_directed_edges_lead_away_from_the_colours() -> None:
    both, away = color_chains(2, 12, seed=1), color_chains(2, 12, seed=1, directed=True)
    assert is_undirected(both.edge_index)
    assert not contains_self_loops(both.edge_index)
    pairs = {tuple(edge) for edge in both.edge_index.T.tolist()}
    forward = [tuple(edge) for edge in away.edge_index.T.tolist()]
    assert len(pairs) == both.num_edges == 2 * 4 * 11
    assert sorted(forward) == sorted(edge for edge in pairs if edge[0] < edge[1])
    assert torch.equal(both.x, away.x)


@pytest.mark.parametrize(
    ("split", "of_each_class"), [("nodes", (31, 62, 527)), ("chains", (62, 93, 465))]
)
def test_masks_are_disjoint_stratified_and_cover_all(
    split: str, of_each_class: tuple[int, ...]
) -> None:
    data = color_chains(
        20,
        31,
        seed=2,
        split=split,
        **({"val_fraction": 0.15, "train_fraction": 0.1} if split == "chains" else {}),
    )
    masks = torch.stack([data[name] for name in MASKS])
    assert masks.dtype is torch.bool
    assert torch.equal(masks.sum(0), torch.ones(data.num_nodes, dtype=torch.long))
    for label in (0, 1):
        assert tuple(masks[:, data.y == label].sum(1).tolist()) == of_each_class
    if split == "chains":
        whole = masks.view(3, -1, 31)
        assert torch.equal(whole.all(2), whole.any(2)), "a chain is in two parts"


def test_a_seed_gives_the_same_data_and_touches_no_other_random_number() -> None:
    before = torch.get_rng_state()
    first, again, other = (color_chains(5, 20, seed=seed) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    for key in first.to_dict():
        assert torch.equal(first[key], again[key])
    assert not torch.equal(first.x, other.x)
    assert not torch.equal(first.train_mask, other.train_mask)


def test_length_and_split_leave_the_colours_alone() -> None:
    short = color_chains(5, 12, seed=4)
    long = color_chains(5, 40, seed=4, split="chains", train_fraction=0.2, val_fraction=0.4)
    assert torch.equal(short.x.view(10, 12, -1)[:, :10], long.x.view(10, 40, -1)[:, :10])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_chains_per_class": 0}, r"'num_chains_per_class' must be .* \(got 0\); "),
        ({"length": 9}, r"'length' must be at least colored, 10 \(got 9\); make the chains longer"),
        ({"length": 20.0}, r"'length' must be an int .* \(got 20.0\); "),
        ({"length": True}, r"'length' must be an int .* \(got True\); "),
        ({"colored": 2}, r"'colored' must be an int of at least 3 \(got 2\); "),
        ({"num_features": 1}, r"'num_features' must be an int of at least 2 \(got 1\); "),
        ({"seed": -1}, r"'seed' must be .* \(got -1\); "),
        ({"seed": 2**63}, r"'seed' must be below 2\*\*63 \(got \d+\); "),
        ({"split": "chain"}, r"'split' must be one of .* \(got 'chain'\); did you mean 'chains'"),
        ({"train_fraction": 1.0}, r"'train_fraction' must lie in \[0, 1\) \(got 1.0\); "),
        ({"val_fraction": float("nan")}, r"'val_fraction' must lie in \[0, 1\) \(got nan\); "),
        (
            {"train_fraction": 0.5, "val_fraction": 0.5},
            r"must leave some nodes of each class for the test \(got 0.5 and 0.5 of 1000 nodes\); ",
        ),
        (
            {"split": "chains", "num_chains_per_class": 5},
            r"'train_fraction' must give at least one of the chains .* \(got 0.05 of 5 chains\); ",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        color_chains(**options)


def test_an_empty_part_can_be_asked_for() -> None:
    data = color_chains(2, 10, train_fraction=0, val_fraction=0)
    assert not data.train_mask.any()
    assert not data.val_mask.any()
    assert data.test_mask.all()


def test_the_authors_shuffle_and_several_splits() -> None:
    one = color_chains(20, 30, seed=6, split="shuffle")
    assert [int(one[name].sum()) for name in MASKS] == [60, 120, 1020]
    assert torch.bincount(one.y[one.train_mask]).tolist() != [30, 30], "whatever their class"
    several = color_chains(20, 30, seed=6, split="shuffle", num_splits=3)
    assert torch.equal(several.x, one.x)
    for name in MASKS:
        assert several[name].shape == (1200, 3)
        assert torch.equal(several[name][:, 0], one[name])
        assert not torch.equal(several[name][:, 1], one[name])
