"""Precompute and train on a graph in files, killed once and resumed: time and memory of each step.

    python benchmarks/larger_than_memory.py --folder /data/large

makes a graph of 10 million nodes and 100 million edges, starts ``mgnni precompute``, kills it after
some terms, repeats it, and trains one epoch by ``mgnni minibatch``, with the same tolerance. Every
step is a process of its own, whose wall-clock time and peak memory are measured. Stores them in
``benchmarks/results/larger-than-memory-cpu.json``. The folder needs about 35 GB and is not removed.
If this script was interrupted, it goes on after the last of graph, terms and epoch that is done.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mgnni.files import atomic_write
from mgnni.train.report import commit, versions

RESULTS = Path(__file__).parent / "results"
SETTINGS = ("nodes", "edges", "features", "gamma", "tol", "storage", "seed", "threads")
POLL = 0.05  # seconds between two looks at a process that is to be killed
GENERATE = """
import sys
from pathlib import Path
from mgnni.disk.generate import generate_graph
nodes, edges, features, seed = map(int, sys.argv[2:])
generate_graph(Path(sys.argv[1]), nodes, edges, features, seed=seed)
"""


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for graph, terms and model")
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--edges", type=int, default=100_000_000, help="in both directions")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--gamma", type=float, default=0.8)
    parser.add_argument("--tol", type=float, default=1e-3, help="of terms and training")
    parser.add_argument("--storage", default="float32", choices=["float32", "float16"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kill-after", type=int, default=10, help="terms")
    parser.add_argument("--output", type=Path, default=RESULTS / "larger-than-memory-cpu.json")
    return parser.parse_args()


def run(
    step: str, command: list[str], threads: int, stop: Callable[[], bool] | None = None
) -> tuple[dict[str, Any], Any]:
    """Run Python with arguments, and kill it as soon as ``stop()``; return what was measured.

    Args:
        step (str): Name of the step.
        command (list[str]): The arguments.
        threads (int): Number of threads.
        stop (Callable, optional): Whether to kill the process now. (default: :obj:`None`)

    Returns:
        The row of the table, and what the process printed, read as JSON.
    """
    env = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))}
    begin, ended, killed = time.monotonic(), 0, False
    process = subprocess.Popen(
        [sys.executable, *command], text=True, stdout=subprocess.PIPE, env=env
    )
    while stop is not None and not killed and not ended:
        time.sleep(POLL)
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if not ended and stop():
            os.kill(process.pid, signal.SIGKILL)
            killed = True
    out = process.stdout.read() if process.stdout else ""
    if not ended:
        ended, status, usage = os.wait4(process.pid, 0)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    if stop is not None and code == 0:
        raise SystemExit(f"{step}: ended before it was killed; use a smaller --kill-after")
    if code != (-signal.SIGKILL if killed else 0):
        raise SystemExit(f"{step}: ended with status {code}")
    row = {
        "step": step,
        "seconds": time.monotonic() - begin,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * 1024,
        "interrupted": killed,
    }
    print(json.dumps(row), flush=True)
    return row, json.loads(out) if out else None


class Done:
    """The groups of steps that are done, with what was measured, in a file of the folder.

    Args:
        folder (Path): The folder.
        settings (dict[str, Any]): What the measurements depend on.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.path = folder, folder / "measured.json"
        self.content: dict[str, Any] = {"settings": settings, "groups": {}}
        if self.path.exists():
            found = json.loads(self.path.read_text("utf-8"))
            if found["settings"] != settings:
                raise SystemExit(
                    f"{folder} holds a measurement with {found['settings']} (got {settings}); "
                    "choose another folder"
                )
            self.content = found
        elif folder.exists() and any(folder.iterdir()):
            raise SystemExit(f"{folder} must be empty; choose another folder")
        folder.mkdir(parents=True, exist_ok=True)
        self._save()

    def _save(self) -> None:
        with atomic_write(self.path) as file:
            file.write(json.dumps(self.content).encode())

    def group(self, name: str, measure: Callable[[Path], tuple[list[Any], Any]]) -> Any:
        """Return what was measured in a group of steps; measured now, from scratch, if not done."""
        if name not in self.content["groups"]:
            shutil.rmtree(self.folder / name, ignore_errors=True)
            rows, result = measure(self.folder / name)
            self.content["groups"][name] = {"rows": rows, "result": result}
            self._save()
        return self.content["groups"][name]


def main() -> None:
    """Measure and store."""
    options = arguments()
    load = os.getloadavg()[0]
    settings = {name: getattr(options, name) for name in SETTINGS}
    done, threads = Done(options.folder, settings), options.threads

    def graph(folder: Path) -> tuple[list[Any], Any]:
        sizes = (options.nodes, options.edges, options.features, options.seed)
        row, _ = run("graph", ["-c", GENERATE, str(folder), *map(str, sizes)], threads)
        return [row], {"load": load}

    def terms(folder: Path) -> tuple[list[Any], Any]:
        command = ["-m", "mgnni", "precompute", str(options.folder / "graph"), "--json"]
        command += ["--output", str(folder), "--storage", options.storage]
        command += ["--gamma", str(options.gamma), "--tol", str(options.tol)]

        def some_terms() -> bool:
            try:
                place = json.loads((folder / "progress.json").read_text("utf-8"))
            except (OSError, ValueError):
                return False
            return bool(place["progress"]["term"] >= options.kill_after)

        first, _ = run("first terms, killed", command, threads, some_terms)
        rest, result = run("remaining terms", command, threads)
        return [first, rest], result

    def epoch(folder: Path) -> tuple[list[Any], Any]:
        command = ["-m", "mgnni", "minibatch", str(options.folder / "terms"), "--json"]
        command += ["--output", str(folder), "--epochs", "1", "--device", "cpu"]
        row, result = run("one epoch", command, threads)
        return [row], result

    parts = [done.group(one.__name__, one) for one in (graph, terms, epoch)]
    rows = [row for part in parts for row in part["rows"]]
    made, described, trained = (part["result"] for part in parts)
    stored = {
        "format": 1,
        "command": "benchmarks/larger_than_memory.py",
        "table": "larger-than-memory",
        "title": "A graph in files: terms, and one epoch",
        "device": trained["device"],
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "size": {
            **settings,
            "nnz": described["entries"],
            "channels": options.features,
            "scales": described["scales"],
            "terms": described["terms"],
            "bytes": described["bytes"],
        },
        "load": made["load"],
        "rows": rows,
        "seconds": sum(row["seconds"] for row in rows),
        "memory": max(row["memory"] for row in rows),
        "accuracy": trained["accuracy"],
        "relative_error_bound": trained["relative_error_bound"],
    }
    options.output.write_text(json.dumps(stored, indent=2) + "\n", "utf-8")
    minutes, gib = stored["seconds"] / 60, stored["memory"] / 2**30
    print(f"{minutes:.1f} minutes, {gib:.2f} GiB at most; saved {options.output}")


if __name__ == "__main__":
    main()
