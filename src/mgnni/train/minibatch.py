"""Training by mini-batches of nodes, on the stored terms of a graph."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from mgnni.disk.stored_graph import TEST, TRAIN, VAL, blocks
from mgnni.disk.sweep import Sweep
from mgnni.errors import ArgumentError, ConvergenceError, DataError, DivergenceError, check_int
from mgnni.files import atomic_write
from mgnni.models.precomputed import PrecomputedMGNNI
from mgnni.solve.result import SolveStats
from mgnni.train.report import commit, device_name, peak_memory, versions

GROUP = 512  # consecutive nodes that are read together
SAVE_EVERY = 30.0  # seconds between checkpoints
STATE, MODEL, REPORT = "state.pt", "model.pt", "report.json"


@dataclass(frozen=True)
class RowOptions:
    """Hyperparameters of a training by mini-batches of nodes."""

    hidden_channels: int | None = None
    """Number of channels; as many as features if none."""
    input_map: str = "affine"
    """Bias as an affine function of the features, or the features themselves (identity)."""
    gamma: float | None = None
    """Contraction factor; the largest that the terms suffice for if none."""
    tol: float | None = None
    """Certified residual at which training stops with an error; that of the terms if none."""
    dropout: float = 0.0
    """Dropout probability in the head."""
    lr: float = 0.01
    """Learning rate of Adam."""
    weight_decay: float = 5e-4
    """L2 penalty, added to the gradient by Adam."""
    epochs: int = 20
    """Number of epochs; the best one on validation data is kept."""
    batch_size: int = 2**15
    """Nodes per batch."""
    seed: int = 0
    """Seed of initial weights, order of nodes and dropout."""
    device: str = "auto"
    """Where to compute; auto uses a GPU if there is one."""


class RowTraining:
    """A training in progress; see :func:`train_rows`."""

    def __init__(self, sweep: Sweep, options: RowOptions) -> None:
        self.sweep, self.options, graph = sweep, options, sweep.graph
        if not graph.classes or not (graph.folder / "part.npy").exists():
            raise DataError(
                f"{graph.folder}: must have labels and a split, y.npy and part.npy (got none); "
                "store the graph again with them"
            )
        check_int("epochs", options.epochs)
        check_int("batch_size", options.batch_size)
        name = options.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = torch.device(name)
        torch.manual_seed(options.seed)
        chosen = {} if options.gamma is None else {"gamma": options.gamma}
        terms = sweep.terms if options.tol is None else replace(sweep.terms, tol=options.tol)
        self.model = PrecomputedMGNNI(
            graph.features,
            options.hidden_channels or graph.features,
            graph.classes,
            terms,
            constant=sweep.constant,
            input_map=options.input_map,
            dropout=options.dropout,
            **chosen,
        ).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=options.lr, weight_decay=options.weight_decay
        )
        part = graph.array("part")
        self.nodes = {number: np.flatnonzero(part == number) for number in (TRAIN, VAL, TEST)}
        self.labels = graph.array("y")
        if not len(self.nodes[TRAIN]) or not len(self.nodes[VAL]):
            raise DataError(
                f"{graph.folder / 'part.npy'}: must have training and validation nodes (got none "
                "of one of them); store the graph again"
            )
        self.epoch, self.batch, self.loss = 0, 0, 0.0
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Tensor] = {}

    def batches(self) -> list[NDArray[np.int64]]:
        """Return the groups of nodes of all batches of an epoch, in random order."""
        nodes, size = self.nodes[TRAIN], self.options.batch_size
        group = min(GROUP, size)
        count = -(-len(nodes) // group)
        order = np.random.default_rng([self.options.seed, self.epoch]).permutation(count)
        per_batch = max(1, size // group)
        return [np.sort(order[i : i + per_batch]) for i in range(0, count, per_batch)]

    def _nodes_of(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        nodes, group = self.nodes[TRAIN], min(GROUP, self.options.batch_size)
        return np.concatenate([nodes[g * group : (g + 1) * group] for g in groups])

    def _read(self, nodes: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        labels = torch.from_numpy(self.labels[nodes].astype(np.int64))
        return self.sweep.rows(nodes).to(self.device), labels.to(self.device)

    def train_epoch(self) -> Iterator[float]:
        """Train on the remaining batches of an epoch; yield the fraction that is done."""
        self.model.train()
        batches = self.batches()
        for number in range(self.batch, len(batches)):
            rows, labels = self._read(self._nodes_of(batches[number]))
            torch.manual_seed((self.options.seed << 32) + (self.epoch << 20) + number)
            self.optimizer.zero_grad()
            loss = cross_entropy(self.model(rows), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            self.loss += float(loss.detach()) * len(labels)
            self.batch = number + 1
            yield self.batch / len(batches)

    @torch.no_grad()
    def evaluate(self, part: int) -> tuple[float, float]:
        """Return loss and accuracy of a part."""
        self.model.eval()
        nodes, loss, right = self.nodes[part], 0.0, 0
        for start, stop in blocks(len(nodes), self.options.batch_size):
            rows, labels = self._read(nodes[start:stop])
            logits = self.model(rows)
            loss += float(cross_entropy(logits, labels, reduction="sum"))
            right += int((logits.argmax(1) == labels).sum())
        return loss / max(len(nodes), 1), right / max(len(nodes), 1)

    def certificate(self) -> tuple[SolveStats, ...]:
        """Return the certified error of the states; raise if it exceeds the tolerance."""
        stats = self.model.certify(self.sweep.gram).forward
        for one in stats:
            if not one.converged:
                raise ConvergenceError(
                    f"stored terms: their certified residual at scale {one.scale} is "
                    f"{one.relative_residual:.1e} (tol={one.tol:g}); raise tol, or compute terms "
                    "with a smaller one or with storage float32"
                )
        return stats

    def end_epoch(self) -> None:
        """Validate, and keep the weights if they are the best."""
        self.certificate()
        val_loss, accuracy = self.evaluate(VAL)
        loss = self.loss / len(self.nodes[TRAIN])
        if not np.isfinite([loss, val_loss]).all():
            raise DivergenceError(
                f"training diverged: the loss overflowed in epoch {self.epoch + 1}; lower lr (got "
                f"{self.options.lr:g})"
            )
        self.history.append({"loss": loss, "val_loss": val_loss, "val_accuracy": accuracy})
        if accuracy >= max(one["val_accuracy"] for one in self.history):
            self.best = {k: v.detach().cpu().clone() for k, v in self.model.state_dict().items()}
        self.epoch, self.batch, self.loss = self.epoch + 1, 0, 0.0

    def state(self) -> dict[str, Any]:
        """Return everything that the rest of the training depends on."""
        return {
            "options": asdict(self.options),
            "terms": str(self.sweep.folder.resolve()),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
            "history": self.history,
            "place": (self.epoch, self.batch, self.loss),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`."""
        mine = {"options": asdict(self.options), "terms": str(self.sweep.folder.resolve())}
        for name, value in mine.items():
            if state[name] != value:
                raise ArgumentError(
                    f"'{name}' must be as in the interrupted training, {state[name]} (got "
                    f"{value}); use the same, or another output folder"
                )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best, self.history = state["best"], state["history"]
        self.epoch, self.batch, self.loss = state["place"]


def train_rows(
    folder: Path,
    output: Path,
    options: RowOptions | None = None,
    on_progress: Callable[[int, float, float | None], None] | None = None,
) -> dict[str, Any]:
    """Train on stored terms by mini-batches of nodes; an interrupted training goes on.

    Args:
        folder (Path): Output folder of :func:`mgnni.disk.precompute.precompute`.
        output (Path): Folder for the model and the report.
        options (RowOptions, optional): Hyperparameters. (default: :obj:`None`)
        on_progress (Callable, optional): Called with the epoch, the fraction of it that is done,
            and the best validation accuracy. (default: :obj:`None`)

    Returns:
        dict[str, Any]: The report: scores, certified error, time and memory.
    """
    if (output / REPORT).exists():
        raise ArgumentError(
            f"'output' must not hold a finished training (got {output}); choose another folder"
        )
    tell = on_progress or (lambda epoch, part, best: None)
    training = RowTraining(Sweep.open(folder), options or RowOptions())
    output.mkdir(parents=True, exist_ok=True)
    resumed = (output / STATE).exists()
    if resumed:
        training.load_state(torch.load(output / STATE, weights_only=True))
    begin = saved = time.monotonic()
    while training.epoch < training.options.epochs:
        best = max((one["val_accuracy"] for one in training.history), default=None)
        for part in training.train_epoch():
            tell(training.epoch + 1, part, best)
            if time.monotonic() - saved > SAVE_EVERY:
                _save(output / STATE, training.state())
                saved = time.monotonic()
        training.end_epoch()
        _save(output / STATE, training.state())
    training.model.load_state_dict(training.best)
    report = _report(training, time.monotonic() - begin, resumed)
    arguments = {"options": asdict(training.options), "state": training.model.model.state_dict()}
    _save(output / MODEL, arguments)
    with atomic_write(output / REPORT) as file:
        file.write((json.dumps(report, indent=2) + "\n").encode())
    (output / STATE).unlink()
    return report


def _save(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        torch.save(content, file)


def _report(training: RowTraining, seconds: float, resumed: bool) -> dict[str, Any]:
    graph, terms = training.sweep.graph, training.sweep.terms
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
        "accuracy": {"val": best, "test": training.evaluate(TEST)[1]},
        "history": training.history,
        "relative_error_bound": [one.relative_error_bound for one in training.certificate()],
        "seconds": seconds,
        "resumed": resumed,
        "peak_memory": peak_memory(training.device),
        "device": device_name(training.device),
        "versions": versions(),
        "commit": commit(),
    }
