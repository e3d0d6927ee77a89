"""The range of a graph for several settings of an equilibrium, beside its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mgnni.errors import ArgumentError, check_int
from mgnni.graph.propagation import Propagation
from mgnni.implicit.check import check_gamma, check_scale
from mgnni.range.bounds import (
    contraction,
    distance_bound,
    sound_range,
    symmetric_bound,
)
from mgnni.range.hops import hops_to
from mgnni.range.influence import Resolvent, resolvent_blocks
from mgnni.range.printed import check_threshold, printed_range
from mgnni.range.profile import HopProfile, Profiler

FEWEST, DISTANCES = 16, 2**23  # sampled nodes, and distances that are kept, unless asked otherwise
BELOW = 1e-3  # entries are accurate to this fraction of theta
SHOWN = 8  # hops beyond the largest range up to which curves are kept


@dataclass(frozen=True)
class Setting:
    r"""An equilibrium :math:`Z = \gamma P^m Z W + B`, as far as its range depends on it.

    Args:
        gamma (float): The factor :math:`\gamma`.
        scale (int): The scale :math:`m`.
        eigenvalue (float, optional): The largest eigenvalue of :math:`W = g(F)`, at most one.
            (default: :obj:`1.0`)
    """

    gamma: float
    scale: int
    eigenvalue: float = 1.0

    def __post_init__(self) -> None:
        check_gamma(self.gamma)
        check_scale(self.scale, "scales")


@dataclass(frozen=True, eq=False)
class SettingRange:
    r"""What was measured for a setting, and what is claimed about it.

    Attributes:
        setting (Setting): The setting.
        profile (HopProfile): Influence :math:`\|\partial z_q / \partial b_p\|_2` by hop.
        measured (int): θ-effective range of the measured nodes.
        proven (int or None): No pair farther apart than this exceeds θ; None if nothing is proven.
        printed (float): The bound of Corollary 2 of the paper, see :mod:`mgnni.range.printed`.
        inside (float or None): Share of the labelled pairs with a path that are in range.
        decay (float or None): Factor per hop by which the largest influence shrinks.
        bound_curve (Tensor): The sound bound at each distance.
        printed_curve (Tensor): The printed bound at each distance, largest over the pairs.

    Shapes:
        - **bound_curve, printed_curve:** ``(hops + 1,)``
    """

    setting: Setting
    profile: HopProfile
    measured: int
    proven: int | None
    printed: float
    inside: float | None
    decay: float | None
    bound_curve: Tensor
    printed_curve: Tensor

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            **vars(self.setting),
            "measured": self.measured,
            "proven": self.proven,
            "printed": self.printed,
            "inside": self.inside,
            "decay": self.decay,
            "profile": self.profile.to_dict(),
            "bound_curve": self.bound_curve.tolist(),
            "printed_curve": self.printed_curve.tolist(),
        }


@dataclass(frozen=True, eq=False)
class Ranges:
    """The range of a graph.

    Attributes:
        theta (float): The threshold.
        nodes (Tensor): The measured nodes.
        longest (int): Largest number of hops from any node to a measured one: the diameter if all
            nodes were measured.
        ranges (tuple of SettingRange): One entry per setting.

    Shapes:
        - **nodes:** ``(count,)``
    """

    theta: float
    nodes: Tensor
    longest: int
    ranges: tuple[SettingRange, ...]


def study_range(
    propagation: Propagation,
    settings: Sequence[Setting],
    *,
    theta: float = 1e-6,
    samples: int | None = None,
    labeled: Tensor | None = None,
    seed: int = 0,
) -> Ranges:
    r"""Measures the range of a graph for several settings.

    All settings share their products with the operator, so many cost little more than one.

    Args:
        propagation (Propagation): The operator of the graph.
        settings (Sequence[Setting]): The settings.
        theta (float, optional): The threshold :math:`\theta`. (default: :obj:`1e-6`)
        samples (int, optional): Number of nodes whose influences are measured, chosen at random;
            all nodes if there are no more. By default as many as have 8 million distances, and
            at least 16.
        labeled (Tensor, optional): The labelled nodes, for the share of pairs in range.
            (default: :obj:`None`)
        seed (int, optional): Seed of the sample. (default: :obj:`0`)

    Shapes:
        - **labeled:** ``(count,)``
    """
    check_threshold(theta)
    nodes = sample_nodes(propagation.num_nodes, samples, seed)
    distance = hops_to(propagation, nodes)
    longest = int(distance.max())
    resolvents = [Resolvent(one.gamma * one.eigenvalue, one.scale) for one in settings]
    tol = min(BELOW * theta, 1e-9)
    profilers = [Profiler() for _ in settings]
    start = 0
    for some, rows in resolvent_blocks(propagation, resolvents, nodes, tol):
        for profiler, influence in zip(profilers, rows, strict=True):
            profiler.add(influence, distance[start : start + len(some)])
        start += len(some)
    profiles = [profiler.profile() for profiler in profilers]
    reach = max((one.effective_range(theta) for one in profiles), default=0)
    entries = shortest_walks(propagation, nodes, distance, min(longest, reach + SHOWN))
    pairs = None if labeled is None else labeled_pairs(distance, nodes, labeled)
    ranges = [
        _range_of(propagation, setting, profile, theta, entries, pairs)
        for setting, profile in zip(settings, profiles, strict=True)
    ]
    return Ranges(theta, nodes, longest, tuple(ranges))


def _range_of(
    propagation: Propagation,
    setting: Setting,
    profile: HopProfile,
    theta: float,
    entries: Tensor,
    pairs: Tensor | None,
) -> SettingRange:
    gamma, scale = setting.gamma, setting.scale
    rate = contraction(propagation, abs(setting.eigenvalue), gamma, scale)
    symmetric = propagation.symmetric and propagation.norm.kind == "frobenius"
    factor = largest_factor(propagation)
    hops = torch.arange(len(entries))
    bound = symmetric_bound if symmetric else distance_bound
    measured = profile.effective_range(theta)
    exponent = hops.double() / scale
    shrunk = (gamma * setting.eigenvalue) ** exponent / (1 - gamma)
    return SettingRange(
        setting,
        profile,
        measured,
        sound_range(theta / factor, rate, scale, symmetric=symmetric),
        printed_range(theta, gamma, scale) if gamma > 0 else 0.0,
        None if pairs is None else _share(pairs, measured),
        profile.decay(theta),
        factor * bound(rate, hops, scale),
        shrunk * entries,
    )


def sample_nodes(num_nodes: int, samples: int | None = None, seed: int = 0) -> Tensor:
    """Returns distinct random nodes, sorted; all nodes if there are no more.

    Args:
        num_nodes (int): Number of nodes.
        samples (int, optional): How many; by default as many as have 8 million distances, and at
            least 16.
        seed (int, optional): Seed of a separate random generator. (default: :obj:`0`)

    Shapes:
        - **output:** ``(count,)``
    """
    if num_nodes == 0:
        raise ArgumentError("the graph must have nodes (got none)")
    if samples is None:
        samples = max(DISTANCES // num_nodes, FEWEST)
    if check_int("samples", samples) >= num_nodes:
        return torch.arange(num_nodes)
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(num_nodes, generator=generator)[:samples].sort().values


def shortest_walks(propagation: Propagation, nodes: Tensor, distance: Tensor, hops: int) -> Tensor:
    r"""Returns the largest :math:`|(P^d)_{qp}|` over the pairs at each distance :math:`d`.

    Args:
        propagation (Propagation): The operator.
        nodes (Tensor): The nodes :math:`q`.
        distance (Tensor): Hops from every node :math:`p` to them.
        hops (int): Largest distance.

    Shapes:
        - **nodes:** ``(count,)``
        - **distance:** ``(count, num_nodes)``
        - **output:** ``(hops + 1,)``
    """
    operator = propagation.double().to("cpu").adjoint()
    term = torch.zeros(propagation.num_nodes, len(nodes), dtype=torch.float64)
    term[nodes, torch.arange(len(nodes))] = 1.0
    away = distance.mT
    found = []
    for hop in range(hops + 1):
        if hop:
            term = operator.multiply_into(torch.empty_like(term), term)
        entries = term[away == hop].abs()
        found.append(float(entries.max()) if entries.numel() else 0.0)
    return torch.tensor(found, dtype=torch.float64)


def labeled_pairs(distance: Tensor, nodes: Tensor, labeled: Tensor) -> Tensor:
    """Returns the number of pairs of distinct labelled nodes at each distance.

    Args:
        distance (Tensor): Hops from every node to the measured ones.
        nodes (Tensor): The measured nodes.
        labeled (Tensor): The labelled nodes.

    Shapes:
        - **distance:** ``(count, num_nodes)``
        - **nodes:** ``(count,)``
        - **labeled:** ``(labeled_nodes,)``
        - **output:** ``(hops + 1,)``
    """
    rows = torch.isin(nodes, labeled)
    apart = distance[rows][:, labeled].flatten()
    return torch.bincount(apart[apart > 0].long(), minlength=1)


def largest_factor(propagation: Propagation) -> float:
    """Returns the largest of all :func:`~mgnni.range.bounds.node_factors`."""
    weight = propagation.norm.weight
    return 1.0 if weight is None else float(weight.max() / weight.min())


def _share(pairs: Tensor, hops: int) -> float | None:
    total = int(pairs.sum())
    return int(pairs[: hops + 1].sum()) / total if total else None
