"""The report of a training: one plain dictionary, shown on screen and stored in a file."""

from __future__ import annotations

import hashlib
import json
import math
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import torch
import torch_geometric

from mgnni.data.assessment.numbers import summarize_numbers
from mgnni.data.assessment.summary import summarize
from mgnni.data.rules import scores_of
from mgnni.data.split import PARTS
from mgnni.data.task import Task
from mgnni.train.runs import best_run
from mgnni.train.training import Training
from mgnni.version import __version__

FORMAT = 1
MAX_CLASSES = 100  # in a confusion matrix


def make_header(training: Training) -> dict[str, Any]:
    """Return everything that decides the outcome of a training, for ``config.json``."""
    experiment = training.experiment
    header = {
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
    return header if experiment.portfolio is None else header | {"portfolio": experiment.portfolio}


def make_report(training: Training, seconds: float, jobs: int = 1) -> dict[str, Any]:
    """Return the report of a finished training.

    Only ``seconds``, ``peak_memory`` and ``processes`` depend on the machine. ``confusion`` is
    summed over runs, each at its selected epoch and with its threshold, if it has one, as
    :meth:`Fitted.predict <mgnni.train.fitted.Fitted.predict>` decides; ``classification`` or
    ``regression`` describes the same epochs.

    Args:
        training (Training): The training.
        seconds (float): Its duration.
        jobs (int, optional): Number of processes that trained groups of runs. (default: :obj:`1`)
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
    report = {
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
        "data": {**describe(task), "split_fingerprints": split_fingerprints(task)},
        "solver": training.certificates.to_dict(),
        "device": device_name(training.fabric.device),
        "versions": versions(),
        "commit": commit(),
        "input": {"data": experiment.source.origin, **experiment.source.given},
        # With several processes, this one has trained nothing.
        "peak_memory": None if jobs > 1 else peak_memory(training.fabric.device),
        "processes": jobs if training.mesh is None else math.prod(training.mesh.shape.values()),
        "seconds": seconds,
    }
    if training.mesh is not None:
        report["mesh"] = training.mesh.shape
    if experiment.portfolio is not None:
        report["portfolio"] = experiment.portfolio
    assessed = [one.assessment for one in results if one.assessment is not None]
    best = best_run(task.metric, [one.val for one in results])
    if task.regression:
        tested = [task.rows(one.run.split, "test") for one in results]
        found = summarize_numbers(task.classes, task.metric, tested, assessed, best)
        return report | {"regression": found}
    if not task.multilabel and len(task.classes) <= MAX_CLASSES:
        total = torch.tensor([one["confusion"] for one in assessed]).sum(0)
        report["confusion"] = {"classes": list(task.classes), "counts": total.tolist()}
    report["classification"] = summarize(
        task,
        [one.run.split for one in results],
        assessed,
        [one.threshold for one in results],
        best,
    )
    return report


def describe(task: Task) -> dict[str, Any]:
    """Return the sizes of the data, and a fingerprint of all numbers in them."""
    return {
        "level": task.level,
        "graphs": len(task.graphs),
        "nodes": sum(int(graph.num_nodes) for graph in task.graphs),
        "edges": sum(graph.edge_index.size(1) for graph in task.graphs),
        "features": task.num_features,
        **({"targets": list(task.classes)} if task.regression else {}),
        "classes": 0 if task.regression else len(task.classes),
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
        digest.update(numpy.ascontiguousarray(tensor.detach().cpu().numpy()).data)
    return digest.hexdigest()[:16]


def split_fingerprints(task: Task) -> list[str]:
    """Return a hash of each split: rows of all sets, and training and validation labels.

    Two models can be compared on a split whose hash is the same, however features are read.
    """
    found = []
    for index in range(len(task.splits)):
        digest = hashlib.sha256()
        tensors = [task.rows(index, part) for part in PARTS]
        for tensor in (*tensors, *(task.targets(index, part) for part in ("train", "val"))):
            digest.update(f"{tuple(tensor.shape)}".encode())
            digest.update(numpy.ascontiguousarray(tensor.double().numpy()).data)
        found.append(digest.hexdigest()[:16])
    return found


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


def peak_memory(device: torch.device) -> int | None:
    """Return the most bytes in use at a time: on a CUDA device, otherwise by this process.

    Args:
        device (torch.device): The device of the training.
    """
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def device_name(device: torch.device) -> str:
    """Return the name of a device in a report."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type != "cpu":
        return device.type
    threads = torch.get_num_threads()
    return f"cpu ({threads} thread{'s' if threads > 1 else ''})"
