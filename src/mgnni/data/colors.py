"""Colour counting on chains: a task whose answer lies a known number of hops away."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.chain_data import chain_data, check_int, deal, make_generator
from mgnni.errors import ArgumentError

COLORS = 2


def color_chains(
    num_chains_per_class: int = 20,
    length: int = 50,
    colored: int = 10,
    num_features: int = 50,
    seed: int = 0,
    directed: bool = False,
    *,
    split: str = "nodes",
    num_splits: int = 1,
    train_fraction: float = 0.05,
    val_fraction: float = 0.10,
) -> Data:
    r"""Make chains whose nodes must all name the colour that is frequent at the chain's beginning.

    The first ``colored`` nodes of a chain carry one of two colours, one-hot in the first two
    features; all other features, and all features of all other nodes, are zero. The minority
    colour is on :math:`r` of them, :math:`r` uniform in :math:`1 \dots \lceil c/2 \rceil - 1`
    (1 to 4 of 10), at random places, so the other colour has a strict majority. It is the label
    of *every* node of the chain: a node ``hop`` hops away sees it only if the count is carried
    that far.

    Chains follow one another, those of class 0 first; node ``i`` of a chain is beside ``i + 1``.

    Args:
        num_chains_per_class: chains of each of the two classes.
        length: nodes of a chain, coloured ones included.
        colored: coloured nodes of a chain; at least 3.
        num_features: width of ``x``; at least 2.
        seed: of the colours and the split, which have a random generator of their own: the same
            arguments give the same data, and no other random number is touched.
        directed: only the edges that lead away from the coloured end.
        split: what is dealt out to training, validation and test: ``"nodes"``, or whole
            ``"chains"``, so that the chains tested on were never seen, of each class by itself;
            or ``"shuffle"``, all nodes at once whatever their class, as the authors do.
        num_splits: number of splits; masks have a column for each if there are several.
        train_fraction: part that is for training.
        val_fraction: part that is for validation; the rest is for testing.

    Returns:
        ``x``, ``edge_index``, ``y``, ``train_mask``, ``val_mask``, ``test_mask``; ``hop``, the
        distance of a node to the last coloured one, 0 among the coloured; and ``chain``, the
        number of its chain.
    """
    for name, value, least in (
        ("num_chains_per_class", num_chains_per_class, 1),
        ("colored", colored, 3),
        ("length", length, 1),
        ("num_features", num_features, COLORS),
    ):
        check_int(name, value, least)
    if length < colored:
        raise ArgumentError(
            f"'length' must be at least colored, {colored} (got {length}); make the chains longer "
            "or colour fewer of their nodes"
        )
    generator = make_generator(seed)

    label = torch.arange(COLORS).repeat_interleave(num_chains_per_class)
    color = _colors(label, colored, generator)
    chains = label.numel()
    x = torch.zeros(chains, length, num_features)
    x[:, :colored].scatter_(2, color.unsqueeze(2), 1.0)

    fractions = (train_fraction, val_fraction)
    part = deal(label, length, split, fractions, num_splits, generator)
    hop = (torch.arange(length) - (colored - 1)).clamp(min=0)
    return chain_data(x, label, hop, directed, part)


def _colors(label: Tensor, colored: int, generator: torch.Generator) -> Tensor:
    """Draw the colour of each coloured node, shape ``(chains, colored)``."""
    chains = label.numel()
    minority = torch.randint(1, (colored - 1) // 2 + 1, (chains, 1), generator=generator)
    order = torch.rand(chains, colored, generator=generator).argsort(dim=1)
    place = order.argsort(dim=1)  # each row a random permutation of 0 ... colored - 1
    majority = label.unsqueeze(1)
    return torch.where(place < minority, 1 - majority, majority)
