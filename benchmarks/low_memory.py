"""One full-batch training step of MGNNI on a large random graph, with little memory.

    python benchmarks/low_memory.py --nodes 50000000 --edges 500000000 --device cuda

needs torch, PyG, numpy and scipy, and the library on the path (``PYTHONPATH=src``). The graph is
made on the device, in blocks; the features stay on the host. Times are those of the second step,
because the first one also compiles kernels and allocates memory. Stores time, memory and certified
error as JSON, in ``benchmarks/results/low-memory-DEVICE.json``.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from mgnni import MGNNI, Propagation
from mgnni.bench.problems import trained_factor
from mgnni.graph.synthetic import random_propagation
from mgnni.plan.calibrate import transfer_rate
from mgnni.solve.result import SolveStats
from mgnni.train.report import commit, device_name, versions

RESULTS = Path(__file__).parent / "results"
CLASSES = 8
ROWS = 2**20  # rows of features that are drawn at a time


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=50_000_000)
    parser.add_argument("--edges", type=int, default=500_000_000, help="in both directions")
    parser.add_argument("--channels", type=int, default=32, help="of features and states")
    parser.add_argument("--scales", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--gamma", type=float, default=0.8)
    parser.add_argument("--tol", type=float, default=1e-5)
    parser.add_argument("--memory", nargs="+", default=["low"], choices=["fast", "low", "half"])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pin-memory", action="store_true", help="of the features on the host")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=None, help="file of the results")
    return parser.parse_args()


def clock(device: torch.device) -> float:
    """Return the time after all work on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def host_memory() -> int:
    """Return the peak memory of the process on the host, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def features(nodes: int, channels: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return features and labels on the host; labels follow from the features."""
    x = torch.empty(nodes, channels)
    labels = torch.empty(nodes, dtype=torch.long)
    for number, start in enumerate(range(0, nodes, ROWS)):
        rows = slice(start, min(start + ROWS, nodes))
        generator = torch.Generator().manual_seed((seed << 32) + number)
        x[rows].normal_(generator=generator)
        labels[rows] = x[rows, :CLASSES].argmax(1)
    return x, labels


def summary(stats: tuple[SolveStats, ...]) -> list[dict[str, Any]]:
    """Return what was measured for every scale."""
    return [
        {
            "scale": one.scale,
            "solver": one.solver,
            "iterations": one.iterations,
            "relative_residual": one.relative_residual,
            "relative_error_bound": one.relative_error_bound,
            "converged": one.converged,
        }
        for one in stats
    ]


def step(
    options: argparse.Namespace, memory: str, x: torch.Tensor, y: torch.Tensor, graph: Propagation
) -> dict[str, Any]:
    """Train one step and return its row of the table."""
    device = graph.device
    torch.manual_seed(options.seed)
    scales = tuple(options.scales)
    model = MGNNI(
        options.channels,
        options.channels,
        CLASSES,
        scales,
        options.gamma,
        dropout=0.1,
        tol=options.tol,
        memory=memory,
    ).to(device)
    # Weights as after training, because at initialisation every solve is fast.
    generator = torch.Generator().manual_seed(options.seed)
    with torch.no_grad():
        factor = trained_factor(len(scales), options.channels, 0.93, generator)
        model.equilibrium.factor.copy_(factor)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs = x if memory != "fast" else x.to(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    begin = clock(device)
    loss = cross_entropy(model(inputs, graph), y)
    middle = clock(device)
    loss.backward()
    optimizer.step()
    end = clock(device)
    on_device = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    log = model.solve_log
    return {
        "memory_mode": memory,
        "seconds": end - begin,
        "forward_seconds": middle - begin,
        "backward_seconds": end - middle,
        "memory": on_device,
        "host_memory": host_memory(),
        "loss": float(loss.detach()),
        "gradient_norm": float(model.equilibrium.factor.grad.norm()),
        "forward": summary(log.forward),
        "backward": summary(log.backward),
    }


def main() -> None:
    """Measure and store."""
    options = arguments()
    device = torch.device(options.device)
    begin = clock(device)
    graph = random_propagation(options.nodes, options.edges, options.seed, device)
    made = clock(device)
    print(f"{graph} in {made - begin:.1f} s", flush=True)
    x, y = features(options.nodes, options.channels, options.seed)
    x, y = x.pin_memory() if options.pin_memory else x, y.to(device)
    drawn = clock(device)
    print(f"features in {drawn - made:.1f} s", flush=True)
    rows = []
    for memory in options.memory:
        try:
            step(options, memory, x, y, graph)
            gc.collect()
            row = step(options, memory, x, y, graph)
        except torch.OutOfMemoryError as error:
            text = str(error).partition("\n")[0]
            row = {"memory_mode": memory, "seconds": None, "memory": None, "note": text}
        if device.type == "cuda":
            torch.cuda.empty_cache()
        rows.append(row)
        print(json.dumps(row), flush=True)
    stored = {
        "format": 1,
        "command": "benchmarks/low_memory.py",
        "table": "low-memory",
        "title": "One full-batch training step with little memory",
        "device": device_name(device),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "size": {
            "nodes": options.nodes,
            "edges": options.edges,
            "nnz": graph.pattern.nnz,
            "features": options.channels,
            "channels": options.channels,
            "scales": options.scales,
            "gamma": options.gamma,
            "tol": options.tol,
            "classes": CLASSES,
        },
        "warm_up": True,
        "pin_memory": options.pin_memory,
        "host_rate": transfer_rate(device) if device.type == "cuda" else None,
        "graph_seconds": made - begin,
        "features_seconds": drawn - made,
        "rows": rows,
    }
    path = options.output or RESULTS / f"low-memory-{device.type}.json"
    path.write_text(json.dumps(stored, indent=2) + "\n", "utf-8")
    print(f"saved {path}")


if __name__ == "__main__":
    main()
