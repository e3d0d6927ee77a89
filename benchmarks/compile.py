"""Compares training steps of a compiled MGNNI with those in eager mode on the CPU.

Random undirected graphs of the sizes of Texas, Chameleon and PubMed, with the default model. After
three steps of each, which compile, steps of both alternate. The table has the seconds of the first
compiled step, and the median time of a step (forward, backward and Adam).

    python benchmarks/compile.py --output benchmarks/results/compile-cpu.json
    python benchmarks/compile.py --sizes texas --steps 20 --backend aot_eager
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from mgnni import MGNNI, Propagation

# Nodes, undirected edges, features, classes.
SIZES = {
    "texas": (183, 280, 1703, 5),
    "chameleon": (2277, 31371, 2325, 5),
    "pubmed": (19717, 44324, 500, 3),
}
CHANNELS = 64
WARM_UP = 3


class Trainer:
    """A model with its optimizer on one graph."""

    def __init__(self, size: str, backend: str | None) -> None:
        nodes, edges, features, classes = SIZES[size]
        torch.manual_seed(0)
        half = torch.randint(nodes, (2, edges))
        self.graph = Propagation.from_edge_index(torch.cat([half, half.flip(0)], 1), nodes)
        self.x, self.y = torch.randn(nodes, features), torch.randint(classes, (nodes,))
        model = MGNNI(features, CHANNELS, classes)
        self.optimizer = torch.optim.Adam(model.parameters(), 0.01)
        self.model: nn.Module = model
        if backend is not None:
            self.model = torch.compile(model, fullgraph=True, backend=backend)  # type: ignore[assignment]

    def step(self) -> float:
        """Take one step, and return its time."""
        start = time.perf_counter()
        self.optimizer.zero_grad()
        logits: Tensor = self.model(self.x, self.graph)
        nn.functional.cross_entropy(logits, self.y).backward()
        self.optimizer.step()
        return time.perf_counter() - start


def main() -> None:
    """Train, measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--output", type=Path, help="JSON file for the result")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), {arguments.backend}")
    print(f"{'graph':10}{'first step':>12}{'eager':>12}{'compiled':>12}{'ratio':>8}")
    rows = []
    for size in arguments.sizes:
        torch.compiler.reset()
        eager, compiled = Trainer(size, None), Trainer(size, arguments.backend)
        start = time.perf_counter()
        compiled.step()
        first = time.perf_counter() - start
        for _ in range(WARM_UP):
            eager.step(), compiled.step()
        pairs = [(eager.step(), compiled.step()) for _ in range(arguments.steps)]
        one, other = (1e3 * statistics.median(times) for times in zip(*pairs, strict=True))
        print(f"{size:10}{first:10.1f} s{one:9.2f} ms{other:9.2f} ms{other / one:8.2f}")
        rows.append({"size": size, "first": first, "eager": one / 1e3, "compiled": other / 1e3})
    if arguments.output is not None:
        result = {
            "command": "benchmarks/compile.py",
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "backend": arguments.backend,
            "channels": CHANNELS,
            "steps": arguments.steps,
            "rows": rows,
        }
        arguments.output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
