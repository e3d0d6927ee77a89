"""Training on batches of graphs, with one label a graph or one a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Batch as GraphBatch

from mgnni.data.task import Task
from mgnni.errors import ArgumentError
from mgnni.graph.join import Collection
from mgnni.train.config import Config
from mgnni.train.learner import Batch, Learner, prepared
from mgnni.train.streams import Run, order

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class GraphLearner(Learner):
    """One run over many graphs; other splits have other batches and are trained by themselves."""

    def __init__(self, task: Task, config: Config, runs: Sequence[Run], fabric: Fabric) -> None:
        super().__init__(task, config, runs, fabric)
        if len(runs) != 1:
            raise ArgumentError(
                f"'runs' must be a single one where there are many graphs (got {len(runs)})"
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
            **self.together.model.graph_options,
        )
        split = runs[0].split
        rows = task.rows(split, "train")
        targets = task.targets(split, "train")
        self.labels = torch.full((task.num_rows, *targets.shape[1:]), -1, dtype=targets.dtype)
        self.labels[rows] = targets
        self.labels = self.labels.to(fabric.device)
        self.known = torch.zeros(task.num_rows, dtype=self.dtype)
        self.known[rows] = 1
        self.train_units = task.splits[split].train
        self._always: list[Batch] = []  # the training batches, if they are the same in all epochs
        self._fixed: dict[str, list[tuple[Any, ...]]] = {}  # the inputs of a part, for evaluation

    def _inputs(self, units: Tensor) -> tuple[Any, ...]:
        """Put some graphs into one batch on the device."""
        propagation, nodes = self.graphs.join(units)
        return self.x.index_select(0, nodes), propagation

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the training graphs in batches, in an order of this epoch or of the run."""
        if self.config.shuffle:
            yield from self._drawn(epoch)
            return
        # Files are often sorted by class: batches are drawn at random even if only once.
        self._always = self._always or list(self._drawn(0))
        yield from self._always

    def _drawn(self, epoch: int) -> Iterator[Batch]:
        units = self.train_units[order(self.runs[0], epoch, self.train_units.numel())]
        for chosen in torch.split(units, self.config.batch_size):
            rows = self.task.rows_of(chosen)
            weight = self.known[rows]
            if not bool(weight.any()):
                continue  # no labels in it, nothing to learn
            here = rows.to(self.fabric.device, non_blocking=True)
            labels = self.labels.index_select(0, here).unsqueeze(0)
            share = (weight / weight.sum()).unsqueeze(0).to(self.fabric.device)
            yield self._inputs(chosen), labels, share

    def _evaluated(self, part: str) -> list[tuple[Any, ...]]:
        if part not in self._fixed:
            units = self.task.splits[self.runs[0].split].part(part)
            chunks = torch.split(units, self.config.batch_size) if units.numel() else ()
            self._fixed[part] = [self._inputs(chunk) for chunk in chunks]
        return self._fixed[part]

    def scores(self, part: str) -> list[Tensor]:
        """Return the logits of a part, for the one run."""
        split = self.runs[0].split
        every = self.task.rows_of(self.task.splits[split].part(part))
        logits = [self.forward(inputs)[0] for inputs in self._evaluated(part)]
        wanted = torch.isin(every, self.task.rows(split, part))
        stacked = torch.cat(logits) if logits else torch.empty(0, len(self.task.classes))
        return [stacked[wanted.to(stacked.device)]]
