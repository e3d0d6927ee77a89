"""Training by mini-batches of nodes, on the stored terms of a graph: files and reports."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mgnni.disk.stored_graph import TEST, TRAIN
from mgnni.disk.sweep import Sweep
from mgnni.distributed.mesh import ProcessMesh
from mgnni.errors import ArgumentError
from mgnni.files import atomic_write, to_json
from mgnni.train.fitted import ROW_KIND
from mgnni.train.folder import DELETE, Folder, load_checkpoint, save_checkpoint
from mgnni.train.report import commit, device_name, peak_memory, versions
from mgnni.train.row_training import RowOptions, RowTraining, certificate

SAVE_EVERY = 30.0  # seconds between checkpoints
STATE, MODEL, REPORT = "state.pt", "model.pt", "report.json"


def train_rows(
    folder: Path,
    output: Path,
    options: RowOptions | None = None,
    on_progress: Callable[[int, float, float | None], None] | None = None,
    mesh: ProcessMesh | None = None,
) -> dict[str, Any]:
    """Train on stored terms by mini-batches of nodes; an interrupted training goes on.

    The output folder is locked, so that no other process trains there at the same time.

    Args:
        folder (Path): Output folder of :func:`mgnni.disk.precompute.precompute`.
        output (Path): Folder for the model and the report.
        options (RowOptions, optional): Hyperparameters. (default: :obj:`None`)
        on_progress (Callable, optional): Called with the epoch, the fraction of it that is done,
            and the best validation accuracy. (default: :obj:`None`)
        mesh (ProcessMesh, optional): Processes that share every batch; the first one writes.
            (default: :obj:`None`)

    Returns:
        dict[str, Any]: The report: scores, certified error, time and memory.
    """
    tell = on_progress or (lambda epoch, part, best: None)
    training = RowTraining(Sweep.open(folder), options or RowOptions(), mesh)
    with contextlib.ExitStack() as stack:

        def start() -> dict[str, Any] | None:
            stack.enter_context(Folder(output))  # locked, in the process that writes
            return _last_state(output)

        state = start() if mesh is None else mesh.by_first(start)
        if state is not None:
            training.load_state(state)
        return _train(training, output, tell, state is not None, mesh)


def _train(
    training: RowTraining,
    output: Path,
    tell: Callable[[int, float, float | None], None],
    resumed: bool,
    mesh: ProcessMesh | None,
) -> dict[str, Any]:
    """Train, write and return the report."""
    writes = mesh is None or mesh.rank == 0
    begin = saved = time.monotonic()
    if not training.history:
        certificate(training.model, training.sweep)  # terms that never suffice cost no epoch
    while training.epoch < training.options.epochs and not training.stopped:
        best = max((one["val_accuracy"] for one in training.history), default=None)
        for part in training.train_epoch():
            tell(training.epoch + 1, part, best)
            if writes and time.monotonic() - saved > SAVE_EVERY:
                save_checkpoint(output / STATE, training.state())
                saved = time.monotonic()
        training.end_epoch()
        if writes:
            save_checkpoint(output / STATE, training.state())
    training.model.load_state_dict(training.best)
    report = _report(training, time.monotonic() - begin, resumed)
    if writes:
        _finish(output, training, report)
    if mesh is not None:
        mesh.barrier()  # no process ends before the files are there
    return report


def _last_state(output: Path) -> dict[str, Any] | None:
    """Return the state of an interrupted training, if there is one."""
    if (output / REPORT).exists():
        raise ArgumentError(
            f"'output' must not hold a finished training (got {output}); choose another folder"
        )
    if not (output / STATE).exists():
        return None
    return load_checkpoint(output / STATE, DELETE)


def _finish(output: Path, training: RowTraining, report: dict[str, Any]) -> None:
    arguments = {
        "kind": ROW_KIND,
        "options": asdict(training.options),
        "graph": training.sweep.graph.identity(),
        "scales": list(training.sweep.terms.scales),
        "gamma": training.model.gamma,
        "state": training.model.model.state_dict(),
    }
    save_checkpoint(output / MODEL, arguments)
    with atomic_write(output / REPORT) as file:
        file.write(to_json(report).encode())
    (output / STATE).unlink()


def _baseline(training: RowTraining) -> float | None:
    """Return the test accuracy of the class that is most frequent in training."""
    known, asked = (training.labels[training.nodes[part]] for part in (TRAIN, TEST))
    if not len(asked):
        return None
    return float((asked == np.bincount(known.astype(np.int64)).argmax()).mean())


def _report(training: RowTraining, seconds: float, resumed: bool) -> dict[str, Any]:
    graph, terms = training.sweep.graph, training.sweep.terms
    stats = certificate(training.model, training.sweep)
    test = training.evaluate(TEST)[1] if len(training.nodes[TEST]) else None
    best = max(one["val_accuracy"] for one in training.history)  # of the weights that were kept
    return {
        "format": 1,
        "command": "minibatch",
        "data": graph.name,
        "nodes": graph.num_nodes,
        "nnz": graph.nnz,
        "features": graph.features,
        "classes": graph.classes,
        "scales": list(terms.scales),
        "terms": len(terms.index),
        "tol": training.model.terms.tol,
        "options": asdict(training.options),
        "accuracy": {"val": best, "test": test},
        "baseline": _baseline(training),
        "history": training.history,
        "stopped": training.stopped or None,
        "relative_error_bound": [one.relative_error_bound for one in stats],
        "seconds": seconds,
        "resumed": resumed,
        "peak_memory": peak_memory(training.device),
        "device": device_name(training.device),
        "versions": versions(),
        "commit": commit(),
    }
