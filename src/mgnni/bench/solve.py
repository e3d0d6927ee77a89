"""Solving, forward and backward, to a measured error: every solver, and rivals."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch_geometric.utils import to_undirected

from mgnni.bench.compete import Entrant, settle
from mgnni.bench.equation import Equation
from mgnni.bench.problems import QUICK, SHAPES, web_graph
from mgnni.bench.row import Row
from mgnni.bench.settings import Settings
from mgnni.graph.propagation import Propagation
from mgnni.solve.prepare import METHODS

WEIGHTS = {"initial": None, "0.93": 0.93, "0.99": 0.99}  # largest eigenvalue of g(F)
# Which weights with which scales: three scales show what a sweep in common saves.
CASES = [((1, 2, 3), "initial"), ((1, 2, 3), "0.93"), *(((1, 2), kind) for kind in WEIGHTS)]


def rows(settings: Settings) -> Iterator[Row]:
    """Time to 1e-6 in the states and 1e-5 in the gradients, on graphs of two shapes."""
    channels = 8 if settings.quick else 64
    graphs, cases = ["chameleon", "squirrel"], CASES
    if settings.quick:
        graphs, cases = graphs[1:], [((1, 2), "0.93")]
    elif settings.device.type == "cuda":
        graphs, cases = graphs[1:], [((1, 2), "0.93"), ((1, 2), "0.99")]
    for name in graphs:
        nodes, edges, *_ = QUICK if settings.quick else SHAPES[name]
        for directed in (False, True):
            index = web_graph(nodes, edges, torch.Generator().manual_seed(0))
            index = index if directed else to_undirected(index, num_nodes=nodes)
            propagation = Propagation.from_edge_index(
                index.to(settings.device), nodes, normalization="dir" if directed else "sym"
            )
            for scales, kind in cases:
                largest = WEIGHTS[kind]
                equation = Equation.random(propagation, channels, largest, scales)
                way = "directed" if directed else "undirected"
                case = f"{name}-like, {way}, scales 1 to {max(scales)}, λ = {kind}"
                size = {
                    "largest": largest or 0.0,
                    "directed": float(directed),
                    "scales": len(scales),
                }
                yield from settle(case, _entrants(equation, settings), settings, size)


def _entrants(equation: Equation, settings: Settings) -> Iterator[Entrant]:
    textbook, target = equation.textbook()
    yield textbook
    yield from equation.torchdeq(settings)
    yield equation.by_us(target)
    if settings.device.type == "cuda" and not settings.quick:
        return  # which solver is best does not depend on the device, and they take their time
    for name, solver in METHODS.items():
        if equation.propagation.symmetric or not solver.needs_symmetric_operator:
            yield equation.by_us(target, name)
