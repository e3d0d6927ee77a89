"""Training steps, validation and best weights of runs that are trained side by side."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from mgnni.data.targets import target_scale
from mgnni.data.task import Task
from mgnni.distributed.mesh import ProcessMesh
from mgnni.errors import DivergenceError
from mgnni.implicit.linear import deferred
from mgnni.solve.result import SolveLog
from mgnni.train.certificates import Certificates
from mgnni.train.config import Config
from mgnni.train.ensemble import Ensemble, build_model
from mgnni.train.loss import number_losses, row_losses
from mgnni.train.runs import Run
from mgnni.train.schedule import lr_factor

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Batch = tuple[tuple[Tensor | None, ...], Tensor, Tensor]  # inputs; labels and weights per run


def prepared(graph: Data, config: Config) -> Data:
    """Return a copy of a graph, made undirected if the configuration asks for it."""
    graph = graph.clone()
    if config.undirected:
        graph.edge_index, graph.edge_weight = to_undirected(
            graph.edge_index, graph.edge_weight, num_nodes=graph.num_nodes, reduce="max"
        )
    return graph


class Learner(ABC):
    """Runs of one configuration on one task, trained side by side.

    Args:
        task (Task): Graphs, labels and splits.
        config (Config): Model and training hyperparameters.
        runs (Sequence[Run]): Splits and seeds; logits have shape ``(runs, rows, classes)``.
        fabric (Fabric): Device and precision.

    Attributes:
        mesh (ProcessMesh, optional): The processes that share a batch.
    """

    mesh: ProcessMesh | None = None

    def __init__(self, task: Task, config: Config, runs: Sequence[Run], fabric: Fabric) -> None:
        self.task, self.config, self.fabric = task, config, fabric
        self.certificates = Certificates()
        self.ensemble = Ensemble(self._build, runs)
        if task.regression:
            self._standardize()
        if config.precision == "64":
            self.ensemble.double()
        on_cuda = fabric.device.type == "cuda"
        optimizer = torch.optim.Adam(
            self.ensemble.parameters(),
            lr=torch.tensor(config.lr) if on_cuda else config.lr,  # captured steps read a tensor
            weight_decay=config.weight_decay,
            fused=fabric.device.type in ("cpu", "cuda"),
            capturable=on_cuda,
        )
        self.module, self.optimizer = fabric.setup(self.ensemble, optimizer)
        for group in self.optimizer.param_groups if on_cuda else ():
            group["lr"] = group["lr"].to(fabric.device)
        self.best = self.ensemble.snapshot()

    def _build(self) -> nn.Module:
        task = self.task
        sizes = task.num_features, len(task.classes)
        return build_model(self.config, *sizes, task.level, task.regression)

    def _standardize(self) -> None:
        """Give every run the mean and deviation of its own training targets."""
        buffers = self.ensemble.named_buffer_stacks()
        for place, run in enumerate(self.runs):
            mean, deviation = target_scale(self.task.targets(run.split, "train"))
            buffers["target_scale.mean"][place] = mean
            buffers["target_scale.deviation"][place] = deviation

    def losses(self, outputs: Tensor, labels: Tensor, place: int | None = None) -> Tensor:
        """Return the loss of every row, for all runs or for the one in a place."""
        if not self.task.regression:
            return row_losses(outputs, labels)
        found = self.ensemble.named_buffer_stacks()["target_scale.deviation"]
        deviation = found.unsqueeze(1) if place is None else found[place]
        return number_losses(outputs, labels, deviation, self.task.metric == "mae")

    @property
    def runs(self) -> list[Run]:
        """The runs still in training."""
        return self.ensemble.runs

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the training batches of an epoch."""

    @abstractmethod
    def scores(self, part: str) -> list[Tensor]:
        """Return the logits of ``task.rows(split, part)`` for every run."""

    def train_epoch(self, epoch: int) -> list[float]:
        """Train for one epoch and return the mean loss of each run."""
        self.set_lr(epoch)
        # Processes that train together must all repeat an epoch, or none.
        defers = self.fabric.device.type == "cuda" and self.mesh is None
        before = self.step_state(clone=True) if defers else None
        losses, converged = self._steps(epoch, deferred() if before is not None else nullcontext())
        if not converged and before is not None:
            # Repeat the epoch with solves that are corrected, or fail with an error.
            self.restore_step_state(before)
            losses, _ = self._steps(epoch, nullcontext())
        self.ensemble.count_steps(len(losses))
        mean: list[float] = torch.stack(losses).mean(0).tolist()
        return mean

    def _steps(
        self, epoch: int, context: AbstractContextManager[None]
    ) -> tuple[list[Tensor], bool]:
        """Train on all batches; return the losses, and whether all solves converged."""
        losses, logs = [], []
        with context:
            for batch in self.batches(epoch):
                losses.append(self.step(*batch))
                logs.append(self.log)
        return losses, self.certificates.record_all(logs)

    def set_lr(self, epoch: int) -> None:
        """Set the learning rate of an epoch."""
        lr = self.config.lr * lr_factor(self.config, epoch)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr

    def all_certificates(self) -> Certificates:
        """Return the certificates of all solves, including those of other processes."""
        return self.certificates

    @property
    def log(self) -> SolveLog:
        """Solver statistics of the last pass."""
        log: SolveLog = self.ensemble.model.solve_log
        return log

    def step(self, inputs: tuple[Any, ...], labels: Tensor, weight: Tensor) -> Tensor:
        """Train on a batch; return the loss of each run, without host-device synchronisation."""
        self.module.train()
        self.optimizer.zero_grad()
        loss = self.losses(self.module(*inputs), labels)
        loss = (loss * weight).sum(-1)
        self.fabric.backward(loss.sum())
        if self.mesh is not None:  # every process had a part of the loss
            self.mesh.sum_gradients(self.ensemble.stacks)
            loss = self.mesh.sum(loss.detach())
        if self.config.clip is not None:
            self._clip(self.config.clip)
        self.optimizer.step()
        self.ensemble.step_on_device()
        return loss.detach()

    def step_state(self, clone: bool = False) -> list[Tensor]:
        """Return all tensors that a step changes in place, or copies of them."""
        states = self.optimizer.state.values()
        kept = [*self.ensemble.stacks, self.ensemble.offset]
        kept += [one for _, one in sorted(self.ensemble.named_buffer_stacks().items())]
        kept += [state[key] for state in states for key in ("exp_avg", "exp_avg_sq", "step")]
        return [one.detach().clone() if clone else one.detach() for one in kept]

    def restore_step_state(self, before: Sequence[Tensor]) -> None:
        """Restore a :meth:`step_state`; moments that did not exist yet become zero."""
        for place, now in enumerate(self.step_state()):
            if place < len(before):
                now.copy_(before[place])
            else:
                now.zero_()

    def _clip(self, max_norm: float) -> None:
        """Clip the gradient norm of each run separately."""
        count = len(self.runs)
        found = (stack.grad for stack in self.ensemble.stacks)
        grads = [grad.view(count, -1) for grad in found if grad is not None]
        norm = torch.cat([grad.norm(dim=1, keepdim=True) for grad in grads], 1).norm(dim=1)
        factor = (max_norm / norm.clamp(min=1e-12)).clamp(max=1).unsqueeze(1)
        for grad in grads:
            grad.mul_(factor)

    @torch.no_grad()
    def forward(self, inputs: tuple[Any, ...]) -> Tensor:
        """Return logits in evaluation mode, shape ``(runs, rows, classes)``."""
        logits = self.predict(inputs)
        self.certificates.record(self.log)
        return logits

    @torch.no_grad()
    def predict(self, inputs: tuple[Any, ...]) -> Tensor:
        """As :meth:`forward`, without recording certificates, which may synchronise."""
        self.module.eval()
        logits: Tensor = self.module(*inputs)
        return logits

    def validate(self) -> list[tuple[float, float]]:
        """Return loss and metric of each run on its validation set."""
        found = []
        for place, scores in enumerate(self.scores("val")):
            run = self.runs[place]
            targets = self.task.targets(run.split, "val").to(scores.device)
            loss = float(self.losses(scores, targets, place).mean())
            found.append((loss, self.task.evaluate(scores, run.split, "val")[self.task.metric]))
        return found

    def check_finite(self, epoch: int, losses: Sequence[float] | None = None) -> None:
        """Raise an error that names the first run that diverged.

        Args:
            epoch (int): Number of the epoch.
            losses (Sequence[float], optional): Losses of all runs, repeated for each measurement.
                ``None`` checks the weights instead, after a pass that failed.
        """
        count = len(self.runs)
        what = "the loss"
        if losses is None:
            what, losses = "weights", []
            for stack in self.ensemble.stacks:  # squares, which the contraction needs finite
                losses += stack.detach().reshape(count, -1).square().sum(1).tolist()
        for place, run in enumerate(self.runs):
            if not all(math.isfinite(loss) for loss in losses[place::count]):
                raise DivergenceError(
                    f"training diverged: {what} of split {run.split}, seed {run.seed} overflowed "
                    f"in epoch {epoch}; lower lr (got {self.config.lr:g}), or limit the gradient "
                    "by clip"
                )

    def keep_best(self, places: Sequence[int]) -> None:
        """Store the current weights of these runs as their best."""
        if places:
            index = torch.tensor(places, device=self.ensemble.stacks[0].device)
            now = self.ensemble.named_stacks()
            for name, value in (now[0] | now[1]).items():
                self.best[name][index] = value.detach()[index]

    def best_of(self, place: int) -> dict[str, Tensor]:
        """Return the best weights of a run, as a ``state_dict`` on the CPU."""
        return {name: value[place].cpu().clone() for name, value in self.best.items()}

    def keep(self, places: Sequence[int]) -> None:
        """Drop all runs but these."""
        index = torch.tensor(places, device=self.ensemble.stacks[0].device)
        for state in self.optimizer.state.values():
            for key in ("exp_avg", "exp_avg_sq"):
                state[key] = state[key][index]
        self.ensemble.keep(places)
        self.best = {name: value[index] for name, value in self.best.items()}

    def use_best(self) -> None:
        """Load the best weights of every run, for evaluation."""
        self.ensemble.restore(self.best)

    def state(self) -> dict[str, Any]:
        """Return everything that training depends on, as tensors and plain data."""
        return {
            "parameters": self.ensemble.snapshot(),
            "best": self.best,
            "optimizer": self.optimizer.state_dict()["state"],
            "step": self.ensemble.step,
            "certificates": self.certificates.to_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Load a :meth:`state` of the same runs."""
        self.ensemble.restore(state["parameters"])
        self.best = {k: v.to(self.fabric.device) for k, v in state["best"].items()}
        own = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**own, "state": state["optimizer"]})
        self.ensemble.step = state["step"]
        self.certificates = Certificates.from_dict(state["certificates"])
