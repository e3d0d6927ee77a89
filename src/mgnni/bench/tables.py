"""The tables by name, and those about solves: ``solve``, ``scaling`` and ``large``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch_geometric.utils import to_undirected

from mgnni.bench import epoch
from mgnni.bench.compete import Entrant, settle
from mgnni.bench.equation import TARGET, Equation
from mgnni.bench.problems import QUICK, SHAPES, uniform_graph, web_graph
from mgnni.bench.results import Errors, Row, Settings
from mgnni.graph.propagation import Propagation
from mgnni.solve.prepare import METHODS

LARGEST, SLOWEST = 0.93, 0.99  # eigenvalue of g(F); the second where only gamma is varied
# Table "solve": largest eigenvalue of g(F), by name.
WEIGHTS = {"initial": None, "0.93": LARGEST, "0.99": SLOWEST}
# Scales and weights. Three scales show what solving them together saves.
CASES = [((1, 2, 3), "initial"), ((1, 2, 3), "0.93"), *(((1, 2), kind) for kind in WEIGHTS)]
# Table "scaling".
DEGREE = 20
MAX_TEXTBOOK_EDGES = 10**6  # with more, the textbook loop takes minutes
WIDTHS = (16, 32, 64, 128, 256)
GAMMAS = (0.5, 0.8, 0.9, 0.95, 0.99)
SCALES = ((1,), (1, 2), (1, 2, 3), (1, 2, 3, 4))
# Table "large".
LARGE_TARGET = Errors(1e-5, 1e-5)


def solve_rows(settings: Settings) -> Iterator[Row]:
    """Time every solver at errors of 1e-6 in the states and 1e-5 in the gradients."""
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
                yield from settle(case, _solvers(equation, settings), settings, size)


def _solvers(equation: Equation, settings: Settings) -> Iterator[Entrant]:
    textbook, target = equation.textbook()
    yield textbook
    yield from equation.torchdeq(settings)
    yield equation.by_us(target)
    if settings.device.type == "cuda" and not settings.quick:
        return  # slow, and which solver is best does not depend on the device
    for name, solver in METHODS.items():
        if name == "dense":  # for tiny graphs only
            continue
        if equation.propagation.symmetric or not solver.needs_symmetric_operator:
            yield equation.by_us(target, name)


def scaling_rows(settings: Settings) -> Iterator[Row]:
    """Vary one quantity at a time, on random undirected graphs of degree 20."""
    sizes: tuple[int, ...]
    sizes, base = (10_000, 30_000, 100_000, 300_000, 1_000_000), 100_000
    if settings.quick:
        sizes, base = (1000, 3000), 1000
    elif settings.device.type == "cuda":
        sizes, base = (10**5, 10**6, 10**7, 10**8), 10**6
    count = 2 if settings.quick else None
    for edges in sizes:
        yield from _scaling_case(settings, "edges", edges=edges)
    for width in WIDTHS[:count]:
        yield from _scaling_case(settings, "width", edges=base, width=width)
    for gamma in GAMMAS[:count]:
        yield from _scaling_case(settings, "gamma", edges=base, gamma=gamma, largest=SLOWEST)
    for scales in SCALES[:count]:
        yield from _scaling_case(settings, "scales", edges=base, scales=scales)


def _scaling_case(
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
    if edges > MAX_TEXTBOOK_EDGES:
        entrants = [equation.recorded(TARGET)]
    else:
        textbook, target = equation.textbook()
        entrants = [textbook, equation.recorded(target)]
    yield from settle(case, entrants, settings, size)


def large_rows(settings: Settings) -> Iterator[Row]:
    """Time a graph with 124 million edges at errors of 1e-5, width 64, scales 1 and 2."""
    nodes, edges, width = (500, 5000, 8) if settings.quick else (2_400_000, 124_000_000, 64)
    propagation = Propagation.from_edge_index(
        uniform_graph(nodes, edges, settings.device), nodes, normalization="sym"
    )
    equation = Equation.random(propagation, width, LARGEST)
    entrants = [  # without the textbook loop, which takes minutes
        equation.by_us(LARGE_TARGET, name="mgnni, fast"),
        equation.by_us(LARGE_TARGET, memory="low", name="mgnni, low memory"),
    ]
    case = f"{nodes:,} nodes, {edges:,} edges, h = {width}"
    yield from settle(case, entrants, settings, {"nodes": nodes, "edges": edges, "width": width})


@dataclass(frozen=True)
class Table:
    """A benchmark table.

    Args:
        title (str): Its title.
        rows (Callable): Measures and yields its rows.
        cuda_only (bool, optional): Whether it is too large for a CPU, unless quick.
            (default: :obj:`False`)
    """

    title: str
    rows: Callable[[Settings], Iterator[Row]]
    cuda_only: bool = False


TABLES: dict[str, Table] = {
    "epoch": Table("One epoch of training and validation", epoch.epoch_rows),
    "ppi": Table("Graphs shaped as PPI's: an epoch, and the solves of one step", epoch.ppi_rows),
    "small": Table("A training step on 128 graphs of 18 nodes", epoch.small_rows),
    "solve": Table("Solving forward and backward, to 1e-6 and gradients to 1e-5", solve_rows),
    "scaling": Table("Cost against edges, width, contraction and scales", scaling_rows),
    "large": Table("A large graph, forward and backward, to 1e-5", large_rows, cuda_only=True),
}
