"""Precompute and train on a graph in files, interrupted once, with time and memory of each step.

    python benchmarks/larger_than_memory.py --folder /data/large --nodes 10000000 --edges 100000000

Every step is a process of its own, ``python -m mgnni``, whose peak memory the operating system
reports. The computation of the terms is killed after some terms and repeated. Stores the numbers in
``benchmarks/results/larger-than-memory-cpu.json``. The folder is not removed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mgnni.train.report import commit, versions

RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="for graph, terms and model")
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--edges", type=int, default=100_000_000, help="in both directions")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--gamma", type=float, default=0.8)
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--storage", default="float16")
    parser.add_argument("--train-tol", type=float, default=5e-3, help="of the certificate")
    parser.add_argument("--kill-after", type=int, default=4, help="terms")
    parser.add_argument("--output", type=Path, default=RESULTS / "larger-than-memory-cpu.json")
    return parser.parse_args()


def run(name: str, command: list[str], stop: Any = None) -> dict[str, Any]:
    """Run a command; kill it as soon as ``stop()`` is true. Return time and memory."""
    begin = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "mgnni", *command, "--json"], text=True, stdout=subprocess.PIPE
    )
    killed = False
    while stop is not None and process.poll() is None and not killed:
        time.sleep(0.2)
        if stop():
            process.send_signal(signal.SIGKILL)
            killed = True
    out = process.stdout.read() if process.stdout else ""
    _, status, usage = os.wait4(process.pid, 0) if process.returncode is None else (0, 0, None)
    code = os.waitstatus_to_exitcode(status)
    if code != (-signal.SIGKILL if killed else 0) or usage is None:
        raise SystemExit(f"{name} ended with status {code}")
    row = {
        "step": name,
        "seconds": time.monotonic() - begin,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss * 1024,
        "interrupted": killed,
        "result": None if killed else json.loads(out),
    }
    print(json.dumps({key: row[key] for key in row if key != "result"}), flush=True)
    return row


def main() -> None:
    """Measure and store."""
    options = arguments()
    terms, model = options.folder / "terms", options.folder / "model"
    command = ["precompute", "synthetic", "--output", str(terms), "--storage", options.storage]
    for name in ("nodes", "edges", "gamma", "tol"):
        command += [f"--{name}", str(getattr(options, name))]
    command += ["--num-features", str(options.features)]

    def some_terms() -> bool:
        try:
            place = json.loads((terms / "progress.json").read_text("utf-8"))
        except (OSError, ValueError):
            return False
        return bool(place["progress"]["term"] >= options.kill_after)

    rows = [
        run("graph and first terms, killed", command, some_terms),
        run("remaining terms", command),
        run(
            "one epoch",
            [
                *("minibatch", str(terms), "--output", str(model), "--epochs", "1"),
                *("--tol", str(options.train_tol)),
            ],
        ),
    ]
    described, trained = rows[1].pop("result"), rows[2].pop("result")
    rows[0].pop("result")
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
            "nodes": options.nodes,
            "edges": options.edges,
            "nnz": described["entries"],
            "features": options.features,
            "channels": options.features,
            "scales": described["scales"],
            "gamma": options.gamma,
            "tol": options.tol,
            "terms": described["terms"],
            "bytes": described["bytes"],
            "storage": options.storage,
        },
        "load": os.getloadavg()[2],
        "rows": rows,
        "accuracy": trained["accuracy"],
        "relative_error_bound": trained["relative_error_bound"],
    }
    options.output.write_text(json.dumps(stored, indent=2) + "\n", "utf-8")
    print(f"saved {options.output}")


if __name__ == "__main__":
    main()
