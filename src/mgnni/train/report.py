"""The report of a training: one plain dictionary that the screen and the file share."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import torch

from mgnni.data.task import Task
from mgnni.train.build import num_parameters
from mgnni.train.training import Training
from mgnni.train.versions import commit, device_name, versions

FORMAT = 1


def make_report(training: Training, seconds: float) -> dict[str, Any]:
    """Gather what was asked, measured and certified. Only ``seconds`` depends on the clock."""
    plan, rule = training.plan, training.rule
    order = {run: place for place, run in enumerate(plan.runs)}
    finished = sorted(training.finished, key=lambda one: order[one.run])
    score = rule.score([one.history(plan.task.metric) for one in finished])
    runs = []
    for one, value, epoch in zip(finished, score.values, score.epochs, strict=True):
        run: dict[str, Any] = {
            "split": one.run.split,
            "seed": one.run.seed,
            "epochs": one.epochs,
            "best_epoch": one.selected_epoch,
            "val": one.val,
            "test": one.test,
            "reported": {"epoch": epoch, plan.task.metric: value},
        }
        if one.test_curve is not None:
            run["test_curve"] = one.test_curve
        runs.append(run)
    task = plan.task
    return {
        "format": FORMAT,
        "command": "train",
        "model": plan.config.architecture,
        "dataset": plan.task.name,
        "metric": plan.task.metric,
        "protocol": {
            "rule": rule.name,
            "description": rule.description,
            "honest": rule.honest,
            "mark": rule.mark,
        },
        "score": {"mean": score.mean, "std": score.std, "n": score.n},
        "runs": runs,
        "config": plan.config.to_dict(),
        "parameters": num_parameters(plan.config, task.num_features, len(task.classes), task.level),
        "together": plan.together,
        "data": describe(plan.task),
        "solver": training.certificates.to_dict(),
        "device": device_name(training.fabric.device),
        "versions": versions(),
        "commit": commit(),
        "seconds": seconds,
    }


def describe(task: Task) -> dict[str, Any]:
    """What the data were, by counts and by a fingerprint of every number in them."""
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
    """Return a hash of the graphs, the classes, and the labels and rows of training and choice."""
    digest = hashlib.sha256(json.dumps([task.name, task.level, list(task.classes)]).encode())
    tensors = [
        tensor
        for graph in task.graphs
        for tensor in (graph.x, graph.edge_index, graph.edge_weight)
        if tensor is not None
    ]
    for index in range(len(task.splits)):
        tensors += [task.rows(index, part) for part in ("train", "val", "test")]
        tensors += [task.targets(index, part) for part in ("train", "val")]
    for tensor in tensors:
        digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        # Flat, as an empty tensor of any other shape has no bytes to look at.
        digest.update(tensor.detach().cpu().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def to_json(data: Mapping[str, Any]) -> str:
    """The report as text; a number that is not finite is an error, not a word in the file."""
    return json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON")
