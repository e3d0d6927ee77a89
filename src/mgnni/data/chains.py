"""Classes on chains: a label that only the first node knows, to be carried along the chain."""

from __future__ import annotations

import math

import torch
from torch_geometric.data import Data

from mgnni.data.chain_data import chain_data, check_int, deal, make_generator
from mgnni.errors import ArgumentError


def class_chains(
    num_chains_per_class: int = 20,
    length: int = 100,
    num_features: int = 100,
    seed: int = 0,
    directed: bool = True,
    *,
    num_classes: int = 2,
    noise: float = 0.0,
    row_normalize: bool = False,
    split: str = "nodes",
    num_splits: int = 1,
    train_fraction: float = 0.05,
    val_fraction: float = 0.10,
) -> Data:
    """Make chains whose nodes must all name the class that is written on the first node.

    The first node of a chain carries its class, one-hot in the first features; every other entry
    is zero, or noise. All nodes of the chain have that class as their label, so that a node
    ``hop`` hops away can only know it from a message that came as far.

    Chains follow one another, those of class 0 first; node ``i`` of a chain is beside ``i + 1``.

    Args:
        num_chains_per_class: chains of each class.
        length: nodes of a chain.
        num_features: width of ``x``; at least the number of classes.
        seed: of the split and the noise, which have a random generator of their own: the same
            arguments give the same data, and no other random number is touched.
        directed: only the edges that lead away from the first node.
        num_classes: how many classes there are.
        noise: every feature has uniform noise from ``-noise`` to ``noise`` added to it.
        row_normalize: divide each node's features by their sum, as the authors do; a sum of zero
            leaves them alone. It changes nothing without noise. With noise, sums are near zero
            and features of nodes that know nothing become large.
        split: what is dealt out to training, validation and test: ``"nodes"`` or whole
            ``"chains"``, of each class by itself; or ``"shuffle"``, all nodes at once whatever
            their class, as the authors do.
        num_splits: number of splits; masks have a column for each if there are several.
        train_fraction: part that is for training.
        val_fraction: part that is for validation; the rest is for testing.

    Returns:
        ``x``, ``edge_index``, ``y``, ``train_mask``, ``val_mask``, ``test_mask``; ``hop``, the
        distance of a node to the first; and ``chain``, the number of its chain.
    """
    for name, value, least in (
        ("num_chains_per_class", num_chains_per_class, 1),
        ("length", length, 1),
        ("num_classes", num_classes, 2),
        ("num_features", num_features, num_classes),
    ):
        check_int(name, value, least)
    if not 0 <= noise < math.inf:
        raise ArgumentError(f"'noise' must be finite and at least 0 (got {noise!r}); 0 is none")
    generator = make_generator(seed)

    label = torch.arange(num_classes).repeat_interleave(num_chains_per_class)
    fractions = (train_fraction, val_fraction)
    part = deal(label, length, split, fractions, num_splits, generator)
    x = torch.zeros(label.numel(), length, num_features)
    if noise > 0:
        x.uniform_(-noise, noise, generator=generator)
    x[torch.arange(label.numel()), 0, label] += 1.0
    if row_normalize:
        total = x.sum(dim=2, keepdim=True)
        x = torch.where(total == 0, x, x / total)
    return chain_data(x, label, torch.arange(length), directed, part)
