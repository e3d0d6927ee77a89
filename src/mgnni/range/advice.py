"""Which factors and scales a graph needs, so that information crosses it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from mgnni.errors import check_int
from mgnni.range.bounds import distance_bound, symmetric_bound
from mgnni.range.chain import line_influence
from mgnni.range.study import Ranges

LARGEST = 4096  # scale up to which advice is looked for
GAMMAS = (0.8, 0.9, 0.95, 0.99)
SMALL = 0.9  # eigenvalue below which the weights limit the range


@dataclass(frozen=True)
class Advice:
    r"""Which scales a graph needs for a given :math:`\gamma`, so that its range is long enough.

    Attributes:
        gamma (float): The factor :math:`\gamma`.
        possible (int or None): Smallest scale that the bounds do not rule out.
        chain (int or None): Smallest scale that reaches this far along a chain, in closed form.
    """

    gamma: float
    possible: int | None
    chain: int | None


def advise(
    hops: int, *, symmetric: bool, theta: float = 1e-6, gammas: Sequence[float] = GAMMAS
) -> tuple[Advice, ...]:
    r"""Returns the scales with which a range of so many hops is possible.

    The eigenvalue of the weight is taken to be one, the best case: training has to bring it there.
    A scale below ``possible`` is ruled out for every graph of this kind. At ``chain``, the
    influence exceeds :math:`\theta` at the end of a chain with self-loops; graphs that branch
    divide the influence and need more.

    Args:
        hops (int): The range that is needed, for example the diameter of the graph.
        symmetric (bool): Whether the graph is undirected.
        theta (float, optional): The threshold :math:`\theta`. (default: :obj:`1e-6`)
        gammas (Sequence[float], optional): The factors to consider.
    """
    check_int("hops", hops, least=0)
    end = torch.tensor([hops])

    def on_chain(gamma: float, scale: int) -> bool:
        reached = line_influence(gamma, end, scale, directed=not symmetric)
        return float(reached) > theta

    def in_bounds(gamma: float, scale: int) -> bool:
        bound = symmetric_bound if symmetric else distance_bound
        return float(bound(gamma, end, scale)) > theta

    return tuple(
        Advice(gamma, _least(gamma, in_bounds), _least(gamma, on_chain)) for gamma in gammas
    )


def _least(gamma: float, holds: Callable[[float, int], bool]) -> int | None:
    """The smallest scale for which a property holds that larger scales keep."""
    low, high = 0, 1
    while not holds(gamma, high):
        low, high = high, 2 * high
        if high > LARGEST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(gamma, middle) else (middle, high)
    return high


def recommend(study: Ranges, *, symmetric: bool) -> str:
    """Returns in words which of the measured settings suffice, or what would, and why.

    One line per statement.

    Args:
        study (Ranges): What was measured.
        symmetric (bool): Whether the graph is undirected.
    """
    hops = study.longest
    if not study.ranges:
        return "The model has no linear equilibrium, so there are no bounds to compare with."
    if hops == 0:
        return "No measured node has a path to another, so the range does not matter."
    enough = [one.setting for one in study.ranges if one.measured >= hops]
    if enough:
        least = min(enough, key=lambda one: (one.gamma, one.scale))
        return (
            f"gamma {least.gamma:g} with scale {least.scale} is enough: it reaches {hops} hops, "
            "the longest distance that was measured. Smaller values solve faster."
        )
    best = max(study.ranges, key=lambda one: one.measured)
    lines = [
        f"None of these settings reaches {hops} hops, the longest distance that was measured. "
        f"gamma {best.setting.gamma:g} with scale {best.setting.scale} reaches {best.measured}."
    ]
    largest = max(one.setting.eigenvalue for one in study.ranges)
    if largest < SMALL:
        lines.append(
            f"The largest eigenvalue of their weights is {largest:.2g}. With one, the range would "
            "be longer; training has to raise it."
        )
    found = advise(hops, symmetric=symmetric, theta=study.theta)
    first = found[0]
    if first.chain == 1:
        lines.append(
            f"On a chain of this length, gamma {first.gamma:g} with scale 1 and an eigenvalue of "
            "one would be enough. Where a graph branches, influence is divided."
        )
    for one in found if first.chain != 1 else ():
        if one.possible is None:
            lines.append(f"gamma {one.gamma:g}: ruled out for all scales up to {LARGEST}.")
            continue
        ruled = f"scales below {one.possible} are" if one.possible > 1 else "no scale is"
        chain = f"{one.chain}" if one.chain else f"more than {LARGEST}"
        lines.append(
            f"gamma {one.gamma:g}: {ruled} ruled out; a chain of this length takes {chain}."
        )
    if symmetric:
        reason = (
            "On an undirected graph the range grows with the square root of the scale and of "
            "1 / (1 - gamma) at most."
        )
    else:
        reason = "On a directed graph the range grows in proportion to scale / (1 - gamma) at most."
    return "\n".join([*lines, reason])
