"""Training on batches of graphs, with labels of graphs or of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Batch as GraphBatch

from mgnni.data.task import Task
from mgnni.errors import ArgumentError
from mgnni.graph.batches import Collection
from mgnni.solve.result import SolveLog
from mgnni.train.captured import CapturedStep, NotCapturable
from mgnni.train.config import Config
from mgnni.train.learner import Batch, Learner, prepared
from mgnni.train.loss import row_weights
from mgnni.train.runs import Run, graph_batches

if TYPE_CHECKING:
    from lightning_fabric import Fabric

MAX_CAPTURED = 256  # captured steps that are kept


class GraphLearner(Learner):
    """One run over many graphs; other splits have other batches and are trained separately.

    See :class:`Learner` for the arguments.
    """

    def __init__(self, task: Task, config: Config, runs: Sequence[Run], fabric: Fabric) -> None:
        super().__init__(task, config, runs, fabric)
        if len(runs) != 1:
            raise ArgumentError(
                f"'runs' must hold a single run if there are many graphs (got {len(runs)})"
            )
        self.dtype = torch.float64 if config.precision == "64" else torch.float32
        every = GraphBatch.from_data_list([prepared(graph, config) for graph in task.graphs])
        every = every.to(fabric.device)
        self.x = every.x.to(self.dtype)
        self.graphs = Collection(
            every.edge_index,
            every.num_nodes,
            every.edge_weight,
            batch=every.batch,
            dtype=self.dtype,
            **self.ensemble.model.graph_options,
        )
        split = runs[0].split
        rows = task.rows(split, "train")
        targets = task.targets(split, "train")
        self.labels = torch.full((task.num_rows, *targets.shape[1:]), -1, dtype=targets.dtype)
        self.labels[rows] = targets
        self.labels = self.labels.to(fabric.device)
        self.known = torch.zeros(task.num_rows, dtype=self.dtype)
        self.known[rows] = row_weights(targets, config.class_weight).to(self.dtype)
        self.train_units = task.splits[split].train
        self._fixed_batches: list[Batch] = []  # of all epochs, without shuffling
        self.capturable = fabric.device.type == "cuda" and config.precision in ("32", "tf32")
        self._seen: set[tuple[int, ...]] = set()  # batches that may come again
        self._captured: dict[tuple[int, ...], CapturedStep] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.capturable else None
        self._eval_inputs: dict[str, list[tuple[Any, ...]]] = {}  # by part

    def _inputs(self, units: Tensor) -> tuple[Any, ...]:
        """Join graphs into one batch on the device."""
        propagation, nodes = self.graphs.join(units)
        return self.x.index_select(0, nodes), propagation

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the training graphs in batches, drawn for this epoch or once for the run."""
        if self.config.shuffle:
            yield from map(self._batch, self._batch_units(epoch))
            return
        # Files are often sorted by class, so batches are drawn at random even if only once.
        self._fixed_batches = self._fixed_batches or list(map(self._batch, self._batch_units(0)))
        yield from self._fixed_batches

    def _batch_units(self, epoch: int) -> Iterator[Tensor]:
        """Yield the graphs of each batch, in ascending order."""
        size, batches = self.config.batch_size, self.config.batches_per_epoch
        count = self.train_units.numel()
        for drawn in graph_batches(self.runs[0], epoch, count, size, batches):
            batch = self.train_units[drawn]
            if bool(self.known[self.task.rows_of(batch)].any()):  # skip batches without labels
                yield batch.sort().values

    def _batch(self, units: Tensor) -> Batch:
        rows = self.task.rows_of(units)
        weight = self.known[rows]
        here = rows.to(self.fabric.device, non_blocking=True)
        labels = self.labels.index_select(0, here).unsqueeze(0)
        share = (weight / weight.sum()).unsqueeze(0).to(self.fabric.device)
        return self._inputs(units), labels, share

    def _steps(
        self, epoch: int, context: AbstractContextManager[None]
    ) -> tuple[list[Tensor], bool]:
        """Train on all batches; those that come again are captured and replayed."""
        if not self.capturable or isinstance(context, nullcontext):
            return super()._steps(epoch, context)
        losses, logs = [], []
        with context:
            for units in self._batch_units(epoch if self.config.shuffle else 0):
                loss, log = self._one_step(tuple(units.tolist()))
                losses.append(loss)
                logs.append(log)
        return losses, self.certificates.record_all(logs)

    def _one_step(self, key: tuple[int, ...]) -> tuple[Tensor, SolveLog]:
        if key not in self._captured:
            batch = self._batch(torch.tensor(key))
            if key not in self._seen or len(self._captured) >= MAX_CAPTURED:
                if len(self._seen) < 16 * MAX_CAPTURED:  # otherwise hardly any comes again
                    self._seen.add(key)
                return self.step(*batch), self.log
            try:
                self._captured[key] = CapturedStep(self, batch, self._pool)
            except NotCapturable:
                self.capturable, self._pool = False, None
                return self.step(*batch), self.log
        return self._captured[key].run()

    def _eval_units(self, part: str) -> Tensor:
        """Return the graphs that this process evaluates."""
        return self.task.splits[self.runs[0].split].part(part)

    def _inputs_of(self, part: str) -> list[tuple[Any, ...]]:
        if part not in self._eval_inputs:
            units = self._eval_units(part)
            chunks = torch.split(units, self.config.batch_size) if units.numel() else ()
            self._eval_inputs[part] = [self._inputs(chunk) for chunk in chunks]
        return self._eval_inputs[part]

    def scores(self, part: str) -> list[Tensor]:
        """Return the logits of a part, for the one run."""
        split = self.runs[0].split
        every = self.task.rows_of(self.task.splits[split].part(part))
        stacked = self._logits_of(part)
        wanted = torch.isin(every, self.task.rows(split, part))
        return [stacked[wanted.to(stacked.device)]]

    def _logits_of(self, part: str) -> Tensor:
        """Return the logits of all rows of a part, with a label or without."""
        logits = [self.forward(inputs)[0] for inputs in self._inputs_of(part)]
        return torch.cat(logits) if logits else torch.empty(0, len(self.task.classes))
