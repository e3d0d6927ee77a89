from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mgnni.data.chains import class_chains
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


def test_a_seed_gives_the_same_data_and_touches_no_other_random_number() -> None:
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
        ({"num_chains_per_class": 0}, r"'num_chains_per_class' must be .* \(got 0\); "),
        ({"length": 0}, r"'length' must be an int of at least 1 \(got 0\); "),
        ({"num_classes": 1}, r"'num_classes' must be an int of at least 2 \(got 1\); "),
        (
            {"num_classes": 7, "num_features": 6},
            r"'num_features' must be an int of at least 7 \(got 6\); ",
        ),
        ({"noise": -0.1}, r"'noise' must be finite and at least 0 \(got -0.1\); "),
        ({"noise": float("nan")}, r"'noise' must be finite and at least 0 \(got nan\); "),
        ({"seed": -1}, r"'seed' must be .* \(got -1\); "),
        ({"num_splits": 0}, r"'num_splits' must be an int of at least 1 \(got 0\); "),
        ({"split": "shuffled"}, r"\(got 'shuffled'\); did you mean 'shuffle'"),
        (
            {"split": "shuffle", "train_fraction": 0.6, "val_fraction": 0.4},
            r"must leave some nodes for the test \(got 0.6 and 0.4 of 4000 nodes\); ",
        ),
        (
            {"split": "shuffle", "num_chains_per_class": 1, "length": 2},
            r"'train_fraction' must give at least one of the nodes \(got 0.05 of 4 nodes\); ",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        class_chains(**options)
