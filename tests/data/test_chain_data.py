from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mgnni.data.chains import chain_data, deal, make_generator

LABEL = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2])


def dealt(split: str, num_splits: int = 1, seed: int = 0, length: int = 20) -> Tensor:
    return deal(LABEL, length, split, (0.1, 0.25), num_splits, make_generator(seed))


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
    chains = deal(LABEL, 20, "chains", (1 / 3, 1 / 3), 1, make_generator(0)).view(9, 20)
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
    data = chain_data(x, torch.tensor([1, 0]), torch.tensor([0, 1, 2]), True, part)
    assert data.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert data.edge_index.T.tolist() == [[0, 1], [1, 2], [3, 4], [4, 5]]
    assert data.y.tolist() == [1, 1, 1, 0, 0, 0]
    assert data.hop.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.chain.tolist() == [0, 0, 0, 1, 1, 1]
    masks = [data.train_mask, data.val_mask, data.test_mask]
    assert [mask.nonzero().squeeze(1).tolist() for mask in masks] == [[0, 5], [1, 4], [2, 3]]
    both = chain_data(x, torch.tensor([1, 0]), torch.tensor([0, 1, 2]), False, part)
    assert both.edge_index.T.tolist() == [
        *([0, 1], [1, 2], [3, 4], [4, 5]),
        *([1, 0], [2, 1], [4, 3], [5, 4]),
    ]
