"""The error of models on the lattice, beside their range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from mgnni.data.lattice import lattice, lattice_error
from mgnni.models.base import GraphModel
from mgnni.range.hops import hops_to
from mgnni.range.measure import jacobian_influence
from mgnni.range.profile import hop_profile
from mgnni.range.study import sample_nodes
from mgnni.reproduce.study import Cell
from mgnni.reproduce.train_cell import report_of, train_cell
from mgnni.train.training import OnEpoch

FRESH, SEED = 20, 1000  # lattices on which errors are measured, and their seed
NODES = 8  # whose influences are measured
THETA = 0.01  # of the range, relative to the largest influence
SIZE = ("side", "dimensions", "kernel", "decay", "noise")  # options on which errors depend


def error_by_range(cell: Cell, folder: Path, device: str, on_epoch: OnEpoch) -> dict[str, Any]:
    """Return the scores, and ``lattice``: errors on new lattices, and ranges, one per run.

    One test lattice is a small sample, because the targets of its nodes are correlated; so errors
    are measured on more of them. ``best`` is the smallest possible error by number of hops.
    """
    fitted = train_cell(cell, folder, device, on_epoch)
    models = [fitted.model(place).cpu() for place in range(len(fitted.runs))]
    size = {name: cell.options[name] for name in SIZE if name in cell.options}
    found = [measured(model, size) for model in models]
    best = [lattice_error(0, **size)]
    while best[-1] > size.get("noise", 0.0) + 1e-9:
        best.append(lattice_error(len(best), **size))
    errors, ranges = (list(one) for one in zip(*found, strict=True))
    return {**report_of(fitted), "lattice": {"error": errors, "range": ranges, "best": best}}


def measured(model: GraphModel, size: dict[str, Any]) -> tuple[float, int]:
    """Return the error of a model on new lattices, and its range in hops.

    The range is the longest distance with an influence above 1 % of the largest one.

    Args:
        model (GraphModel): The trained model.
        size (dict[str, Any]): Options of the lattice, without its seed.
    """
    graph = lattice(**size, num_lattices=FRESH, seed=SEED)
    x = graph.x.to(next(model.parameters()).dtype)
    with torch.no_grad():
        wrong = model(x, graph.edge_index).argmax(1) != graph.y
    first = slice(graph.num_nodes // FRESH)  # all lattices are the same graph
    x, edges = x[first], graph.edge_index[:, : graph.num_edges // FRESH]
    nodes = sample_nodes(len(x), NODES)
    profile = hop_profile(
        jacobian_influence(model, x, edges, nodes), hops_to(model.propagation(x, edges), nodes)
    )
    largest = float(profile.largest.max())
    reach = profile.effective_range(THETA * largest) if largest > 0 else 0
    return float(wrong.double().mean()), reach


def needed(error: float, best: list[float]) -> int:
    """Return the number of hops that a model with this error must see at least.

    Args:
        error (float): The error.
        best (list[float]): The smallest possible error by number of hops.
    """
    return next((hops for hops, least in enumerate(best) if least <= error), len(best) - 1)
