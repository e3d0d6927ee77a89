"""How much faster the runs of one graph train together than one by one, and whether alike.

python benchmarks/together.py chameleon --epochs 100 --store benchmarks/results/together-cpu.json
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from mgnni.data.registry import load_task
from mgnni.train.config import changed
from mgnni.train.device import make_fabric
from mgnni.train.fit import runs_of
from mgnni.train.one_graph import NodeLearner
from mgnni.train.presets import preset_for
from mgnni.train.streams import Run
from mgnni.train.versions import commit, device_name, versions

WARM_UP = 10  # epochs before the clock starts: kernels are chosen, memory is taken


def train(learner: NodeLearner, epochs: int) -> tuple[float, list[list[float]]]:
    """Return seconds an epoch (training and validation), and accuracies on validation."""
    start, seen = 0.0, []
    for epoch in range(1, epochs + 1):
        if epoch == WARM_UP + 1:
            _wait(learner)
            start = time.perf_counter()
        learner.train_epoch(epoch)
        seen.append([metric for _, metric in learner.validate()])
    _wait(learner)
    return (time.perf_counter() - start) / (epochs - WARM_UP), seen


def _wait(learner: NodeLearner) -> None:
    if learner.fabric.device.type == "cuda":
        torch.cuda.synchronize()


def accuracies(learner: NodeLearner) -> list[float]:
    """Test accuracy of each run as it is now."""
    scores = learner.scores("test")
    return [
        learner.task.evaluate(one, run.split, "test")["accuracy"]
        for run, one in zip(learner.runs, scores, strict=True)
    ]


def compare(name: str, epochs: int, device: str, options: dict[str, Any]) -> dict[str, Any]:
    """Train all splits together, then each alone, and compare."""
    task = load_task(name)
    config = changed(preset_for(name), options)
    fabric = make_fabric(device, config.precision)
    runs = runs_of(task, "all", 0)

    def learner(some: list[Run]) -> NodeLearner:
        return NodeLearner(task, config, some, fabric)

    together = learner(list(runs))
    seconds, seen = train(together, epochs)
    mine = accuracies(together)
    alone, theirs, apart = [], [], 0.0
    for place, run in enumerate(runs):
        single = learner([run])
        took, curve = train(single, epochs)
        alone.append(took)
        theirs += accuracies(single)
        gaps = [abs(a[place] - b[0]) for a, b in zip(seen, curve, strict=True)]
        apart = max(apart, *gaps)
    return {
        "dataset": name,
        "config": config.to_dict(),
        "runs": len(runs),
        "epochs": epochs,
        "seconds_per_epoch_together": seconds,
        "seconds_per_epoch_one_by_one": sum(alone),
        "speedup": sum(alone) / seconds,
        "test_accuracy_together": mine,
        "test_accuracy_one_by_one": theirs,
        "largest_gap_in_validation_accuracy": apart,
    }


def main() -> None:
    """Measure, print, store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="*", default=["chameleon"])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="32")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--store", type=Path)
    args = parser.parse_args()
    options = {"precision": args.precision, "tol": args.tol}
    rows = []
    for name in args.datasets:
        row = compare(name, args.epochs, args.device, options)
        rows.append(row)
        same = row["test_accuracy_together"] == row["test_accuracy_one_by_one"]
        print(
            f"{name}: {1e3 * row['seconds_per_epoch_together']:.1f} ms an epoch of {row['runs']} "
            f"runs together, {1e3 * row['seconds_per_epoch_one_by_one']:.1f} ms one by one, "
            f"{row['speedup']:.1f} x; test accuracies {'equal' if same else 'differ'}, largest "
            f"gap on validation {row['largest_gap_in_validation_accuracy']:.4f}"
        )
    if args.store:
        device = device_name(make_fabric(args.device, "32").device)
        stored = {"device": device, "commit": commit(), "versions": versions(), "rows": rows}
        args.store.write_text(json.dumps(stored, indent=2) + "\n")


if __name__ == "__main__":
    main()
