"""Colour counting on chains: a task whose answer lies a known number of hops away."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.errors import ArgumentError, check_choice

SPLITS = ("nodes", "chains")
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
            ``"chains"``, so that the chains tested on were never seen.
        train_fraction: part of each class that is for training.
        val_fraction: part of each class that is for validation; the rest is for testing.

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
        ("seed", seed, 0),
    ):
        _check_int(name, value, least)
    if length < colored:
        raise ArgumentError(
            f"'length' must be at least colored, {colored} (got {length}); make the chains longer "
            "or colour fewer of their nodes"
        )
    if seed >= 2**63:
        raise ArgumentError(f"'seed' must be below 2**63 (got {seed}); use a smaller number")
    check_choice("split", split, SPLITS)
    generator = torch.Generator().manual_seed(seed)

    label = torch.arange(COLORS).repeat_interleave(num_chains_per_class)
    color = _colors(label, colored, generator)
    chains = label.numel()
    x = torch.zeros(chains, length, num_features)
    x[:, :colored].scatter_(2, color.unsqueeze(2), 1.0)

    node = torch.arange(chains * length).view(chains, length)
    edge_index = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    if not directed:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)

    y = label.repeat_interleave(length)
    fractions = (train_fraction, val_fraction)
    if split == "nodes":
        part = _deal(y, fractions, generator, split)
    else:
        part = _deal(label, fractions, generator, split).repeat_interleave(length)
    hop = (torch.arange(length) - (colored - 1)).clamp(min=0)
    return Data(
        x=x.flatten(0, 1),
        edge_index=edge_index,
        y=y,
        hop=hop.repeat(chains),
        chain=torch.arange(chains).repeat_interleave(length),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
    )


def _check_int(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(
            f"'{name}' must be an int of at least {least} (got {value!r}); {name}={least} is the "
            "smallest that makes sense"
        )


def _colors(label: Tensor, colored: int, generator: torch.Generator) -> Tensor:
    """Draw the colour of each coloured node, shape ``(chains, colored)``."""
    chains = label.numel()
    minority = torch.randint(1, (colored - 1) // 2 + 1, (chains, 1), generator=generator)
    order = torch.rand(chains, colored, generator=generator).argsort(dim=1)
    place = order.argsort(dim=1)  # each row a random permutation of 0 ... colored - 1
    majority = label.unsqueeze(1)
    return torch.where(place < minority, 1 - majority, majority)


def _deal(
    label: Tensor, fractions: tuple[float, float], generator: torch.Generator, what: str
) -> Tensor:
    """Deal out each class to training (0), validation (1) and test (2) by itself."""
    for name, fraction in zip(("train_fraction", "val_fraction"), fractions, strict=True):
        if not 0 <= fraction < 1:
            raise ArgumentError(
                f"'{name}' must lie in [0, 1) (got {fraction!r}); 0.05 is one part in twenty"
            )
    part = torch.full_like(label, 2)
    for value in range(COLORS):
        members = (label == value).nonzero().squeeze(1)
        count = members.numel()
        train, val = (round(fraction * count) for fraction in fractions)
        for name, fraction, size in (
            ("train_fraction", fractions[0], train),
            ("val_fraction", fractions[1], val),
        ):
            if fraction > 0 and size == 0:
                raise ArgumentError(
                    f"'{name}' must give at least one of the {what} of each class (got {fraction} "
                    f"of {count} {what}); raise it or num_chains_per_class, or set it to 0"
                )
        if train + val >= count:
            raise ArgumentError(
                f"'train_fraction' and 'val_fraction' must leave some {what} of each class for the "
                f"test (got {fractions[0]} and {fractions[1]} of {count} {what}); make them smaller"
            )
        members = members[torch.randperm(count, generator=generator)]
        part[members[:train]] = 0
        part[members[train : train + val]] = 1
    return part
