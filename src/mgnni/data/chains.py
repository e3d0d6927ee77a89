"""Synthetic tasks on chains, whose labels depend on nodes a known number of hops away."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import add_self_loops

from mgnni.data.split import make_generator
from mgnni.errors import ArgumentError, check_choice, check_int, check_number

SPLITS = ("nodes", "chains", "shuffle")
PLACES = ("first", "anywhere")
COLORS = 2


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
    """Creates chains whose class is given by the features of their first node only.

    The first node of a chain carries its class, one-hot in the first features; all other features
    are zero, or noise. The class is the label of all nodes of the chain, so a node ``hop`` hops
    away can only learn it from a message over this distance.

    The chains are consecutive, those of class 0 first; node ``i`` of a chain is next to ``i + 1``.

    Args:
        num_chains_per_class (int, optional): Number of chains per class. (default: :obj:`20`)
        length (int, optional): Number of nodes per chain. (default: :obj:`100`)
        num_features (int, optional): Number of features, at least ``num_classes``.
            (default: :obj:`100`)
        seed (int, optional): Seed of the split and the noise, drawn from a separate random
            generator. (default: :obj:`0`)
        directed (bool, optional): Whether edges only lead away from the first node.
            (default: :obj:`True`)
        num_classes (int, optional): Number of classes. (default: :obj:`2`)
        noise (float, optional): Uniform noise from ``-noise`` to ``noise`` is added to all
            features. (default: :obj:`0.0`)
        row_normalize (bool, optional): Whether to divide the features of each node by their sum,
            as the authors do. This has no effect without noise. With noise, sums are near zero and
            features of uninformative nodes become large. (default: :obj:`False`)
        split (str, optional): What is assigned to training, validation and test: ``"nodes"`` or
            whole ``"chains"`` of each class separately, or all nodes regardless of their class
            (``"shuffle"``), as the authors do. (default: ``"nodes"``)
        num_splits (int, optional): Number of splits. (default: :obj:`1`)
        train_fraction (float, optional): Fraction of the training set. (default: :obj:`0.05`)
        val_fraction (float, optional): Fraction of the validation set; the remaining units are the
            test set. (default: :obj:`0.1`)

    Returns:
        A graph with ``x``, ``edge_index``, ``y``; ``train_mask``, ``val_mask`` and ``test_mask``,
        with one column per split if there are several; ``hop``, the distance of each node to the
        first node; and ``chain``, the index of its chain.
    """
    check_int("num_chains_per_class", num_chains_per_class)
    check_int("length", length)
    check_int("num_classes", num_classes, 2)
    check_int("num_features", num_features, num_classes)
    check_number("noise", noise, "[0, inf)", "0 is none")
    generator = make_generator(seed)
    label = torch.arange(num_classes).repeat_interleave(num_chains_per_class)
    fractions = (train_fraction, val_fraction)
    part = assign_parts(label, length, split, fractions, num_splits, generator)
    x = torch.zeros(label.numel(), length, num_features)
    if noise > 0:
        x.uniform_(-noise, noise, generator=generator)
    x[torch.arange(label.numel()), 0, label] += 1.0
    if row_normalize:
        total = x.sum(dim=2, keepdim=True)
        x = torch.where(total == 0, x, x / total)
    return join_chains(x, label, torch.arange(length), directed, part)


def color_chains(
    num_chains_per_class: int = 20,
    length: int = 50,
    colored: int = 10,
    num_features: int = 50,
    seed: int = 0,
    directed: bool = False,
    *,
    places: str = "first",
    self_loops: bool = False,
    split: str = "nodes",
    num_splits: int = 1,
    train_fraction: float = 0.05,
    val_fraction: float = 0.10,
) -> Data:
    r"""Creates chains whose class is the more frequent colour of some of their nodes.

    The first :math:`c` nodes of a chain carry one of two colours, one-hot in the first two
    features; all other features are zero. The minority colour is on :math:`r` of them, where
    :math:`r` is uniform in :math:`1, \dots, \lceil c/2 \rceil - 1`, at random places. The majority
    colour is the label of all nodes of the chain, so a node ``hop`` hops away can only learn it if
    the counts are carried over this distance. These are the authors' data; as their paper words
    the task, the coloured nodes are anywhere on the chain (``places="anywhere"``).

    The chains are consecutive, those of class 0 first; node ``i`` of a chain is next to ``i + 1``.

    Args:
        num_chains_per_class (int, optional): Number of chains for each of the two classes.
            (default: :obj:`20`)
        length (int, optional): Number of nodes per chain. (default: :obj:`50`)
        colored (int, optional): Number of coloured nodes :math:`c` per chain, at least 3.
            (default: :obj:`10`)
        num_features (int, optional): Number of features, at least 2. (default: :obj:`50`)
        seed (int, optional): Seed of the colours and the split, drawn from a separate random
            generator. (default: :obj:`0`)
        directed (bool, optional): Whether edges only lead away from the coloured end.
            (default: :obj:`False`)
        places (str, optional): Which nodes are coloured: the ``"first"`` ones, or random ones
            ``"anywhere"`` on the chain. (default: ``"first"``)
        self_loops (bool, optional): Whether every node has a self-loop, as in the authors' data. A
            model that adds self-loops then counts a node twice. (default: :obj:`False`)
        split (str, optional): What is assigned to training, validation and test, see
            :func:`class_chains`. (default: ``"nodes"``)
        num_splits (int, optional): Number of splits. (default: :obj:`1`)
        train_fraction (float, optional): Fraction of the training set. (default: :obj:`0.05`)
        val_fraction (float, optional): Fraction of the validation set; the remaining units are the
            test set. (default: :obj:`0.1`)

    Returns:
        A graph as in :func:`class_chains`; ``hop`` is the distance of each node to the nearest
        coloured node, 0 for coloured nodes.
    """
    check_int("num_chains_per_class", num_chains_per_class)
    check_int("colored", colored, 3)
    check_int("length", length)
    check_int("num_features", num_features, COLORS)
    if length < colored:
        raise ArgumentError(
            f"'length' must be at least 'colored', {colored} (got {length}); make the chains "
            "longer, or colour fewer nodes"
        )
    if check_choice("places", places, PLACES) == "anywhere" and directed:
        raise ArgumentError(
            "'directed' must be False with places='anywhere' (got True), since nodes before the "
            "first colour would see none; leave it out"
        )
    generator = make_generator(seed)
    label = torch.arange(COLORS).repeat_interleave(num_chains_per_class)
    color = _draw_colors(label, colored, generator)
    place = torch.arange(colored).expand(label.numel(), -1)
    if places == "anywhere":
        place = torch.rand(label.numel(), length, generator=generator).argsort(1)[:, :colored]
    x = torch.zeros(label.numel(), length, num_features)
    x[torch.arange(label.numel()).unsqueeze(1), place, color] = 1.0
    fractions = (train_fraction, val_fraction)
    part = assign_parts(label, length, split, fractions, num_splits, generator)
    hop = (torch.arange(length).view(-1, 1) - place.unsqueeze(1)).abs().amin(2)
    data = join_chains(x, label, hop, directed, part)
    if self_loops:
        data.edge_index = add_self_loops(data.edge_index, num_nodes=data.num_nodes)[0]
    return data


def _draw_colors(label: Tensor, colored: int, generator: torch.Generator) -> Tensor:
    """Draws the colour of each coloured node, shape ``(chains, colored)``."""
    chains = label.numel()
    minority = torch.randint(1, (colored - 1) // 2 + 1, (chains, 1), generator=generator)
    order = torch.rand(chains, colored, generator=generator).argsort(dim=1)
    place = order.argsort(dim=1)  # each row is a random permutation
    majority = label.unsqueeze(1)
    return torch.where(place < minority, 1 - majority, majority)


def join_chains(x: Tensor, label: Tensor, hop: Tensor, directed: bool, part: Tensor) -> Data:
    """Joins chains into one graph.

    Args:
        x (Tensor): Features of shape ``(chains, length, num_features)``.
        label (Tensor): Class of each chain.
        hop (Tensor): Distance of each node of a chain to what its label depends on; of shape
            ``(length,)``, or ``(chains, length)`` if chains differ.
        directed (bool): Whether edges only lead from a node to the next one.
        part (Tensor): Output of :func:`assign_parts`.
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
        hop=hop.expand(chains, length).flatten(),
        chain=torch.arange(chains).repeat_interleave(length),
        train_mask=part == 0,
        val_mask=part == 1,
        test_mask=part == 2,
    )


def assign_parts(
    label: Tensor,
    length: int,
    split: str,
    fractions: tuple[float, float],
    num_splits: int,
    generator: torch.Generator,
) -> Tensor:
    """Assigns the nodes of all chains to training (0), validation (1) and test (2).

    Args:
        label (Tensor): Class of each chain.
        length (int): Number of nodes per chain.
        split (str): ``"nodes"``, ``"chains"`` or ``"shuffle"``, see :func:`class_chains`.
        fractions (tuple of float): Fractions of the training and validation set.
        num_splits (int): Number of splits; the first one does not depend on it.
        generator (torch.Generator): Random generator.

    Returns:
        A tensor of shape ``(num_nodes,)``, or ``(num_nodes, num_splits)`` for several splits.
    """
    check_choice("split", split, SPLITS)
    check_int("num_splits", num_splits)
    for name, fraction in zip(("train_fraction", "val_fraction"), fractions, strict=True):
        check_number(name, fraction, "[0, 1)", "0.05 is one part in twenty")
    unit = label if split == "chains" else label.repeat_interleave(length)
    group = torch.zeros_like(unit) if split == "shuffle" else unit
    splits = []
    for _ in range(num_splits):
        part = torch.full_like(unit, 2)
        for value in range(int(group.max()) + 1):
            members = (group == value).nonzero().squeeze(1)
            train, val = _sizes(members.numel(), fractions, split)
            members = members[torch.randperm(members.numel(), generator=generator)]
            part[members[:train]] = 0
            part[members[train : train + val]] = 1
        splits.append(part.repeat_interleave(length) if split == "chains" else part)
    return splits[0] if num_splits == 1 else torch.stack(splits, dim=1)


def _sizes(count: int, fractions: tuple[float, float], split: str) -> tuple[int, int]:
    """Returns the sizes of the training and validation set of a group of units."""
    unit = "chains" if split == "chains" else "nodes"
    what = unit if split == "shuffle" else f"{unit} of each class"
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
            f"'train_fraction' and 'val_fraction' must leave some {what} for the test set (got "
            f"{fractions[0]} and {fractions[1]} of {count} {unit}); make them smaller"
        )
    return train, val
