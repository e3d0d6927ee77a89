"""Runs in training: a step, a look at how good they are, and what must be kept of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from mgnni.data.task import Task
from mgnni.errors import DataError, DivergenceError
from mgnni.implicit.linear import deferred
from mgnni.solve.result import SolveLog
from mgnni.train.build import build_model
from mgnni.train.certificates import Certificates
from mgnni.train.config import Config
from mgnni.train.streams import Run
from mgnni.train.together import Together

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Batch = tuple[tuple[Tensor | None, ...], Tensor, Tensor]  # inputs; labels and weights a run


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
        on_cuda = fabric.device.type == "cuda"
        optimizer = torch.optim.Adam(
            self.together.parameters(),
            lr=torch.tensor(config.lr) if on_cuda else config.lr,  # read by recorded steps
            weight_decay=config.weight_decay,
            fused=fabric.device.type in ("cpu", "cuda"),
            capturable=on_cuda,
        )
        self.module, self.optimizer = fabric.setup(self.together, optimizer)
        for group in self.optimizer.param_groups if on_cuda else ():
            group["lr"] = group["lr"].to(fabric.device)
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
        self.set_rate(epoch)
        before = self.moving(clone=True) if self.fabric.device.type == "cuda" else None
        losses, exact = self._steps(epoch, deferred() if before is not None else nullcontext())
        if not exact and before is not None:  # do again, by the way that corrects, or says why not
            self.put_back(before)
            losses, _ = self._steps(epoch, nullcontext())
        self.together.counted(len(losses))
        mean: list[float] = torch.stack(losses).mean(0).tolist()
        return mean

    def _steps(
        self, epoch: int, context: AbstractContextManager[None]
    ) -> tuple[list[Tensor], bool]:
        """Train on all batches; return their losses, and whether all solves were exact enough."""
        losses, logs = [], []
        with context:
            for batch in self.batches(epoch):
                losses.append(self.step(*batch))
                logs.append(self.log)
        return losses, self.certificates.record_all(logs)

    def set_rate(self, epoch: int) -> None:
        """Set the learning rate of an epoch."""
        lr = self.config.lr * rate(self.config, epoch)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr

    @property
    def log(self) -> SolveLog:
        """How the equations of the last pass were solved."""
        log: SolveLog = self.together.model.solve_log
        return log

    def step(self, inputs: tuple[Any, ...], labels: Tensor, weight: Tensor) -> Tensor:
        """Train on a batch; return the loss of each run, and look at no number."""
        self.module.train()
        self.optimizer.zero_grad()
        loss = row_losses(self.module(*inputs), labels)
        loss = (loss * weight).sum(-1)
        self.fabric.backward(loss.sum())
        if self.config.clip is not None:
            self._clip(self.config.clip)
        self.optimizer.step()
        self.together.step_on_device()
        return loss.detach()

    def moving(self, clone: bool = False) -> list[Tensor]:
        """Everything that a step changes, in place."""
        states = self.optimizer.state.values()
        kept = [*self.together.stacks, self.together.offset]
        kept += [one for _, one in sorted(self.together.named_stacks()[1].items())]
        kept += [state[key] for state in states for key in ("exp_avg", "exp_avg_sq", "step")]
        return [one.detach().clone() if clone else one.detach() for one in kept]

    def put_back(self, before: Sequence[Tensor]) -> None:
        """Take back what :meth:`moving` was; moments that were not there yet become zero."""
        for place, now in enumerate(self.moving()):
            if place < len(before):
                now.copy_(before[place])
            else:
                now.zero_()

    def _clip(self, most: float) -> None:
        """Shorten the gradient of each run by itself."""
        count = len(self.runs)
        found = (stack.grad for stack in self.together.stacks)
        grads = [grad.view(count, -1) for grad in found if grad is not None]
        norm = torch.cat([grad.norm(dim=1, keepdim=True) for grad in grads], 1).norm(dim=1)
        factor = (most / norm.clamp(min=1e-12)).clamp(max=1).unsqueeze(1)
        for grad in grads:
            grad.mul_(factor)

    @torch.no_grad()
    def forward(self, inputs: tuple[Any, ...]) -> Tensor:
        """Return logits as they are for prediction, shape ``(runs, rows, classes)``."""
        logits = self.predict(inputs)
        self.certificates.record(self.log)
        return logits

    @torch.no_grad()
    def predict(self, inputs: tuple[Any, ...]) -> Tensor:
        """As :meth:`forward`, and look at no number."""
        self.module.eval()
        logits: Tensor = self.module(*inputs)
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
                losses += stack.detach().reshape(count, -1).square().sum(1).tolist()
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
