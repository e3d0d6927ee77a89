"""One task and one configuration, for all who compete in training on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch as GraphBatch

from mgnni.bench.trainer import Example, LearnerTrainer, PlainTrainer
from mgnni.data.task import Task
from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation
from mgnni.models.mgnni import MGNNI
from mgnni.solve.solve import Options
from mgnni.train.config import Config, changed
from mgnni.train.device import make_fabric
from mgnni.train.ensemble import build_model
from mgnni.train.learner import Learner, prepared
from mgnni.train.node_learner import NodeLearner
from mgnni.train.runs import Run
from mgnni.train.training import learner_for

EXACT = Options("auto", 1e-12)
# Weights must change, as they do in training, and keep their spectrum, as times depend on it.
RATE = 1e-4


class Study:
    """What all competitors share: data, initial weights, batches.

    Args:
        task: the task.
        config: the configuration; the learning rate is lowered until weights hardly move.
        factor: what every :math:`F` starts from.
        device: where.
    """

    def __init__(self, task: Task, config: Config, factor: Tensor, device: torch.device) -> None:
        self.task, self.factor, self.device = task, factor, device
        self.config = changed(config, {"lr": RATE, "weight_decay": 0.0})
        self.fabric = make_fabric(device.type, config.precision)
        learner = self._learner([Run(0, 0)])
        self.state = {name: value[0] for name, value in learner.ensemble.snapshot().items()}
        self.rows: Tensor | None = None
        if isinstance(learner, NodeLearner):
            self.rows = learner.place[task.rows(0, "val")].to(device)
            parts = (learner.parts["train"], learner.parts["val"])
            examples = [[(learner.inputs, labels[0], weight[0])] for labels, weight in parts]
        else:
            examples = [self._batches(part) for part in ("train", "val")]
        self.train, self.val = examples

    def checked(self) -> Study:
        """The same without chance, and with weights that stay: what outcomes are compared on.

        Of many graphs it takes one batch.
        """
        task = self.task
        if task.unit == "graph":
            first = task.splits[0].train[: self.config.batch_size]
            split = type(task.splits[0])(first, task.splits[0].val, task.splits[0].test)
            task = task.with_splits([split])
        config = changed(self.config, {"dropout": 0.0})
        study = Study(task, config, self.factor, self.device)
        study.config = changed(study.config, {"lr": 0.0})
        return study

    def _learner(self, runs: Sequence[Run]) -> Learner:
        learner = learner_for(self.task)(self.task, self.config, runs, self.fabric)
        state = learner.ensemble.snapshot()
        state["equilibrium.factor"][:] = self.factor.to(state["equilibrium.factor"])
        learner.ensemble.restore(state)
        return learner

    def learned(self, runs: int = 1) -> LearnerTrainer:
        """The library's training of the first splits, together."""
        return LearnerTrainer(self._learner([Run(split, 0) for split in range(runs)]))

    def model(self) -> MGNNI:
        """A model with the weights that all start from."""
        task = self.task
        model = build_model(self.config, task.num_features, len(task.classes), task.level)
        if not isinstance(model, MGNNI):
            raise ArgumentError(
                f"'config' must be that of MGNNI (got {self.config.architecture!r})"
            )
        model.load_state_dict(self.state)
        return model.to(self.device)

    def plain(self, model: nn.Module) -> PlainTrainer:
        """The plain loop around a model."""
        return PlainTrainer(model.to(self.device), self.train, self.val, self.config, self.rows)

    def exact(self) -> PlainTrainer:
        """The plain loop in float64, with equations solved to 1e-12."""
        model = self.model().double()
        model.equilibrium.options = EXACT
        train, val = ([_wide(one) for one in part] for part in (self.train, self.val))
        return PlainTrainer(model, train, val, self.config, self.rows)

    def _batches(self, part: str) -> list[Example]:
        """The graphs of a part in batches, made once: generous to a plain loop."""
        task, found = self.task, []
        for units in torch.split(task.splits[0].part(part), self.config.batch_size):
            graphs = [prepared(task.graphs[unit], self.config) for unit in units.tolist()]
            batch = GraphBatch.from_data_list(graphs).to(self.device)
            where = torch.isin(task.rows(0, part), task.rows_of(units))
            labels = task.targets(0, part)[where].to(self.device)
            weight = torch.full((len(labels),), 1 / max(len(labels), 1), device=self.device)
            found.append(((batch.x, batch.edge_index, None, batch.batch), labels, weight))
        return found


def _wide(example: Example) -> Example:
    inputs, labels, weight = example
    return tuple(_double(one) for one in inputs), labels, weight.double()


def _double(one: Any) -> Any:
    floating = isinstance(one, Tensor) and one.is_floating_point()
    return one.double() if floating or isinstance(one, Propagation) else one
