"""How far a label travels along chains: accuracy by distance, also with exact solves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from mgnni.data.registry import MAKERS
from mgnni.errors import ConvergenceError
from mgnni.implicit.solve import solve_equilibrium
from mgnni.models.mgnni import MGNNI
from mgnni.reproduce.study import Cell
from mgnni.reproduce.train_cell import report_of, train_cell
from mgnni.train.config import changed
from mgnni.train.fitted import Fitted
from mgnni.train.learner import prepared
from mgnni.train.training import OnEpoch

LAST_DIGITS: dict[str, Any] = {"precision": "64", "tol": 1e-14}  # of the second evaluation
KNOWN = 0.95  # accuracy from which a label counts as known at a distance
Outcomes = list[tuple[Tensor, Tensor]]


def distance(cell: Cell, folder: Path, device: str, on_epoch: OnEpoch) -> dict[str, Any]:
    """Return the scores, and ``distance``: how they depend on the distance.

    ``hops`` are the distances of test nodes, ``right`` the share of them that is classified
    correctly, and ``reach`` the farthest distance at which the label is still known. ``exact`` has
    the same for the same weights, with their equation solved to 1e-14 in float64, and ``score``,
    the mean over the runs: if it is better, the solver limited the distance and not the model.
    ``weighted_majority`` is what the equation itself can tell of a count of colours.
    """
    fitted = train_cell(cell, folder, device, on_epoch)
    graph = prepared(MAKERS[cell.column.dataset](**cell.options), fitted.config)
    on_cuda = device != "cpu" and torch.cuda.is_available()
    where = torch.device("cuda" if on_cuda else "cpu")
    found = outcomes(fitted, graph, where)
    return {
        **report_of(fitted),
        "distance": {
            **by_hop(found),
            "exact": exact(fitted, graph, where, found),
            "weighted_majority": weighted_majority(fitted, graph),
        },
    }


@torch.no_grad()
def outcomes(fitted: Fitted, graph: Data, device: torch.device) -> Outcomes:
    """Return the distances of the test nodes of each run, and whether their class is right.

    Computed from logits: at the end of a chain their differences may vanish in probabilities.

    Args:
        fitted (Fitted): The trained models.
        graph (Data): The chains, with ``hop``.
        device (torch.device): Where to compute.
    """
    test = graph.test_mask.view(graph.num_nodes, -1)
    edge_index, found = graph.edge_index.to(device), []
    for place, run in enumerate(fitted.runs):
        model = fitted.model(place).to(device)
        x = graph.x.to(next(model.parameters()))
        right = model(x, edge_index).argmax(1).cpu() == graph.y
        rows = test[:, run.split]
        found.append((graph.hop[rows], right[rows]))
    return found


def exact(
    fitted: Fitted, graph: Data, device: torch.device, found: Outcomes
) -> dict[str, Any] | None:
    """Return the outcome of the same weights with exact solves; None without an equation.

    Also None if the equation cannot be solved so accurately.

    Args:
        fitted (Fitted): The trained models.
        graph (Data): The chains.
        device (torch.device): Where to compute.
        found (list): Their own outcomes, used if they are solved so accurately already.
    """
    if not hasattr(fitted.config.model, "tol"):
        return None
    again = changed(fitted.config, LAST_DIGITS)
    if again != fitted.config:
        try:
            found = outcomes(replace(fitted, config=again), graph, device)
        except ConvergenceError:  # limited by rounding
            return None
    score = torch.stack([right.double().mean() for _, right in found]).mean()
    return {"score": float(score), **by_hop(found)}


@torch.no_grad()
def weighted_majority(fitted: Fitted, graph: Data) -> float | None:
    r"""Return the share of nodes whose weighted count of colours has the sign of the count.

    The state of a node far from the colours is a multiple of :math:`z` with

    .. math::
        z = \gamma P^m z + s,

    where :math:`s` is :math:`\pm 1` at the nodes of the two colours and 0 elsewhere: a count in
    which nearer nodes have larger weights. If its sign is not that of the count, the largest
    eigenvalue of :math:`g(F)` does not tell the majority at this node, at any tolerance. The
    share is that of the best scale, over all nodes, in float64. None for other data and models.

    Args:
        fitted (Fitted): The trained models.
        graph (Data): The chains.
    """
    model = fitted.model(0)
    if report_of(fitted)["dataset"] != "colors" or not isinstance(model, MGNNI):
        return None
    model = model.double().cpu()
    length = int((graph.chain == 0).sum())  # chains are consecutive and equal
    x = graph.x.double().view(-1, length, graph.num_features)
    operator = model.propagation(x[0], graph.edge_index[:, (graph.edge_index < length).all(0)])
    sign = (x[..., 1] - x[..., 0]).T
    shares = []
    for scale in fitted.config.model.scales:  # a direct solve: distant states are tiny
        one, gamma = torch.eye(sign.size(1)).to(sign), fitted.config.model.gamma
        z = solve_equilibrium(operator, one, sign, scale, gamma, solver="dense").value
        shares.append(float(((z > 0) == (graph.y.view(-1, length).T == 1)).double().mean()))
    return max(shares)


def by_hop(found: Sequence[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """Return the share of correct classes by distance, over all runs, and the reach.

    Args:
        found (list): Distances, and whether the class is right, of each run.
    """
    hop, right = (torch.cat(parts) for parts in zip(*found, strict=True))
    hops = sorted(set(hop.tolist()))
    share = [float(right[hop == one].double().mean()) for one in hops]
    return {"hops": hops, "right": [round(one, 4) for one in share], "reach": reach(hops, share)}


def reach(hops: Sequence[int], share: Sequence[float]) -> int | None:
    """Return the largest distance up to which the class is known; None if not even at 0.

    Args:
        hops (Sequence[int]): Distances, sorted.
        share (Sequence[float]): Share of correct classes.
    """
    far = None
    for hop, one in zip(hops, share, strict=True):
        if one < KNOWN:
            break
        far = hop
    return far
