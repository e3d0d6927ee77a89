"""Whether edges lead one way or both, and edges listed more than once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.wording import counted, show
from mgnni.errors import DataError

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


def directed_edges(
    edges: Integers,
    weight: Floats | None,
    num_nodes: int,
    directed: bool | None,
    where: str,
    name: Callable[[int], object],
) -> tuple[Integers, Floats | None, bool, list[str]]:
    """Return edges, weights, whether they are directed, and what to note about them.

    Args:
        edges: shape ``(2, num_edges)``.
        weight: shape ``(num_edges,)``.
        num_nodes: how many nodes there are.
        directed: as in :class:`~mgnni.data.tables.options.TableOptions`.
        where: the file, for a message.
        name: the id of a node, for a message.
    """
    notes = []
    there, back = _keys(edges, num_nodes)
    distinct = _distinct(there)
    if len(distinct) < len(there):
        again = counted(len(there) - len(distinct), "edge")
        notes.append(f"{again} listed more than once: kept, their weights add up")
    loops = int((edges[0] == edges[1]).sum())
    if loops:
        notes.append(f"{counted(loops, 'self-loop')} kept")
    if not there.size:
        return edges, weight, bool(directed), [f"{where}: no edges"]
    if directed is True:
        return edges, weight, True, notes
    both_ways = np.array_equal(distinct, _distinct(back))
    if directed is False and not both_ways:
        one_way = ~np.isin(back, distinct)
        edges = np.concatenate([edges, edges[::-1, one_way]], axis=1)
        weight = None if weight is None else np.concatenate([weight, weight[one_way]])
        notes.append(f"{counted(int(one_way.sum()), 'edge')} listed one way: reverse added")
        there, back = _keys(edges, num_nodes)
        both_ways = True
    uneven = _uneven(there, back, weight) if both_ways else None
    if uneven is not None and directed is False:
        source, target = (name(int(node)) for node in divmod(uneven, num_nodes))
        raise DataError(
            f"{where}: an undirected edge must weigh the same both ways (got another weight, or "
            f"number, of edges from {show(source)} to {show(target)} than back); list it once, or "
            "leave --directed out"
        )
    if both_ways and uneven is None:
        return edges, weight, False, [*notes, "undirected: every edge has its reverse"]
    advice = "" if both_ways else "; say directed=False (--directed false) if each stands for both"
    return edges, weight, True, [*notes, f"directed: edges lead from source to target{advice}"]


def _keys(edges: Integers, num_nodes: int) -> tuple[Integers, Integers]:
    """Number every pair of nodes, forwards and backwards."""
    return edges[0] * num_nodes + edges[1], edges[1] * num_nodes + edges[0]


def _uneven(there: Integers, back: Integers, weight: Floats | None) -> int | None:
    """Return a pair whose weights, summed, differ in the two directions."""
    pair, forward = _summed(there, weight)
    _, backward = _summed(back, weight)
    wrong = np.flatnonzero(~np.isclose(forward, backward, rtol=1e-5, atol=0))
    return int(pair[wrong[0]]) if wrong.size else None


def _summed(keys: Integers, weight: Floats | None) -> tuple[Integers, npt.NDArray[np.float64]]:
    """Return each pair once, in order, with its weights summed."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    start = np.flatnonzero(np.diff(keys, prepend=-1))
    ones = np.ones(len(keys)) if weight is None else weight[order].astype(np.float64)
    return keys[start], np.add.reduceat(ones, start)


def _distinct(keys: Integers) -> Integers:
    """Return the keys sorted, each once: ``np.unique`` hashes, and is ten times slower here."""
    ordered = np.sort(keys)
    kept: Integers = ordered[np.diff(ordered, prepend=-1) != 0]
    return kept
