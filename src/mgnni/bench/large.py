"""A graph of 2.4 million nodes and 124 million edges, fast and with little memory."""

from __future__ import annotations

from collections.abc import Iterator

from mgnni.bench.compete import settle
from mgnni.bench.equation import Equation
from mgnni.bench.problems import uniform_graph
from mgnni.bench.row import Errors, Row
from mgnni.bench.settings import Settings
from mgnni.graph.propagation import Propagation

TARGET = Errors(1e-5, 1e-5)


def rows(settings: Settings) -> Iterator[Row]:
    """Time forward and backward to 1e-5, width 64, scales 1 and 2."""
    nodes, edges, width = (500, 5000, 8) if settings.quick else (2_400_000, 124_000_000, 64)
    propagation = Propagation.from_edge_index(
        uniform_graph(nodes, edges, settings.device), nodes, normalization="sym"
    )
    equation = Equation.random(propagation, width, 0.93)
    entrants = [  # the textbook takes minutes
        equation.by_us(TARGET, name="mgnni, fast"),
        equation.by_us(TARGET, memory="low", name="mgnni, low memory"),
    ]
    case = f"{nodes:,} nodes, {edges:,} edges, h = {width}"
    yield from settle(case, entrants, settings, {"nodes": nodes, "edges": edges, "width": width})
