"""Where to draw the nodes of a neighbourhood."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.float64]
ROUNDS = 200  # of stress majorization
SWEEPS = 4  # over the rings


def ring_layout(hops: npt.NDArray[np.int64], edges: npt.NDArray[np.int64]) -> Points:
    """Return positions on rings around the target, one ring per distance.

    The nodes of a ring are ordered by the mean direction of their neighbours nearer to the target,
    so that edges rarely cross.

    Args:
        hops (numpy.ndarray): Distance of each node; negative ones are on the outermost ring.
        edges (numpy.ndarray): Pairs of nodes, shape ``(2, num_edges)``.

    Returns:
        Positions of shape ``(num_nodes, 2)``; the target is at the origin.
    """
    distances = np.unique(hops[hops >= 0])
    ring = np.searchsorted(distances, hops)  # without gaps, if no node at some distance is shown
    ring[hops < 0] = len(distances)
    angle = np.zeros(len(hops))
    neighbors: list[list[int]] = [[] for _ in hops]
    for a, b in edges.T.tolist():
        neighbors[a].append(b)
        neighbors[b].append(a)
    for sweep in range(SWEEPS):
        for place in range(1, int(ring.max(initial=0)) + 1):
            own = np.flatnonzero(ring == place)
            wanted = []
            for node in own.tolist():
                # Within the first ring only the ring itself has a direction.
                near = [p for p in neighbors[node] if 0 < ring[p] < place or ring[p] == place > 0]
                near = near if sweep or place > 1 else []
                total = np.exp(1j * angle[near]).sum() if near else 0
                wanted.append(np.angle(total) if abs(total) > 1e-9 else angle[node])
            order = np.argsort(wanted, kind="stable")
            angle[own[order]] = 2 * np.pi * (np.arange(len(own)) + 0.5 * (place % 2)) / len(own)
    points: Points = ring[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return points


def stress_layout(distance: npt.NDArray[np.float64]) -> Points:
    """Return positions whose distances are close to given ones, by stress majorization.

    Args:
        distance (numpy.ndarray): Distances, shape ``(num_nodes, num_nodes)``.

    Returns:
        Positions of shape ``(num_nodes, 2)``.
    """
    count = len(distance)
    turn = 2 * np.pi * np.arange(count) / max(count, 1)
    points = count / 6 * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    weight = 1 / np.where(distance > 0, distance, 1) ** 2
    np.fill_diagonal(weight, 0)
    total = np.maximum(weight.sum(1), 1e-12)
    for _ in range(ROUNDS if count > 1 else 0):
        for node in range(count):
            offset = points[node] - points
            length = np.maximum(np.linalg.norm(offset, axis=1), 1e-9)
            wanted = points + distance[node][:, None] * offset / length[:, None]
            points[node] = (weight[node][:, None] * wanted).sum(0) / total[node]
    return points
