"""Measures time and memory of reading a large graph from CSV files.

Writes nodes.csv (an id, 16 floats, a label, a split) and edges.csv to a temporary folder, and reads
them in a separate process, whose peak memory includes torch and pyarrow. Once with integer ids,
once with text.

    python benchmarks/csv_reading.py                       a million nodes, ten million edges
    python benchmarks/csv_reading.py --nodes 1000 --edges 5000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

FEATURES = 16
READ = """
import resource, sys, time
from pathlib import Path
from mgnni.data.tables.read import read_graphs
import mgnni.data.tables.folder
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
file = read_graphs(Path(sys.argv[1]))
seconds = time.perf_counter() - start
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(seconds, peak / 2**20, before / 2**20, file.graphs[0].num_nodes, file.graphs[0].num_edges)
"""


def make(folder: Path, nodes: int, edges: int, text: bool) -> None:
    """Write the two tables."""
    random = np.random.default_rng(0)
    ids = pa.array(np.arange(nodes))
    if text:
        ids = pc.binary_join_element_wise("node-", pc.cast(ids, pa.string()), "")
    columns = {f"f{i}": random.standard_normal(nodes) for i in range(FEATURES)}
    label = pa.array([f"class {c}" for c in range(10)]).take(random.integers(0, 10, nodes))
    split = pa.array(["train", "val", "test", ""]).take(random.integers(0, 4, nodes))
    csv.write_csv(
        pa.table({"id": ids, **columns, "label": label, "split": split}), folder / "nodes.csv"
    )
    ends = {end: ids.take(random.integers(0, nodes, edges)) for end in ("source", "target")}
    csv.write_csv(pa.table(ends), folder / "edges.csv")


def main() -> None:
    """Write, read and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    arguments = parser.parse_args()
    print("ids       nodes       edges   MB on disk   seconds   peak GiB   GiB before reading")
    for text in (False, True):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            make(folder, arguments.nodes, arguments.edges, text)
            size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            done = subprocess.run(
                [sys.executable, "-c", READ, name], capture_output=True, text=True, check=True
            )
        seconds, peak, before, nodes, edges = (float(value) for value in done.stdout.split())
        assert (nodes, edges) == (arguments.nodes, arguments.edges)
        print(
            f"{'text' if text else 'integer':8} {nodes:>11,.0f} {edges:>11,.0f} {size:>8,.0f} "
            f"{seconds:>11.1f} {peak:>9.2f} {before:>13.2f}"
        )


if __name__ == "__main__":
    main()
