"""How long, how exact, how much memory."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from mgnni.bench.row import Errors
from mgnni.implicit.linear import deferred
from mgnni.train.captured import no_collection

LEAST = 3  # measurements of everything, however slow
AWAKE = 0.02  # seconds of work that bring a device to its clock
TURN = 0.05  # seconds of one turn on an accelerator, in which quick work is done many times
MOST = 50  # times
PATIENCE = 10.0  # seconds for one method, after which LEAST are enough


def wait(device: torch.device) -> None:
    """Wait until the device has done what it was told."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(run: Callable[[], object], device: torch.device, times: int = 1) -> float:
    """Time of one run, of several in a row."""
    wait(device)
    start = time.perf_counter()
    for _ in range(times):
        run()
    wait(device)
    return (time.perf_counter() - start) / times


def awaken(device: torch.device) -> None:
    """Bring a device to its working clock: one that had little to do runs at a third of it."""
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
    """Return the median time of each, taking turns, so that a busy machine slows all alike.

    On an accelerator a turn is long enough for its clock and its caches to be as they are in the
    middle of a training, and not after a rest.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    rows = dict.fromkeys(runs, 1)
    slow: set[str] = set()  # once is enough to warm these up
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
    """Record what looks at no number as a CUDA graph, and return what replays it."""
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
    """Most bytes in use at once above those in use before; counted on CUDA only."""
    if device.type != "cuda":
        return None
    wait(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run()
    wait(device)
    return int(torch.cuda.max_memory_allocated(device)) - before


def distance(got: Tensor, want: Tensor, floor: float = 0.0) -> float:
    """Relative error in the Frobenius norm; that of a tensor below ``floor`` is relative to it."""
    got, want = got.detach(), want.detach().double()
    size = max(float(want.norm()), floor)
    apart = float((got.double() - want).norm())
    return apart / size if size else math.inf if apart else 0.0


def errors(got: Sequence[Tensor], want: Sequence[Tensor]) -> Errors:
    """Errors of values, which come first, and of gradients: that of the worst of them.

    A gradient that is a hundredth of all has the rounding of what it cancelled from, and is
    measured against that hundredth.
    """
    floor = 1e-2 * math.hypot(*(float(one.double().norm()) for one in want[1:]))
    pairs = zip(got[1:], want[1:], strict=True)
    worst = max((distance(a, b, floor) for a, b in pairs), default=0.0)
    return Errors(distance(got[0], want[0]), worst)
