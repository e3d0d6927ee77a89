"""``mgnni plan``: what training on a large graph takes."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from mgnni.cli.arguments import Command, UsageError
from mgnni.files import to_json

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, kw_only=True)
class Plan(Command):
    """Estimate time and memory on a large graph.

    The estimates follow from a cost model, which predicts the stored benchmarks within a factor of
    two in time and 1.3 in memory (docs/scale.md). Nothing is trained.

    Example: mgnni plan --nodes 111000000 --edges 1616000000 --devices 8
    Example: mgnni plan --nodes 10000000 --edges 100000000 --machine this
    """

    nodes: int = field(default=0, metadata={"unset": "required"})
    """Number of nodes."""
    edges: int = field(default=0, metadata={"unset": "required"})
    """Number of edges, counted in both directions if the graph is undirected."""
    channels: int = 64
    """Channels of the states."""
    features: int = 128
    """Features of a node."""
    scales: tuple[int, ...] = (1, 2)
    """Scales of the model."""
    gamma: float = 0.8
    """Contraction factor."""
    tol: float = 1e-4
    """Tolerance of the solves and of stored terms."""
    directed: bool = False
    """Whether the graph is directed."""
    devices: int = 1
    """Number of devices."""
    machine: str = field(default="h200", metadata={"choices": ("h200", "cpu", "this")})
    """A device; this measures the machine in a few seconds."""
    memory: float | None = field(default=None, metadata={"unset": "that of the machine"})
    """GB of a device."""
    link: float | None = field(default=None, metadata={"unset": "that of the machine"})
    """GB/s between two devices."""

    def run(self) -> None:
        """Estimate and print."""
        for name in ("nodes", "edges"):
            if getattr(self, name) < 1:
                got = getattr(self, name)
                raise UsageError(f"--{name} must be positive (got {got}), for example 1000000")
        for name in ("memory", "link"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"--{name} must be positive (got {value})")
        # Imported late because they are slow to import.
        from mgnni.implicit.check import check_gamma, check_options, check_scales
        from mgnni.plan.calibrate import find_machine
        from mgnni.plan.cost import Problem
        from mgnni.plan.ways import larger, smallest, ways

        check_options(self.tol, None)
        problem = Problem(
            self.nodes,
            self.edges,
            self.channels,
            self.features,
            check_scales(self.scales),
            check_gamma(self.gamma),
            self.tol,
            directed=self.directed,
        )
        given = (None if one is None else 1e9 * one for one in (self.link, self.memory))
        machine = larger(find_machine(self.machine), *given)
        # Terms are computed on a CPU: this one, if it was measured.
        found = ways(problem, machine, self.devices, machine if "CPU" in machine.name else None)
        split, fewest = smallest(problem, machine)
        if self.json:
            report: dict[str, Any] = {
                "command": "plan",
                "problem": asdict(problem),
                "machine": asdict(machine),
                "graph_bytes": problem.graph_bytes,
                "ways": [asdict(one) for one in found],
                "fewest": {"split": split, "devices": fewest},
            }
            sys.stdout.write(to_json(report))
            return
        write = sys.stdout.write
        write(
            f"{problem.nodes:,} nodes, {problem.edges:,} edges, {problem.channels} channels, "
            f"scales {', '.join(map(str, problem.scales))}; the operator takes "
            f"{size(problem.graph_bytes)}\non {machine.name}, {size(machine.memory)} each\n\n"
        )
        write(f"{'':28}{'time':>10}{'memory':>10}{'sent':>10}{'disk':>10}\n")
        for one in found:
            cells = [time_of(one.seconds), size(one.memory), size(one.traffic), size(one.disk)]
            note = "" if one.fits else "  does not fit"
            write(f"{one.way:28}{''.join(f'{cell:>10}' for cell in cells)}{note}\n")
        where = split if fewest == 1 else f"{split} over {fewest} devices"
        write(
            "\nTimes are of one training step, of all terms, and of one epoch. Memory and what is "
            f"sent are per device.\nThe least that a full-batch step fits on: {where}.\n"
        )


def size(count: float) -> str:
    """Return a number of bytes in a readable unit; a dash for none."""
    if count == 0:
        return "–"
    place = 0
    while count >= 999.5 and place + 1 < len(UNITS):
        count, place = count / 1000, place + 1
    return f"{count:.3g} {UNITS[place]}"


def time_of(seconds: float) -> str:
    """Return a time in a readable unit."""
    for limit, unit in ((60, "s"), (3600, "min"), (float("inf"), "h")):
        if seconds < limit:
            part = seconds / {"s": 1, "min": 60, "h": 3600}[unit]
            return f"{part:.2g} {unit}" if part < 10 else f"{part:.0f} {unit}"
    return f"{seconds:.0f} s"
