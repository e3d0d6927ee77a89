"""A training by mini-batches of nodes in progress, on the stored terms of a graph.

Several processes can share every batch. The rows of a batch, the loss and the dropout masks do not
depend on their number, so the result is that of one process up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from mgnni.disk.stored_graph import TEST, TRAIN, VAL, blocks
from mgnni.disk.sweep import Sweep
from mgnni.distributed.mesh import ProcessMesh
from mgnni.errors import (
    ArgumentError,
    ConvergenceError,
    DataError,
    DivergenceError,
    check_choice,
    check_int,
    check_number,
)
from mgnni.layers.regularization import Dropout, number_rows
from mgnni.models.precomputed import PrecomputedMGNNI
from mgnni.solve.result import SolveStats
from mgnni.train.device import DEVICES, find_device
from mgnni.train.runs import Run, dropout_keys, dropout_offset

GROUP = 512  # consecutive nodes that are read together


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

    def __post_init__(self) -> None:
        for name, least in (("epochs", 1), ("batch_size", 1), ("seed", 0)):
            check_int(name, getattr(self, name), least)
        if self.hidden_channels is not None:
            check_int("hidden_channels", self.hidden_channels)
        for name in ("lr", "weight_decay"):
            check_number(name, getattr(self, name), "[0, inf)", "0.01 is usual")
        if self.tol is not None:
            check_number("tol", self.tol, "(0, 1)", "it bounds a relative residual")
        check_choice("device", self.device, DEVICES)


def make_row_model(sweep: Sweep, options: RowOptions) -> PrecomputedMGNNI:
    """Return a model of stored terms, with initial weights.

    Args:
        sweep (Sweep): The stored terms.
        options (RowOptions): Hyperparameters.
    """
    graph = sweep.graph
    chosen = {} if options.gamma is None else {"gamma": options.gamma}
    terms = sweep.terms if options.tol is None else replace(sweep.terms, tol=options.tol)
    with torch.random.fork_rng(devices=[]):  # the random numbers of the caller stay the same
        torch.default_generator.manual_seed(options.seed)
        return PrecomputedMGNNI(
            graph.features,
            options.hidden_channels or graph.features,
            graph.classes,
            terms,
            constant=sweep.constant,
            input_map=options.input_map,
            dropout=options.dropout,
            **chosen,
        )


def certificate(model: PrecomputedMGNNI, sweep: Sweep) -> tuple[SolveStats, ...]:
    """Return the certified error of the states; raise if it exceeds the tolerance.

    Args:
        model (PrecomputedMGNNI): The model.
        sweep (Sweep): Its stored terms.
    """
    stats = model.certify(sweep.gram).forward
    for one in stats:
        if not one.converged:
            raise ConvergenceError(
                f"stored terms: their certified residual at scale {one.scale} is "
                f"{one.relative_residual:.1e} (tol={one.tol:g}); raise tol, or compute terms "
                "with a smaller one or with storage float32"
            )
    return stats


class RowTraining:
    """A training in progress; see :func:`mgnni.train.minibatch.train_rows`.

    Args:
        sweep (Sweep): The stored terms.
        options (RowOptions): Hyperparameters.
        mesh (ProcessMesh, optional): Processes that share every batch. (default: :obj:`None`)
    """

    def __init__(self, sweep: Sweep, options: RowOptions, mesh: ProcessMesh | None = None) -> None:
        self.sweep, self.options, self.mesh, graph = sweep, options, mesh, sweep.graph
        if not graph.classes or not (graph.folder / "part.npy").exists():
            raise DataError(
                f"{graph.folder}: must have labels and a split, y.npy and part.npy (got none); "
                "store the graph again with them"
            )
        self.device = torch.device(find_device(options.device)) if mesh is None else mesh.device
        self.model = make_row_model(sweep, options).to(self.device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=options.lr, weight_decay=options.weight_decay
        )
        self.dropouts = [one for one in self.model.modules() if isinstance(one, Dropout)]
        for one in self.dropouts:
            one.keyed = True
        run = Run(0, options.seed)
        self.keys = dropout_keys([run], len(self.dropouts), self.device)[0]
        part = graph.array("part")
        self.nodes = {number: np.flatnonzero(part == number) for number in (TRAIN, VAL, TEST)}
        self.labels = graph.array("y")
        if not len(self.nodes[TRAIN]) or not len(self.nodes[VAL]):
            raise DataError(
                f"{graph.folder / 'part.npy'}: must have training and validation nodes (got none "
                "of one of them); store the graph again"
            )
        known = np.concatenate([self.labels[nodes] for nodes in self.nodes.values()])
        low, high = known.min(), known.max()
        if low < 0 or high >= graph.classes:
            raise DataError(
                f"{graph.folder / 'y.npy'}: labels of nodes in a set must lie between 0 and "
                f"{graph.classes - 1} (got {low} to {high}); store the graph again"
            )
        self.epoch, self.batch, self.loss = 0, 0, 0.0
        self.stopped = ""  # why it ended before the last epoch
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

    def _own(self, nodes: NDArray[np.int64]) -> tuple[int, NDArray[np.int64]]:
        """Return the nodes of this process, which follow one another, and where they begin."""
        size, rank = (1, 0) if self.mesh is None else (self.mesh.size, self.mesh.rank)
        own = np.array_split(nodes, size)
        return sum(map(len, own[:rank])), own[rank]

    def _sum(self, x: Tensor) -> Tensor:
        return x if self.mesh is None else self.mesh.sum(x)

    def _set_dropout(self, step: int, first: int, count: int) -> None:
        """Let the masks depend on the step, and on the place of a row in its batch."""
        rows = torch.arange(first, first + count, device=self.device)
        number_rows(self.model, nodes=rows)
        for one, key in zip(self.dropouts, self.keys + dropout_offset(step), strict=True):
            one.key = key

    def _read(self, nodes: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        labels = torch.from_numpy(self.labels[nodes].astype(np.int64))
        return self.sweep.rows(nodes).to(self.device), labels.to(self.device)

    def train_epoch(self) -> Iterator[float]:
        """Train on the remaining batches of an epoch; yield the fraction that is done."""
        self.model.train()
        batches = self.batches()
        for number in range(self.batch, len(batches)):
            nodes = self._nodes_of(batches[number])
            first, own = self._own(nodes)
            rows, labels = self._read(own)
            self._set_dropout(self.epoch * len(batches) + number, first, len(own))
            self.optimizer.zero_grad()
            loss = cross_entropy(self.model(rows), labels, reduction="sum")
            (loss / len(nodes)).backward()  # type: ignore[no-untyped-call]
            if self.mesh is not None:
                self.mesh.sum_gradients(self.model.parameters())
            self.optimizer.step()
            self.loss += float(self._sum(loss.detach()))
            self.batch = number + 1
            yield self.batch / len(batches)

    @torch.no_grad()
    def evaluate(self, part: int) -> tuple[float, float]:
        """Return loss and accuracy of a part."""
        self.model.eval()
        count, own = len(self.nodes[part]), self._own(self.nodes[part])[1]
        found = torch.zeros(2, dtype=torch.float64, device=self.device)
        for start, stop in blocks(len(own), self.options.batch_size):
            rows, labels = self._read(own[start:stop])
            logits = self.model(rows)
            found[0] += cross_entropy(logits, labels, reduction="sum")
            found[1] += (logits.argmax(1) == labels).sum()
        if self.mesh is not None:
            self.mesh.barrier()  # a sum waits for seconds only; files are read at unequal speed
        loss, right = (self._sum(found) / max(count, 1)).tolist()
        return loss, right

    def end_epoch(self) -> None:
        """Validate, and keep the weights if they are the best.

        If the terms do not suffice for the weights, the training ends with the best ones before,
        and raises if there are none.
        """
        try:
            certificate(self.model, self.sweep)
        except ConvergenceError as error:
            if not self.best:
                raise
            self.stopped = f"stopped after {self.epoch} epochs: {error}"
            return
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

    def _terms(self) -> dict[str, Any]:
        """Return what the stored terms depend on."""
        terms = self.sweep.terms
        equations = {"scales": list(terms.scales), "gamma": terms.gamma, "tol": terms.tol}
        return {**self.sweep.graph.identity(), **equations}

    def _free_options(self) -> dict[str, Any]:
        """Return the options that may change when a training goes on."""
        return {name: getattr(self.options, name) for name in ("epochs", "tol", "device")}

    def state(self) -> dict[str, Any]:
        """Return everything that the rest of the training depends on."""
        return {
            "options": asdict(self.options),
            "terms": self._terms(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "best": self.best,
            "history": self.history,
            "place": (self.epoch, self.batch, self.loss),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue from a :meth:`state`."""
        mine = {"options": asdict(self.options), "terms": self._terms()}
        there = {**state, "options": {**state.get("options", {}), **self._free_options()}}
        for name, value in mine.items():
            if there.get(name) != value:
                raise ArgumentError(
                    f"'{name}' must be as in the interrupted training, {state.get(name)} (got "
                    f"{value}); use the same, or another output folder"
                )
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.best, self.history = state["best"], state["history"]
        self.epoch, self.batch, self.loss = state["place"]
