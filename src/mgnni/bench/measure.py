"""Measures time, error and memory."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from mgnni.bench.results import Errors
from mgnni.implicit.linear import deferred
from mgnni.train.captured import no_collection

LEAST = 3  # measurements of every method, however slow
AWAKE = 0.02  # seconds of work that bring a device to its full clock rate
TURN = 0.05  # seconds per turn on CUDA, in which fast runs are repeated
MOST = 50  # repetitions per turn
PATIENCE = 10.0  # seconds per method, after which LEAST measurements are enough


def wait(device: torch.device) -> None:
    """Synchronise with the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(run: Callable[[], object], device: torch.device, times: int = 1) -> float:
    """Return the time of one run, averaged over several in a row."""
    wait(device)
    start = time.perf_counter()
    for _ in range(times):
        run()
    wait(device)
    return (time.perf_counter() - start) / times


def awaken(device: torch.device) -> None:
    """Bring a GPU to its full clock rate; an idle one runs at a third of it."""
    if device.type != "cuda":
        return
    square = torch.ones(4096, 4096, device=device)
    start = time.perf_counter()
    while time.perf_counter() - start < AWAKE:
        torch.mm(square, square)
        wait(device)


def alternate(
    runs: Mapping[str, Callable[[], object]],
    device: torch.device,
    repeats: int,
    warmup: int = 2,
) -> dict[str, float]:
    """Return the median time of each run, alternating, so that a busy machine slows all alike.

    On CUDA a turn is long enough for clock rate and caches to be as in the middle of a training.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    rows = dict.fromkeys(runs, 1)
    slow: set[str] = set()  # these are warmed up only once
    for turn in range(warmup + repeats):
        for name, run in runs.items():
            spent = times[name]
            if (len(spent) >= LEAST and sum(spent) > PATIENCE) or (turn < warmup and name in slow):
                continue
            if turn >= warmup:
                awaken(device)
            took = seconds(run, device, rows[name])
            if turn >= warmup:
                spent.append(took)
                continue
            if took > PATIENCE / LEAST:
                slow.add(name)
            if device.type == "cuda":
                rows[name] = max(1, min(MOST, round(TURN / took)))
    return {name: statistics.median(spent) for name, spent in times.items()}


def replayed(run: Callable[[], object]) -> Callable[[], object]:
    """Record a run without host-device synchronisation as a CUDA graph, and return its replay."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    with deferred():
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            run()
            run()
        torch.cuda.current_stream().wait_stream(stream)
        with no_collection(), torch.cuda.graph(graph, stream=stream):
            kept = run()

    def replay() -> object:
        graph.replay()
        return kept

    return replay


def peak(run: Callable[[], object], device: torch.device) -> int | None:
    """Return the peak memory of a run in bytes, above that in use before; CUDA only."""
    if device.type != "cuda":
        return None
    wait(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    wait(device)
    return int(torch.cuda.max_memory_allocated(device)) - before


def distance(got: Tensor, want: Tensor, floor: float = 0.0) -> float:
    """Return the error in the Frobenius norm, relative to the larger of ``want`` and ``floor``.

    Args:
        got (Tensor): The computed values.
        want (Tensor): The exact values.
        floor (float, optional): Smallest norm to divide by. (default: :obj:`0.0`)

    Shapes:
        - **got, want:** any shape, the same for both
    """
    got, want = got.detach(), want.detach().double()
    size = max(float(want.norm()), floor)
    apart = float((got.double() - want).norm())
    return apart / size if size else math.inf if apart else 0.0


def errors(got: Sequence[Tensor], want: Sequence[Tensor]) -> Errors:
    """Return the error of the values, which come first, and of the worst gradient.

    A gradient smaller than a hundredth of all gradients suffers from cancellation; its error is
    relative to that hundredth.

    Args:
        got (Sequence[Tensor]): The computed values, followed by the gradients.
        want (Sequence[Tensor]): The exact ones, in the same order.

    Shapes:
        - **got, want:** any shapes, the same for each pair
    """
    floor = 1e-2 * math.hypot(*(float(one.double().norm()) for one in want[1:]))
    pairs = zip(got[1:], want[1:], strict=True)
    worst = max((distance(a, b, floor) for a, b in pairs), default=0.0)
    return Errors(distance(got[0], want[0]), worst)
