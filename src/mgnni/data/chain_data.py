"""What tasks on chains have in common: their graph, and how their nodes are dealt out."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.errors import ArgumentError, check_choice

SPLITS = ("nodes", "chains", "shuffle")


def chain_data(x: Tensor, label: Tensor, hop: Tensor, directed: bool, part: Tensor) -> Data:
    """Put chains side by side into one graph.

    Args:
        x: features, shape ``(chains, length, num_features)``.
        label: class of each chain, and of every node of it.
        hop: distance of each node of a chain to what its label depends on.
        directed: only the edges from a node of a chain to the next, not back.
        part: what each node is for, as :func:`deal` returns it.
    """
    chains, length, _ = x.shape
    node = torch.arange(chains * length).view(chains, length)
    edge_index = torch.stack([node[:, :-1].flatten(), node[:, 1:].flatten()])
    if not directed:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    return Data(
        x=x.flatten(0, 1),
        edge_index=edge_index,
        y=label.repeat_interleave(length),
        hop=hop.repeat(chains),
        chain=torch.arange(chains).repeat_interleave(length),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
    )


def deal(
    label: Tensor,
    length: int,
    split: str,
    fractions: tuple[float, float],
    num_splits: int,
    generator: torch.Generator,
) -> Tensor:
    """Deal the nodes of all chains out to training (0), validation (1) and test (2).

    Args:
        label: class of each chain.
        length: nodes of a chain.
        split: what is dealt out: the ``"nodes"`` or whole ``"chains"`` of each class by itself,
            or by one ``"shuffle"`` all nodes, whatever their class.
        fractions: parts for training and validation; the rest is for testing.
        num_splits: how often to deal; the first does not depend on it.
        generator: where chance comes from.

    Returns:
        Shape ``(num_nodes,)``, or ``(num_nodes, num_splits)`` if there are several.
    """
    check_choice("split", split, SPLITS)
    check_int("num_splits", num_splits, 1)
    for name, fraction in zip(("train_fraction", "val_fraction"), fractions, strict=True):
        if not 0 <= fraction < 1:
            raise ArgumentError(
                f"'{name}' must lie in [0, 1) (got {fraction!r}); 0.05 is one part in twenty"
            )
    unit = label if split == "chains" else label.repeat_interleave(length)
    group = torch.zeros_like(unit) if split == "shuffle" else unit
    dealt = []
    for _ in range(num_splits):
        part = torch.full_like(unit, 2)
        for value in range(int(group.max()) + 1):
            members = (group == value).nonzero().squeeze(1)
            train, val = _sizes(members.numel(), fractions, split)
            members = members[torch.randperm(members.numel(), generator=generator)]
            part[members[:train]] = 0
            part[members[train : train + val]] = 1
        dealt.append(part.repeat_interleave(length) if split == "chains" else part)
    return dealt[0] if num_splits == 1 else torch.stack(dealt, dim=1)


def _sizes(count: int, fractions: tuple[float, float], split: str) -> tuple[int, int]:
    """Return how many of a group are for training and for validation."""
    what = {"nodes": "nodes of each class", "chains": "chains of each class"}.get(split, "nodes")
    unit = what.split()[0]
    train, val = (round(fraction * count) for fraction in fractions)
    for name, fraction, size in (
        ("train_fraction", fractions[0], train),
        ("val_fraction", fractions[1], val),
    ):
        if fraction > 0 and size == 0:
            raise ArgumentError(
                f"'{name}' must give at least one of the {what} (got {fraction} of {count} "
                f"{unit}); raise it or num_chains_per_class, or set it to 0"
            )
    if train + val >= count:
        raise ArgumentError(
            f"'train_fraction' and 'val_fraction' must leave some {what} for the test (got "
            f"{fractions[0]} and {fractions[1]} of {count} {unit}); make them smaller"
        )
    return train, val


def check_int(name: str, value: object, least: int) -> None:
    """Refuse what is not an int of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(
            f"'{name}' must be an int of at least {least} (got {value!r}); {name}={least} is the "
            "smallest that makes sense"
        )


def make_generator(seed: int) -> torch.Generator:
    """Return a random generator of its own for a seed."""
    check_int("seed", seed, 0)
    if seed >= 2**63:
        raise ArgumentError(f"'seed' must be below 2**63 (got {seed}); use a smaller number")
    return torch.Generator().manual_seed(seed)
