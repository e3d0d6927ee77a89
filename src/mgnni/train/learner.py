"""Runs in training: a step, a look at how good they are, and what must be kept of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from mgnni.data.task import Task
from mgnni.errors import DataError, DivergenceError
from mgnni.models.mgnni import MGNNI
from mgnni.train.certificates import Certificates
from mgnni.train.config import Config
from mgnni.train.streams import Run
from mgnni.train.together import Together

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Batch = tuple[tuple[Tensor | None, ...], Tensor, Tensor]  # inputs; labels and weights a run


def build_model(config: Config, in_channels: int, out_channels: int, level: str) -> MGNNI:
    """Make the model that a configuration describes."""
    options = dict(vars(config.model))
    hidden = options.pop("hidden_channels")
    hidden = in_channels if hidden is None else hidden
    return MGNNI(in_channels, hidden, out_channels, level=level, **options)


def num_parameters(config: Config, in_channels: int, out_channels: int, level: str) -> int:
    """Count the parameters of the model, or say why it cannot be made; nothing is drawn."""
    with torch.device("meta"):
        model = build_model(config, in_channels, out_channels, level)
    return sum(parameter.numel() for parameter in model.parameters())


def prepared(graph: Data, config: Config) -> Data:
    """Return the graph as the configuration wants it."""
    graph = graph.clone()
    if config.undirected:
        graph.edge_index, graph.edge_weight = to_undirected(
            graph.edge_index, graph.edge_weight, num_nodes=graph.num_nodes, reduce="max"
        )
    return graph


def check_graphs(graphs: Sequence[Data], width: int) -> None:
    """Refuse graphs that do not make a batch for a model of features of this width."""
    weighted = graphs[0].edge_weight is not None
    for index, graph in enumerate(graphs):
        if graph.num_features != width:
            problem = f"must have {width} features, as those trained on (got {graph.num_features})"
        elif graph.num_nodes == 0:
            problem = "must have nodes (got none); leave it out"
        elif (graph.edge_weight is not None) != weighted:
            problem = "must have an edge_weight if graph 0 has, and none else; complete them"
        else:
            continue
        raise DataError(f"graph {index} (from 0): {problem}")


class Learner(ABC):
    """Some runs of one configuration on one task, trained side by side.

    Args:
        task: what is learnt.
        config: how.
        runs: which splits, with which seeds.
        fabric: device and precision.
    """

    def __init__(self, task: Task, config: Config, runs: Sequence[Run], fabric: Fabric) -> None:
        self.task, self.config, self.fabric = task, config, fabric
        self.certificates = Certificates()
        self.together = Together(self._build, runs)
        if config.precision == "64":
            self.together.double()
        optimizer = torch.optim.Adam(
            self.together.parameters(),
            lr=config.lr,
            weight_decay=config.weight_decay,
            fused=fabric.device.type in ("cpu", "cuda"),
        )
        self.module, self.optimizer = fabric.setup(self.together, optimizer)
        self.best = self.together.snapshot()

    def _build(self) -> nn.Module:
        task = self.task
        return build_model(self.config, task.num_features, len(task.classes), task.level)

    @property
    def runs(self) -> list[Run]:
        """The runs still in training."""
        return self.together.runs

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield what one epoch trains on."""

    @abstractmethod
    def scores(self, part: str) -> list[Tensor]:
        """Return the logits of ``task.rows(split, part)`` for every run."""

    def train_epoch(self, epoch: int) -> list[float]:
        """Train for one epoch; return the mean loss of each run."""
        self.module.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.lr * rate(self.config, epoch)
        losses = [self._step(*batch) for batch in self.batches(epoch)]
        mean: list[float] = torch.stack(losses).mean(0).tolist()
        return mean

    def _step(self, inputs: tuple[Any, ...], labels: Tensor, weight: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = row_losses(self.module(*inputs), labels)
        loss = (loss * weight).sum(-1)
        self.fabric.backward(loss.sum())
        self.certificates.record(self.together.model.solve_log)
        if self.config.clip is not None:
            self._clip(self.config.clip)
        self.optimizer.step()
        self.together.step += 1
        return loss.detach()

    def _clip(self, most: float) -> None:
        """Shorten the gradient of each run by itself."""
        grads = [stack.grad.flatten(1) for stack in self.together.stacks if stack.grad is not None]
        norm = torch.cat([grad.norm(dim=1, keepdim=True) for grad in grads], 1).norm(dim=1)
        factor = (most / norm.clamp(min=1e-12)).clamp(max=1).unsqueeze(1)
        for grad in grads:
            grad.mul_(factor)

    @torch.no_grad()
    def forward(self, inputs: tuple[Any, ...]) -> Tensor:
        """Return logits as they are for prediction, shape ``(runs, rows, classes)``."""
        self.module.eval()
        logits: Tensor = self.module(*inputs)
        self.certificates.record(self.together.model.solve_log)
        return logits

    def validate(self) -> list[tuple[float, float]]:
        """Return loss and metric of each run on its validation part."""
        found = []
        for run, scores in zip(self.runs, self.scores("val"), strict=True):
            targets = self.task.targets(run.split, "val").to(scores.device)
            loss = float(row_losses(scores, targets).mean())
            found.append((loss, self.task.evaluate(scores, run.split, "val")[self.task.metric]))
        return found

    def check_finite(self, epoch: int, losses: Sequence[float] | None = None) -> None:
        """Name the first run that diverged.

        Args:
            epoch: the present one.
            losses: of the runs, one after another, as often as they were measured; none: look at
                the weights instead, after a pass that failed.
        """
        count = len(self.runs)
        what = "the loss"
        if losses is None:
            what, losses = "weights", []
            for stack in self.together.stacks:  # their squares, which the contraction needs
                losses += stack.detach().flatten(1).square().sum(1).tolist()
        for place, run in enumerate(self.runs):
            if not all(math.isfinite(loss) for loss in losses[place::count]):
                raise DivergenceError(
                    f"training diverged: {what} of split {run.split}, seed {run.seed} overflowed "
                    f"in epoch {epoch}; lower lr (got {self.config.lr:g}), or limit the gradient "
                    "by clip"
                )

    def keep_best(self, places: Sequence[int]) -> None:
        """Remember the present parameters of these runs as their best."""
        if places:
            index = torch.tensor(places, device=self.together.stacks[0].device)
            now = self.together.named_stacks()
            for name, value in (now[0] | now[1]).items():
                self.best[name][index] = value.detach()[index]

    def best_of(self, place: int) -> dict[str, Tensor]:
        """Return the best parameters of a run, as a ``state_dict`` on the CPU."""
        return {name: value[place].cpu().clone() for name, value in self.best.items()}

    def keep(self, places: Sequence[int]) -> None:
        """Go on with these runs only."""
        index = torch.tensor(places, device=self.together.stacks[0].device)
        for state in self.optimizer.state.values():
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = state[key][index]
        self.together.keep(places)
        self.best = {name: value[index] for name, value in self.best.items()}

    def use_best(self) -> None:
        """Put the best parameters of every run in place, for evaluation."""
        self.together.restore(self.best)

    def state(self) -> dict[str, Any]:
        """Return all that training depends on."""
        return {
            "parameters": self.together.snapshot(),
            "best": self.best,
            "optimizer": self.optimizer.state_dict()["state"],
            "step": self.together.step,
            "certificates": self.certificates.to_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from a :meth:`state` of the same runs."""
        self.together.restore(state["parameters"])
        self.best = {k: v.to(self.fabric.device) for k, v in state["best"].items()}
        own = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**own, "state": state["optimizer"]})
        self.together.step = state["step"]
        self.certificates = Certificates.from_dict(state["certificates"])


def row_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the loss of every row: cross-entropy, or its mean over several labels.

    Leading dimensions are kept; where a class label is -1 the loss is that of class 0, and
    its weight must be zero.
    """
    logits = logits.float() if logits.dtype is torch.bfloat16 else logits
    if labels.dim() == logits.dim():
        losses = nn.functional.binary_cross_entropy_with_logits(
            logits, labels.to(logits.dtype), reduction="none"
        )
        return losses.mean(-1)
    log = logits.log_softmax(-1)
    return -log.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)


def rate(config: Config, epoch: int) -> float:
    """The part of the learning rate that the schedule leaves in an epoch."""
    if config.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (epoch - 1) / config.epochs))


def learner_for(task: Task) -> Callable[..., Learner]:
    """Return the learner that fits a task: one graph, or many."""
    from mgnni.train.many_graphs import GraphLearner
    from mgnni.train.one_graph import NodeLearner

    return NodeLearner if task.unit == "node" else GraphLearner
