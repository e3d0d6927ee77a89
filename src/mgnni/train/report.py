"""The report of a training: one plain dictionary, shown on screen and stored in a file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import torch
import torch_geometric

from mgnni.data.rules import scores_of
from mgnni.data.split import PARTS
from mgnni.data.task import Task
from mgnni.train.training import Training
from mgnni.version import __version__

FORMAT = 1


def make_header(training: Training) -> dict[str, Any]:
    """Return everything that decides the outcome of a training, for ``config.json``."""
    experiment = training.experiment
    return {
        "format": FORMAT,
        "data": {"origin": experiment.source.origin, **describe(experiment.task)},
        "config": experiment.config.to_dict(),
        "runs": [vars(run) for run in experiment.runs],
        "rule": experiment.rule,
        "metric": experiment.task.metric,
        "together": experiment.together,
        "device": training.fabric.device.type,
        "deterministic": experiment.deterministic,
        "versions": versions(),
    }


def make_report(training: Training, seconds: float) -> dict[str, Any]:
    """Return the report of a finished training; only ``seconds`` depends on the clock.

    Args:
        training (Training): The training.
        seconds (float): Its duration.
    """
    experiment, task, rule = training.experiment, training.task, training.rule
    results = training.results()
    histories = [one.history(task.metric) for one in results]
    score = rule.score(histories)
    runs = []
    for one, value, epoch in zip(results, score.values, score.epochs, strict=True):
        run: dict[str, Any] = {
            "split": one.run.split,
            "seed": one.run.seed,
            "rows": {part: task.rows(one.run.split, part).numel() for part in PARTS},
            "epochs": one.epochs,
            "best_epoch": one.selected_epoch,
            "val": one.val,
            "test": one.test,
            "reported": {"epoch": epoch, task.metric: value},
        }
        if one.test_curve is not None:
            run["test_curve"] = one.test_curve
        runs.append(run)
    return {
        "format": FORMAT,
        "command": "train",
        "model": experiment.config.architecture,
        "dataset": task.name,
        "metric": task.metric,
        "protocol": {
            "rule": rule.name,
            "description": rule.description,
            "honest": rule.honest,
            "mark": rule.mark,
        },
        "score": {"mean": score.mean, "std": score.std, "n": score.n},
        "scores": {
            name: {"mean": one.mean, "std": one.std, "n": one.n, "mark": one.mark}
            for name, one in scores_of(histories).items()
        },
        "runs": runs,
        "config": experiment.config.to_dict(),
        "parameters": sum(one.numel() for one in experiment.model.parameters()),
        "together": experiment.together,
        "data": describe(task),
        "solver": training.certificates.to_dict(),
        "device": device_name(training.fabric.device),
        "versions": versions(),
        "commit": commit(),
        "seconds": seconds,
    }


def describe(task: Task) -> dict[str, Any]:
    """Return the sizes of the data, and a fingerprint of all numbers in them."""
    return {
        "level": task.level,
        "graphs": len(task.graphs),
        "nodes": sum(int(graph.num_nodes) for graph in task.graphs),
        "edges": sum(graph.edge_index.size(1) for graph in task.graphs),
        "features": task.num_features,
        "classes": len(task.classes),
        "splits": len(task.splits),
        "fingerprint": fingerprint(task),
        "notes": list(task.notes),
    }


def fingerprint(task: Task) -> str:
    """Return a hash of graphs, classes, splits, and the training and validation labels."""
    digest = hashlib.sha256(json.dumps([task.name, task.level, list(task.classes)]).encode())
    tensors = [
        tensor
        for graph in task.graphs
        for tensor in (graph.x, graph.edge_index, graph.edge_weight)
        if tensor is not None
    ]
    for index in range(len(task.splits)):
        tensors += [task.rows(index, part) for part in PARTS]
        tensors += [task.targets(index, part) for part in ("train", "val")]
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        # Flattened, since an empty tensor of any other shape cannot be viewed as bytes.
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def to_json(data: Mapping[str, Any]) -> str:
    """Return data as JSON text; numbers that are not finite are an error."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")


def versions() -> dict[str, str]:
    """Return the versions of all packages that results depend on."""
    return {
        "mgnni": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": torch_geometric.__version__,
        "numpy": numpy.__version__,
    }


def commit() -> str | None:
    """Return the commit of the source, with ``+`` if it has changes; ``None`` if installed."""
    folder = Path(__file__).parent
    try:
        # First whether this file is tracked: an environment may lie inside another repository.
        _, found, state = (
            subprocess.run(
                ["git", "-C", str(folder), *command],
                capture_output=True,
                text=True,
                timeout=5,
                check=True,
            ).stdout.strip()
            for command in (
                ["ls-files", "--error-unmatch", "--", __file__],
                ["rev-parse", "HEAD"],
                ["status", "--porcelain", "--", str(folder)],
            )
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found + ("+" if state else "")


def device_name(device: torch.device) -> str:
    """Return the name of a device in a report."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type != "cpu":
        return device.type
    threads = torch.get_num_threads()
    return f"cpu ({threads} thread{'s' if threads > 1 else ''})"
