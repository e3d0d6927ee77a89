"""A description of numbers to predict, without a look at those of the test set."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgnni.data.task import Task

BINS = 20


def describe_targets(task: Task, split: int, edges: Tensor) -> list[dict[str, Any]]:
    """Returns the distribution of each target over training and validation rows.

    Args:
        task (Task): A regression task.
        split (int): Index of the split. Test rows are not used.
        edges (Tensor): Edges of all graphs as those of one.

    Shapes:
        - **edges:** ``(2, num_edges)``

    Returns:
        ``name``, ``train`` and ``val`` (numbers of rows), ``mean``, ``deviation``, ``min``,
        ``quartiles`` and ``max``, ``neighbours`` (see :func:`neighbour_correlation`), and
        ``histogram``: the counts of 20 bins of equal width from ``min`` to ``max``.
    """
    rows = [task.rows(split, part) for part in ("train", "val")]
    every = torch.cat([task.targets(split, part) for part in ("train", "val")]).double()
    known = torch.full((task.num_rows, len(task.classes)), float("nan"), dtype=torch.double)
    known[torch.cat(rows)] = every
    found = []
    for place, name in enumerate(task.classes):
        values = every[:, place]
        found.append(
            {
                "name": name,
                "train": rows[0].numel(),
                "val": rows[1].numel(),
                "mean": float(values.mean()),
                "deviation": float(values.std(correction=0)),
                "min": float(values.min()),
                # torch.quantile refuses more than 16 million numbers.
                "quartiles": np.quantile(values.numpy(), (0.25, 0.5, 0.75)).tolist(),
                "max": float(values.max()),
                "neighbours": (
                    neighbour_correlation(known[:, place], edges) if task.level == "node" else None
                ),
                "histogram": torch.histc(values, BINS).long().tolist(),
            }
        )
    return found


def neighbour_correlation(values: Tensor, edges: Tensor) -> float | None:
    """Returns the correlation of the numbers at the two ends of an edge.

    It is 1 if neighbours have equal numbers, and around 0 if the edges say nothing about them.

    Args:
        values (Tensor): A number per node, nan where it is not known; such edges do not count.
        edges (Tensor): Edge indices.

    Shapes:
        - **values:** ``(num_nodes,)``
        - **edges:** ``(2, num_edges)``
    """
    source, target = values[edges[0]], values[edges[1]]
    kept = ~(source.isnan() | target.isnan()) & (edges[0] != edges[1])
    # Both directions, so that the two ends have one mean and one deviation.
    a, b = torch.cat([source[kept], target[kept]]), torch.cat([target[kept], source[kept]])
    if not a.numel() or bool((a == a[0]).all()):
        return None
    a, b = a - a.mean(), b - b.mean()
    return float((a * b).mean() / a.square().mean())
