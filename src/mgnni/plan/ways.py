"""Ways to train on a large graph, with the time and memory that the cost model predicts."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from mgnni.disk.precompute import BUDGET
from mgnni.disk.stored_graph import ENTRIES
from mgnni.errors import check_int
from mgnni.plan.cost import (
    MACHINES,
    Estimate,
    Machine,
    Problem,
    product_rate,
    solve_bytes,
    step_bytes,
    step_seconds,
)
from mgnni.solve.columns import COLUMNS
from mgnni.train.row_training import RowOptions

USABLE = 0.9  # fraction of the memory of a device
PASSES = 3  # over the terms: training, validation and test nodes lie in the same pages
WRITE = 2.0  # time of a write over that of a read
COPIES = 12  # passes over a term besides its product, in reads and writes of float32
BASE = 3.5e8  # bytes of a Python process with torch
PER_NODE = 24  # bytes of index, label and part of a node
MOST = 4096  # largest number of devices considered


def ways(
    problem: Problem, machine: Machine, devices: int = 1, host: Machine | None = None
) -> list[Estimate]:
    """Return what every way to train takes, per device.

    Args:
        problem (Problem): The graph and the model.
        machine (Machine): One device.
        devices (int, optional): Number of devices. (default: :obj:`1`)
        host (Machine, optional): Where terms are precomputed; two CPU cores if :obj:`None`.
            (default: :obj:`None`)
    """
    check_int("devices", devices)
    found = [one_device(problem, machine, memory) for memory in ("fast", "low")]
    if devices > 1:
        found += [by_columns(problem, machine, devices), by_rows(problem, machine, devices)]
    return [*found, *precomputed(problem, host or MACHINES["cpu"])]


def one_device(problem: Problem, machine: Machine, memory: str) -> Estimate:
    """Full-batch training on one device."""
    size = step_bytes(problem, memory)
    seconds = step_seconds(problem, machine, memory)
    return Estimate(f"one device, memory={memory}", seconds, size, _fits(size, machine))


def by_columns(problem: Problem, machine: Machine, devices: int) -> Estimate:
    """Every device has the whole graph and some columns; only states change places."""
    stack = len(problem.scales) * problem.state_bytes
    size = problem.graph_bytes + (solve_bytes(problem, "low") + 2 * stack) / devices
    # Bias and states of both passes go from rows to columns, and back.
    traffic = 4 * stack / devices * (devices - 1) / devices
    panels = math.ceil(len(problem.scales) * problem.channels / COLUMNS)  # that are not divided
    seconds = step_seconds(problem, machine, "low") / min(devices, panels) + traffic / machine.link
    return Estimate(f"columns over {devices} devices", seconds, size, _fits(size, machine), traffic)


def by_rows(problem: Problem, machine: Machine, devices: int) -> Estimate:
    """Every device has some rows; every product needs the columns of the other devices.

    This is the worst case, of a graph that cannot be partitioned well: all rows are needed.
    """
    size = step_bytes(problem, "low") / devices + 4.0 * problem.nodes * 8
    columns = problem.column_products + problem.certificate_products
    traffic = 4.0 * problem.nodes * columns * (devices - 1) / devices
    seconds = step_seconds(problem, machine, "low") / devices + traffic / machine.link
    return Estimate(f"rows over {devices} devices", seconds, size, _fits(size, machine), traffic)


def term_seconds(problem: Problem, machine: Machine) -> float:
    """Return the time of one term of a precomputed sweep."""
    width = problem.features + 2  # a constant, and the norms for the certificate
    product = problem.entries * width / product_rate(problem, machine, width)
    numbers = problem.nodes * width
    # Two terms are read and one is written.
    return product + 4.0 * numbers * (COPIES / 1e10 + (2 + WRITE) / machine.disk)


def epoch_seconds(problem: Problem, machine: Machine, storage: int = 4) -> float:
    """Return the time of an epoch on stored terms, with validation and test."""
    numbers = problem.nodes * (problem.features + 1.0) * problem.stored_terms
    operations = 4.0 * numbers * len(problem.scales) * problem.channels
    return numbers * (PASSES * storage / machine.disk + 2e-9) + operations / machine.flops


def precomputed(problem: Problem, machine: Machine, storage: int = 4) -> list[Estimate]:
    """Terms in files, with this many bytes per number, and mini-batches of nodes, on a CPU."""
    width = problem.features + 2
    disk = float(problem.stored_terms) * problem.nodes * (problem.features + 1) * storage
    disk += problem.graph_bytes + 4.0 * problem.nodes * problem.features
    columns = min(width, max(1, int(BUDGET * 2**30) // (4 * problem.nodes)) + 1)
    rows = min(1.0, ENTRIES / problem.entries) * problem.nodes
    copies = 3.0 if storage == 4 else 5.5  # of a block of a term; more to round it to float16
    block = 12 * rows * problem.entries / problem.nodes + copies * 4 * width * rows
    memory = BASE + 4.0 * problem.nodes * columns + block
    seconds = problem.computed_terms * term_seconds(problem, machine)
    epoch = epoch_seconds(problem, machine, storage)
    batch = min(RowOptions.batch_size, problem.nodes) * 4.0 * problem.stored_terms * width
    training = BASE + PER_NODE * problem.nodes + 3 * batch
    fits = _fits(memory, machine)
    return [
        Estimate("precomputed terms", seconds, memory, fits, disk=disk),
        Estimate("an epoch on them", epoch, training, _fits(training, machine), disk=disk),
    ]


def smallest(problem: Problem, machine: Machine) -> tuple[str, int]:
    """Return the fewest devices that a full-batch step fits on, and how it is split."""
    for memory in ("fast", "low"):
        if one_device(problem, machine, memory).fits:
            return f"one device, memory={memory}", 1
    found = []
    numbers = range(2, MOST + 1)
    for split, way in (("columns", by_columns), ("rows", by_rows)):
        # More devices need less memory each.
        place = bisect_left(numbers, True, key=partial(_fits_on, way, problem, machine))
        if place < len(numbers):
            found.append((numbers[place], split))
    if not found:
        return "none", MOST
    devices, split = min(found, key=lambda one: one[0])
    return split, devices


def _fits_on(
    way: Callable[[Problem, Machine, int], Estimate], problem: Problem, machine: Machine, count: int
) -> bool:
    return way(problem, machine, count).fits


def larger(machine: Machine, link: float | None, memory: float | None) -> Machine:
    """Return a machine with another link speed or memory, in bytes, where given."""
    return replace(
        machine,
        link=machine.link if link is None else link,
        memory=machine.memory if memory is None else memory,
    )


def _fits(size: float, machine: Machine) -> bool:
    return size <= USABLE * machine.memory
