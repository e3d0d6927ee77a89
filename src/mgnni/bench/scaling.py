"""How time and memory grow: with edges, width, contraction and scales."""

from __future__ import annotations

from collections.abc import Iterator

from mgnni.bench.compete import settle
from mgnni.bench.equation import TARGET, Equation
from mgnni.bench.problems import uniform_graph
from mgnni.bench.row import Row
from mgnni.bench.settings import Settings
from mgnni.graph.propagation import Propagation

DEGREE = 20
MOST_FOR_RIVALS = 10**6  # edges; with more, the textbook takes minutes
LARGEST, SLOWEST = 0.93, 0.99  # eigenvalue of g(F); the second where γ alone shall count
WIDTHS = (16, 32, 64, 128, 256)
GAMMAS = (0.5, 0.8, 0.9, 0.95, 0.99)
SCALES = ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4))


def rows(settings: Settings) -> Iterator[Row]:
    """Vary one thing at a time, on undirected graphs of degree 20 with ends at random."""
    sizes: tuple[int, ...]
    sizes, base = (10_000, 30_000, 100_000, 300_000, 1_000_000), 100_000
    if settings.quick:
        sizes, base = (1000, 3000), 1000
    elif settings.device.type == "cuda":
        sizes, base = (10**5, 10**6, 10**7, 10**8), 10**6
    count = 2 if settings.quick else None
    for edges in sizes:
        yield from _row(settings, "edges", edges=edges)
    for width in WIDTHS[:count]:
        yield from _row(settings, "width", edges=base, width=width)
    for gamma in GAMMAS[:count]:
        yield from _row(settings, "gamma", edges=base, gamma=gamma, largest=SLOWEST)
    for scales in SCALES[:count]:
        yield from _row(settings, "scales", edges=base, scales=scales)


def _row(
    settings: Settings,
    varied: str,
    *,
    edges: int,
    width: int = 64,
    gamma: float = 0.8,
    scales: tuple[int, ...] = (1, 2),
    largest: float = LARGEST,
) -> Iterator[Row]:
    nodes = max(edges // DEGREE, 2)
    propagation = Propagation.from_edge_index(
        uniform_graph(nodes, edges, settings.device), nodes, normalization="sym"
    )
    equation = Equation.random(propagation, width, largest, scales, gamma)
    size = {"edges": edges, "width": width, "gamma": gamma, "scales": len(scales)}
    names = {"edges": f"{edges:,}", "width": str(width), "gamma": f"{gamma:g}"}
    case = f"{varied} = {names.get(varied, '{' + ', '.join(map(str, scales)) + '}')}"
    if edges > MOST_FOR_RIVALS:
        entrants = [equation.recorded(TARGET)]
    else:
        textbook, target = equation.textbook()
        entrants = [textbook, equation.recorded(target)]
    yield from settle(case, entrants, settings, size)
