"""How the states along a chain change when its first node is masked."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mgnni.implicit.normalized_gram import normalized_gram
from mgnni.models.base import GraphModel
from mgnni.range.bounds import contraction, node_factors, sound_bound, sound_range, walks
from mgnni.range.chain import chain_influence, decay_rate
from mgnni.range.measure import States, find_equilibrium, perturbation_response
from mgnni.range.printed import printed_bound, printed_range
from mgnni.reproduce.study import Cell
from mgnni.reproduce.train_cell import report_of, source_of, train_cell
from mgnni.train.training import OnEpoch

THETA = 1e-6  # of effective ranges
EXACT = 1e-14  # tolerance of the second measurement, in float64


def response(cell: Cell, folder: Path, device: str, on_epoch: OnEpoch) -> dict[str, Any]:
    """Return the scores, and ``response``: see :func:`chain_response`."""
    source = source_of(cell)
    fitted = train_cell(cell, folder, device, on_epoch, source)
    graph = source.task.graphs[0]
    found = chain_response(fitted.model(0), graph.x, graph.edge_index, cell.options["length"])
    return {**report_of(fitted), "response": found}


def chain_response(model: GraphModel, x: Tensor, edge_index: Tensor, length: int) -> dict[str, Any]:
    r"""Return the change of the states of the first chain when its first node is masked.

    ``float32`` is measured with the precision and tolerance of the model, and ``float64`` with a
    tolerance of 1e-14. ``exact`` is the closed form: with the eigenpairs
    :math:`(\lambda_k, u_k)` of :math:`g(F)`, in which the equation decouples,

    .. math::  \|\Delta z_q\|^2 = \sum_k \langle x_p, u_k \rangle^2
               \left((I - \gamma \lambda_k P)^{-1}\right)_{qp}^2.

    ``limit`` is the closed form for an eigenvalue of one, the largest that is possible. ``printed``
    is the bound of Theorem 1 as printed in the paper, and ``sound`` a proven one. All are lists by
    distance. ``ranges`` has the last distance at which each of them is above the threshold, which
    is zero for ``float32`` and ``float64``, and 1e-6 for the others.

    Args:
        model (GraphModel): EIGNN.
        x (Tensor): Features of directed chains of equal length, one after another.
        edge_index (Tensor): Their edges.
        length (int): Number of nodes of a chain.

    Shapes:
        - **x:** ``(chains * length, in_channels)``
        - **edge_index:** ``(2, chains * (length - 1))``
    """
    layer, first = find_equilibrium(model), torch.tensor([0])
    gamma = float(layer.gamma)
    weight = normalized_gram(layer.factor.detach().double())[0]
    values, vectors = torch.linalg.eigh(weight)
    values = values.clamp(0, 1)
    change = x[0].double()
    size = float(torch.linalg.vector_norm(change))
    graph = model.propagation(x[:length], edge_index[:, (edge_index < length).all(0)])
    along = partial(
        chain_influence, length=length, directed=True, normalization=graph.normalization
    )
    each = torch.stack([along(gamma * float(one)) for one in values])
    hops = torch.arange(length)
    states = States(model)
    curves = {
        "float32": perturbation_response(states, x, edge_index, first, tol=None)[0, :length],
        "float64": perturbation_response(states, x, edge_index, first, tol=EXACT)[0, :length],
        "exact": torch.linalg.vector_norm((change @ vectors).unsqueeze(1) * each, dim=0),
        "limit": size * along(gamma),
        "printed": torch.tensor(
            [
                printed_bound(change, weight, float(walks(graph, 0, hop)[hop]), hop, gamma)
                for hop in range(length)
            ]
        ),
        "sound": size * sound_bound(graph, 0, hops, weight, gamma),
    }
    largest = float(values[-1])
    ranges: dict[str, float | None] = {
        name: last_above(curves[name], 0.0 if name.startswith("float") else THETA)
        for name in ("float32", "float64", "exact", "limit")
    }
    ranges["printed"] = printed_range(THETA, gamma)
    factor = size * float(node_factors(graph, 0).max())
    ranges["sound"] = sound_range(THETA / factor, contraction(graph, largest, gamma))
    exceeded = (curves["exact"] > curves["printed"]).nonzero()
    ranges["exceeded"] = int(exceeded[0]) if exceeded.numel() else None
    return {
        "gamma": gamma,
        "eigenvalue": largest,
        "decay": decay_rate(gamma * largest, directed=True),
        "theta": THETA,
        "ranges": ranges,
        **{name: curve.tolist() for name, curve in curves.items()},
    }


def last_above(curve: Tensor, threshold: float) -> int | None:
    """Return the last distance at which a curve is above a threshold; None if it never is."""
    above = (curve > threshold).nonzero()
    return int(above[-1]) if above.numel() else None
