"""Influence by distance: what remains of it after each number of hops."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from mgnni.errors import ArgumentError
from mgnni.range.printed import check_threshold


@dataclass(frozen=True, eq=False)
class HopProfile:
    r"""The influence of nodes on others, by the number of hops between them.

    Attributes:
        pairs (Tensor): Number of measured pairs at each distance.
        largest (Tensor): Largest influence at each distance. The profile of a sample of nodes may
            miss the largest one.
        mean (Tensor): Mean influence of a pair at each distance.
        total (Tensor): Influence of all nodes at a distance together, mean over the nodes that
            were measured. This is what PyG's ``total_influence`` returns.
        half_width (Tensor): Half the width of a 95 % confidence interval of ``total``; zero if
            all nodes were measured, infinite for a sample of one.
        breadth (float): Mean distance, weighted by influence: PyG's influence-weighted receptive
            field.
        nodes (int): Number of nodes that were measured.
        num_nodes (int): Number of nodes of the graph.

    Shapes:
        - **pairs, largest, mean, total, half_width:** ``(hops + 1,)``
    """

    pairs: Tensor
    largest: Tensor
    mean: Tensor
    total: Tensor
    half_width: Tensor
    breadth: float
    nodes: int
    num_nodes: int

    def effective_range(self, theta: float) -> int:
        r"""Returns the θ-effective range: the largest distance with an influence above it.

        Args:
            theta (float): The threshold :math:`\theta`.
        """
        above = (self.largest > check_threshold(theta)).nonzero()
        return int(above.max()) if above.numel() else 0

    def decay(self, floor: float) -> float | None:
        """Returns the factor per hop by which the largest influence shrinks on average.

        It is the slope of a line through the logarithms, or None if fewer than three distances
        have an influence above ``floor``.

        Args:
            floor (float): Influences up to this number are left out, as rounding errors.
        """
        used = (self.largest > floor).nonzero().squeeze(1)
        if used.numel() < 3:
            return None
        hop, height = used.double(), self.largest[used].double().log()
        hop = hop - hop.mean()
        return math.exp(float((hop * height).sum() / (hop * hop).sum()))

    def to_dict(self) -> dict[str, Any]:
        """Returns the profile as plain data."""
        finite = [value if math.isfinite(value) else None for value in self.half_width.tolist()]
        return {
            "pairs": self.pairs.tolist(),
            "largest": self.largest.tolist(),
            "mean": self.mean.tolist(),
            "total": self.total.tolist(),
            "half_width": finite,
            "breadth": self.breadth,
            "nodes": self.nodes,
            "num_nodes": self.num_nodes,
        }


def hop_profile(
    influence: Tensor, distance: Tensor, *, sampled_from: int | None = None
) -> HopProfile:
    """Returns the influence by distance.

    Args:
        influence (Tensor): One row per measured node, one column per node of the graph.
        distance (Tensor): Hops between them; pairs with a negative number are left out.
        sampled_from (int, optional): Number of nodes of which the rows are a random sample; all
            nodes of the graph if :obj:`None`. (default: :obj:`None`)

    Shapes:
        - **influence, distance:** ``(count, num_nodes)``
    """
    profiler = Profiler()
    profiler.add(influence, distance)
    return profiler.profile(sampled_from)


class Profiler:
    """Collects influences block by block, and returns their :class:`HopProfile`."""

    def __init__(self) -> None:
        self._num_nodes = 0
        self._rows: list[Tensor] = []  # influence by distance, one row per measured node
        self._pairs: list[Tensor] = []
        self._largest: list[Tensor] = []

    def add(self, influence: Tensor, distance: Tensor) -> None:
        """Adds the rows of some nodes; see :func:`hop_profile`.

        Args:
            influence (Tensor): One row per measured node, one column per node of the graph.
            distance (Tensor): Hops between them.

        Shapes:
            - **influence, distance:** ``(count, num_nodes)``
        """
        if influence.shape != distance.shape or influence.dim() != 2:
            raise ArgumentError(
                "'distance' must have the shape of 'influence', (count, num_nodes) (got "
                f"{tuple(distance.shape)} and {tuple(influence.shape)}); see mgnni.range.hops_to"
            )
        self._num_nodes = influence.size(1)
        hops = int(distance.max()) + 1 if distance.numel() else 1
        # Pairs without a path are collected in an extra column.
        place = torch.where(distance < 0, hops, distance).long().cpu()
        size = influence.double().cpu()
        rows = torch.zeros(len(size), hops + 1, dtype=torch.float64).scatter_add(1, place, size)
        self._rows.append(rows[:, :hops])
        self._pairs.append(torch.bincount(place.flatten(), minlength=hops + 1)[:hops])
        largest = torch.zeros(hops + 1, dtype=torch.float64)
        largest = largest.scatter_reduce(0, place.flatten(), size.flatten(), "amax")
        self._largest.append(largest[:hops])

    def profile(self, sampled_from: int | None = None) -> HopProfile:
        """Returns the profile of all rows so far.

        Args:
            sampled_from (int, optional): See :func:`hop_profile`. (default: :obj:`None`)
        """
        if not sum(len(one) for one in self._rows):
            raise ArgumentError(
                "'influence' must have at least one row (got none); measure some nodes"
            )
        hops = max(one.size(-1) for one in self._rows)
        rows = torch.cat([_padded(one, hops) for one in self._rows])
        pairs = torch.stack([_padded(one, hops) for one in self._pairs]).sum(0)
        together = rows.sum(1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        breadth = (rows / together) @ torch.arange(hops, dtype=torch.float64)
        population = self._num_nodes if sampled_from is None else sampled_from
        return HopProfile(
            pairs,
            torch.stack([_padded(one, hops) for one in self._largest]).amax(0),
            rows.sum(0) / pairs.clamp(min=1),
            rows.mean(0),
            _half_width(rows, population),
            float(breadth.mean()),
            len(rows),
            population,
        )


def _half_width(by_node: Tensor, population: int) -> Tensor:
    """Of a 95 % interval for the mean of a sample without replacement (Student's t)."""
    count = len(by_node)
    if count >= population:
        return torch.zeros(by_node.size(1), dtype=torch.float64)
    if count == 1:
        return torch.full((by_node.size(1),), torch.inf, dtype=torch.float64)
    remaining = (1 - count / population) ** 0.5
    quantile = float(stdtrit(count - 1, 0.975))
    width: Tensor = by_node.std(0) * (quantile * remaining / count**0.5)
    return width


def _padded(rows: Tensor, hops: int) -> Tensor:
    return torch.nn.functional.pad(rows, (0, hops - rows.size(-1)))
