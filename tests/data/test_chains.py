from __future__ import annotations

from collections import Counter, deque
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import contains_self_loops, is_undirected

from mgnni import Propagation
from mgnni.data.chains import assign_parts, class_chains, color_chains, join_chains
from mgnni.data.split import make_generator
from mgnni.errors import ArgumentError

FEW = {"train_fraction": 0.3, "val_fraction": 0.3}


@settings(max_examples=25)
@given(
    per_class=st.integers(3, 5),
    length=st.integers(1, 8),
    classes=st.integers(2, 4),
    more=st.integers(0, 3),
    directed=st.booleans(),
    seed=st.integers(0, 2**40),
)
def test_only_the_first_node_knows_the_label_of_all(
    per_class: int, length: int, classes: int, more: int, directed: bool, seed: int
) -> None:
    data = class_chains(
        *(per_class, length, classes + more, seed, directed), num_classes=classes, **FEW
    )
    chains = classes * per_class
    assert data.num_nodes == chains * length
    assert data.num_edges == chains * (length - 1) * (1 if directed else 2)
    labels = []
    for chain in range(chains):
        first, *others = range(chain * length, (chain + 1) * length)
        (label,) = data.x[first].nonzero().squeeze(1).tolist()
        assert data.x[first, label] == 1
        assert not data.x[others].any()
        assert data.y[[first, *others]].tolist() == [label] * length
        assert data.chain[[first, *others]].tolist() == [chain] * length
        labels.append(label)
    assert labels == [chain // per_class for chain in range(chains)]
    # The distance by powers of the adjacency matrix: when the first node is first reached.
    reached = data.x.any(dim=1).double()
    adjacency = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.double)
    adjacency[data.edge_index[1], data.edge_index[0]] = 1.0
    for hop in range(length):
        assert torch.equal(reached > 0, data.hop <= hop)
        reached = ((reached + adjacency @ reached) > 0).double()


def test_the_defaults_are_the_paper_s() -> None:
    data = class_chains()
    assert (data.num_nodes, data.num_edges, data.num_features) == (40 * 100, 40 * 99, 100)
    sizes = [int(mask.sum()) for mask in (data.train_mask, data.val_mask, data.test_mask)]
    assert sizes == [200, 400, 3400]
    for name, of_each_class in (("train", 100), ("val", 200), ("test", 1700)):
        assert torch.bincount(data.y[data[f"{name}_mask"]]).tolist() == [of_each_class] * 2


def test_noise_is_uniform_and_added() -> None:
    data, clean = class_chains(noise=0.25, seed=5), class_chains(seed=5)
    noise = data.x - clean.x
    assert float(noise.abs().max()) <= 0.25 + 1e-6
    deviation = 0.25 / 3**0.5
    assert float(noise.mean()) == pytest.approx(0, abs=5 * deviation / noise.numel() ** 0.5)
    assert float(noise.std()) == pytest.approx(deviation, rel=0.01)
    assert torch.equal(data.train_mask, clean.train_mask), "noise leaves the split alone"


def test_rows_divided_by_their_sum() -> None:
    clean = class_chains(3, 4, 5, **FEW)
    assert torch.equal(class_chains(3, 4, 5, row_normalize=True, **FEW).x, clean.x)
    noisy = class_chains(3, 4, 5, noise=0.1, **FEW).x
    normalized = class_chains(3, 4, 5, noise=0.1, row_normalize=True, **FEW).x
    assert torch.allclose(normalized.sum(1), torch.ones(24), atol=1e-4)
    assert torch.allclose(normalized * noisy.sum(1, keepdim=True), noisy, atol=1e-6)


def test_several_splits_are_columns() -> None:
    one, three = class_chains(seed=3), class_chains(seed=3, num_splits=3)
    assert three.train_mask.shape == three.test_mask.shape == (4000, 3)
    assert torch.equal(three.val_mask[:, 0], one.val_mask)
    assert not torch.equal(three.val_mask[:, 1], one.val_mask)
    parts = three.train_mask.int() + three.val_mask.int() + three.test_mask.int()
    assert torch.all(parts == 1)


def test_a_seed_gives_the_same_classes_and_touches_no_other_random_number() -> None:
    before = torch.get_rng_state()
    first, again, other = (class_chains(5, 20, noise=0.1, seed=seed) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    for key in first.to_dict():
        assert torch.equal(first[key], again[key])
    assert not torch.equal(first.x, other.x)
    assert not torch.equal(first.train_mask, other.train_mask)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_chains_per_class": 0}, r"'num_chains_per_class' must be .* \(got 0\)"),
        ({"length": 0}, r"'length' must be a positive int \(got 0\)"),
        ({"num_classes": 1}, r"'num_classes' must be an int of at least 2 \(got 1\)"),
        (
            {"num_classes": 7, "num_features": 6},
            r"'num_features' must be an int of at least 7 \(got 6\)",
        ),
        ({"noise": -0.1}, r"'noise' must lie in \[0, inf\) \(got -0.1\); "),
        ({"noise": float("nan")}, r"'noise' must lie in \[0, inf\) \(got nan\); "),
        ({"seed": -1}, r"'seed' must be .* \(got -1\); "),
        ({"num_splits": 0}, r"'num_splits' must be a positive int \(got 0\)"),
        ({"split": "shuffled"}, r"\(got 'shuffled'\); did you mean 'shuffle'"),
        (
            {"split": "shuffle", "train_fraction": 0.6, "val_fraction": 0.4},
            r"must leave some nodes for the test set \(got 0.6 and 0.4 of 4000 nodes\); ",
        ),
        (
            {"split": "shuffle", "num_chains_per_class": 1, "length": 2},
            r"'train_fraction' must give at least one of the nodes \(got 0.05 of 4 nodes\); ",
        ),
    ],
)
def test_bad_arguments_of_class_chains_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        class_chains(**options)


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


def test_colours_anywhere_are_at_uniform_places_and_have_the_same_majority() -> None:
    data = color_chains(1000, 12, 3, seed=5, places="anywhere")
    colored = data.x.view(2000, 12, -1)
    assert torch.equal(colored.sum((1, 2)), torch.full((2000,), 3.0))
    assert int(colored.sum(2).max()) == 1, "no node has two colours"
    assert torch.equal(colored.sum(1)[:, :2].argmax(1), data.y.view(2000, 12)[:, 0])
    share = colored.sum(2).mean(0)  # a quarter of the nodes, at every place
    assert torch.all((share - 0.25).abs() < 5 * (0.25 * 0.75 / 2000) ** 0.5)
    few = color_chains(3, 15, 4, seed=5, places="anywhere", **FEW)
    assert few.hop.tolist() == distances(few)


def test_self_loops_are_added_once_and_change_nothing_else() -> None:
    plain, looped = color_chains(2, 12, seed=1), color_chains(2, 12, seed=1, self_loops=True)
    assert looped.edge_index[:, : plain.num_edges].equal(plain.edge_index)
    loops = looped.edge_index[:, plain.num_edges :]
    assert loops.tolist() == [list(range(48))] * 2
    for name in ("x", "y", "hop", *MASKS):
        assert torch.equal(plain[name], looped[name])
    operator = Propagation.from_edge_index(looped.edge_index, 48).to_dense()
    assert operator[5, 4:7].tolist() == [0.25, 0.5, 0.25], "with those that models add"


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


def test_a_seed_gives_the_same_colours_and_touches_no_other_random_number() -> None:
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
        ({"num_chains_per_class": 0}, r"'num_chains_per_class' must be .* \(got 0\)"),
        ({"length": 9}, r"'length' must be at least 'colored', 10 \(got 9\)"),
        ({"length": 20.0}, r"'length' must be a positive int \(got 20.0\)"),
        ({"length": True}, r"'length' must be a positive int \(got True\)"),
        ({"colored": 2}, r"'colored' must be an int of at least 3 \(got 2\)"),
        ({"num_features": 1}, r"'num_features' must be an int of at least 2 \(got 1\)"),
        ({"places": "random"}, r"'places' must be one of .* \(got 'random'\)"),
        ({"places": "anywhere", "directed": True}, r"'directed' must be False .* \(got True\)"),
        ({"seed": -1}, r"'seed' must be .* \(got -1\); "),
        ({"seed": 2**63}, r"'seed' must be .* below 2\*\*63 \(got \d+\)"),
        ({"split": "chain"}, r"'split' must be one of .* \(got 'chain'\); did you mean 'chains'"),
        ({"train_fraction": 1.0}, r"'train_fraction' must lie in \[0, 1\) \(got 1.0\); "),
        ({"val_fraction": float("nan")}, r"'val_fraction' must lie in \[0, 1\) \(got nan\); "),
        (
            {"train_fraction": 0.5, "val_fraction": 0.5},
            r"must leave some nodes of each class for the test .*0.5 and 0.5 of 1000 nodes",
        ),
        (
            {"split": "chains", "num_chains_per_class": 5},
            r"'train_fraction' must give at least one of the chains .* \(got 0.05 of 5 chains\); ",
        ),
    ],
)
def test_bad_arguments_of_color_chains_are_refused(options: dict[str, Any], message: str) -> None:
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


LABEL = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])


def dealt(split: str, num_splits: int = 1, seed: int = 0, length: int = 20) -> Tensor:
    return assign_parts(LABEL, length, split, (0.1, 0.25), num_splits, make_generator(seed))


def test_a_shuffle_has_the_right_sizes_and_does_not_look_at_classes() -> None:
    part = dealt("shuffle")
    assert torch.bincount(part).tolist() == [18, 45, 117]
    of_class = [int((part[60 * c : 60 * c + 60] == 0).sum()) for c in range(3)]
    assert sum(of_class) == 18
    assert of_class != [6, 6, 6]
    counts = torch.stack([(dealt("shuffle", seed=s)[:60] == 0).sum() for s in range(200)]).float()
    # A third of 18 drawn from 180 without putting back: hypergeometric.
    variance = 18 * (1 / 3) * (2 / 3) * (180 - 18) / (180 - 1)
    assert float(counts.mean()) == pytest.approx(6, abs=4 * (variance / 200) ** 0.5)
    assert float(counts.var()) == pytest.approx(variance, rel=0.4)


def test_nodes_and_chains_are_dealt_class_by_class() -> None:
    nodes = dealt("nodes").view(3, 60)
    assert all(torch.bincount(row).tolist() == [6, 15, 39] for row in nodes)
    chains = assign_parts(LABEL, 20, "chains", (1 / 3, 1 / 3), 1, make_generator(0)).view(9, 20)
    assert torch.equal(chains, chains[:, :1].expand(9, 20))
    assert all(row.sort().values.tolist() == [0, 1, 2] for row in chains[:, 0].view(3, 3))


@pytest.mark.parametrize("split", ["nodes", "shuffle"])
def test_the_first_split_does_not_depend_on_how_many(split: str) -> None:
    several = dealt(split, num_splits=4)
    assert several.shape == (180, 4)
    assert torch.equal(several[:, 0], dealt(split))
    assert torch.equal(several[:, :2], dealt(split, num_splits=2))
    assert len({tuple(column.tolist()) for column in several.T}) == 4


def test_chains_side_by_side() -> None:
    x = torch.arange(12.0).view(2, 3, 2)
    part = torch.tensor([0, 1, 2, 2, 1, 0])
    data = join_chains(x, torch.tensor([1, 0]), torch.tensor([0, 1, 2]), True, part)
    assert data.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert data.edge_index.T.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert data.y.tolist() == [1, 1, 1, 0, 0, 0]
    assert data.hop.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.chain.tolist() == [0, 0, 0, 1, 1, 1]
    masks = [data.train_mask, data.val_mask, data.test_mask]
    assert [mask.nonzero().squeeze(1).tolist() for mask in masks] == [[0, 5], [1, 4], [2, 3]]
    both = join_chains(x, torch.tensor([1, 0]), torch.tensor([0, 1, 2]), False, part)
    assert both.edge_index.T.tolist() == [
        *([0, 1], [1, 2], [3, 4], [4, 5]),
        *([1, 0], [2, 1], [4, 3], [5, 4]),
    ]
