"""One epoch of training and validation: by the library, and in a hand-written loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch as GraphBatch

from mgnni.data.task import Task
from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation
from mgnni.models.mgnni import MGNNI
from mgnni.solve.result import Options
from mgnni.train.config import Config, changed
from mgnni.train.device import make_fabric
from mgnni.train.ensemble import build_model
from mgnni.train.learner import Learner, prepared
from mgnni.train.loss import row_losses
from mgnni.train.node_learner import NodeLearner
from mgnni.train.runs import Run
from mgnni.train.training import learner_for

Example = tuple[tuple[Any, ...], Tensor, Tensor]  # inputs; label and weight per row
EXACT = Options("auto", 1e-12)
BETA = 0.9  # first momentum coefficient of Adam
# Weights must change, as in training, but keep their spectrum, on which times depend.
LEARNING_RATE = 1e-4


class Trainer(Protocol):
    """Trains epoch by epoch, and gives access to what the first epoch computed."""

    def train(self, number: int) -> None:
        """Train for the epoch of this number."""

    def validate(self) -> None:
        """Compute loss and metric on the validation set."""

    def scores(self) -> Tensor:
        """Return the logits of the validation set."""

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the first epoch, as passed to the optimizer."""


def outcome(trainer: Trainer) -> list[Tensor]:
    """Train for one epoch, and return the logits after it followed by its gradients.

    They are read from the optimizer and the validation, so that an epoch recorded as a CUDA graph
    is measured as it runs.

    Args:
        trainer (Trainer): The training, before its first epoch.

    Shapes:
        - **output:** logits ``(rows, classes)``, then one gradient with the shape of each parameter
    """
    trainer.train(1)
    trainer.validate()
    return [trainer.scores(), *trainer.gradients()]


class LearnerTrainer:
    """The training of ``mgnni train``, of one run or several at once.

    Args:
        learner (Learner): The runs.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def train(self, number: int) -> None:
        """Train for the epoch of this number."""
        self.learner.train_epoch(number)

    def validate(self) -> None:
        """Compute loss and metric on the validation set."""
        self.learner.validate()

    def scores(self) -> Tensor:
        """Return the validation logits of the first run."""
        return self.learner.scores("val")[0]

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the first epoch of the first run."""
        state = self.learner.optimizer.state
        return [state[stack]["exp_avg"][0] / (1 - BETA) for stack in self.learner.ensemble.stacks]


class PlainTrainer:
    """A hand-written training loop around a module.

    Args:
        model (nn.Module): The module.
        train (Sequence[Example]): The batches of an epoch.
        val (Sequence[Example]): The batches of the validation set.
        config (Config): Learning rate and weight decay of Adam.
        rows (Tensor, optional): Validation rows, if the batches have others too.

    Shapes:
        - **labels of a batch:** ``(rows,)``, or ``(rows, classes)`` for several labels per row
        - **weights of a batch:** ``(rows,)``
        - **rows:** ``(val_rows,)``
    """

    def __init__(
        self,
        model: nn.Module,
        train: Sequence[Example],
        val: Sequence[Example],
        config: Config,
        rows: Tensor | None = None,
    ) -> None:
        self.model, self.examples, self.val, self.rows = model, train, val, rows
        self.optimizer = torch.optim.Adam(
            model.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True
        )

    def train(self, number: int) -> None:
        """Train for one epoch."""
        self.model.train()
        for inputs, labels, weight in self.examples:
            self.optimizer.zero_grad()
            loss = (row_losses(self.model(*inputs), labels) * weight).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    @torch.no_grad()
    def validate(self) -> None:
        """Compute loss and accuracy on the validation set."""
        self.model.eval()
        for inputs, labels, weight in self.val:
            logits = self.model(*inputs)
            loss = (row_losses(logits, labels) * weight).sum()
            hit = (logits > 0) == labels if labels.dim() > 1 else logits.argmax(-1) == labels
            right = (hit.view(len(hit), -1).float().mean(1) * weight).sum()
            torch.stack([loss, right]).tolist()  # transferred to the host, as for a log

    @torch.no_grad()
    def scores(self) -> Tensor:
        """Return the logits of the validation set."""
        self.model.eval()
        logits = torch.cat([self.model(*inputs) for inputs, _, _ in self.val])
        return logits if self.rows is None else logits[self.rows]

    def gradients(self) -> list[Tensor]:
        """Return the gradients of the first epoch."""
        state = self.optimizer.state
        return [state[one]["exp_avg"] / (1 - BETA) for one in self.model.parameters()]


class TrainingCase:
    """Data, initial weights and batches shared by all methods that are compared.

    Args:
        task (Task): The task.
        config (Config): The configuration; its learning rate is lowered until weights hardly move.
        factor (Tensor, optional): Initial value of every :math:`F`. (default: as initialised)
        device (torch.device): Where to compute.

    Shapes:
        - **factor:** ``(scales, channels, channels)``
    """

    def __init__(
        self, task: Task, config: Config, factor: Tensor | None, device: torch.device
    ) -> None:
        self.task, self.factor, self.device = task, factor, device
        self.config = changed(config, {"lr": LEARNING_RATE, "weight_decay": 0.0})
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

    def checked(self) -> TrainingCase:
        """Return the same case without randomness and with constant weights, to compare results.

        Of many graphs it takes one batch.
        """
        task = self.task
        if task.unit == "graph":
            first = task.splits[0].train[: self.config.batch_size]
            split = type(task.splits[0])(first, task.splits[0].val, task.splits[0].test)
            task = task.with_splits([split])
        config = changed(self.config, {"dropout": 0.0})
        case = TrainingCase(task, config, self.factor, self.device)
        case.config = changed(case.config, {"lr": 0.0})
        return case

    def _learner(self, runs: Sequence[Run]) -> Learner:
        learner = learner_for(self.task)(self.task, self.config, runs, self.fabric)
        if self.factor is not None:
            state = learner.ensemble.snapshot()
            state["equilibrium.factor"][:] = self.factor.to(state["equilibrium.factor"])
            learner.ensemble.restore(state)
        return learner

    def learned(self, runs: int = 1) -> LearnerTrainer:
        """Return the library's training of the first splits, all at once."""
        return LearnerTrainer(self._learner([Run(split, 0) for split in range(runs)]))

    def model(self) -> MGNNI:
        """Return a model with the shared initial weights."""
        task = self.task
        model = build_model(self.config, task.num_features, len(task.classes), task.level)
        if not isinstance(model, MGNNI):
            raise ArgumentError(f"'config' must be one of MGNNI (got {self.config.architecture!r})")
        model.load_state_dict(self.state)
        return model.to(self.device)

    def plain(self, model: nn.Module) -> PlainTrainer:
        """Return the hand-written loop around a model."""
        return PlainTrainer(model.to(self.device), self.train, self.val, self.config, self.rows)

    def exact(self) -> PlainTrainer:
        """Return the hand-written loop in float64, with equations solved to 1e-12."""
        model = self.model().double()
        model.equilibrium.options = EXACT
        train, val = ([_double_example(one) for one in part] for part in (self.train, self.val))
        return PlainTrainer(model, train, val, self.config, self.rows)

    def _batches(self, part: str) -> list[Example]:
        """Return the graphs of a part in batches, made once for all epochs of a plain loop."""
        task, found = self.task, []
        for units in torch.split(task.splits[0].part(part), self.config.batch_size):
            graphs = [prepared(task.graphs[unit], self.config) for unit in units.tolist()]
            batch = GraphBatch.from_data_list(graphs).to(self.device)
            where = torch.isin(task.rows(0, part), task.rows_of(units))
            labels = task.targets(0, part)[where].to(self.device)
            weight = torch.full((len(labels),), 1 / max(len(labels), 1), device=self.device)
            found.append(((batch.x, batch.edge_index, None, batch.batch), labels, weight))
        return found


def _double_example(example: Example) -> Example:
    inputs, labels, weight = example
    return tuple(_double(one) for one in inputs), labels, weight.double()


def _double(one: Any) -> Any:
    floating = isinstance(one, Tensor) and one.is_floating_point()
    return one.double() if floating or isinstance(one, Propagation) else one
