"""One run of a training: its random seeds, its early stopping, its progress and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mgnni.data.metric_names import LOWER_IS_BETTER, gain
from mgnni.data.rules import RunHistory
from mgnni.train.config import Config

INITIAL, DROPOUT, ORDER = 1, 2, 3  # random streams of a run
_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1


@dataclass(frozen=True)
class Run:
    """A split of the data, trained with one seed.

    All random numbers depend on these two only: not on other runs, the device or restarts.

    Args:
        split (int): Index of the split.
        seed (int): Random seed.
    """

    split: int
    seed: int

    def seed_for(self, *purpose: int) -> int:
        """Return a seed of 63 bits, different for every purpose."""
        return mix(self.seed, self.split, *purpose)


def mix(*numbers: int) -> int:
    """Hash integers to one of 63 bits (SplitMix64)."""
    state = 0
    for number in numbers:
        state = (state + number + _GOLDEN) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state >> 1


def dropout_keys(runs: Sequence[Run], layers: int, device: torch.device) -> Tensor:
    """Return the keys of all dropout layers at the first step.

    Args:
        runs (Sequence[Run]): The runs.
        layers (int): Number of dropout layers.
        device (torch.device): Where the keys are needed.

    Shapes:
        - **output:** ``(runs, layers)``, 64-bit
    """
    rows = [[run.seed_for(DROPOUT, layer) for layer in range(layers)] for run in runs]
    return torch.tensor(rows, dtype=torch.long, device=device).view(len(runs), layers)


def dropout_offset(step: int) -> int:
    """Return what a step adds to the keys, as a signed integer: distinct for all steps."""
    return (_GOLDEN * step + 2**63) % 2**64 - 2**63


def graph_order(run: Run, epoch: int, count: int) -> Tensor:
    """Return the order of the training graphs in an epoch.

    Args:
        run (Run): The run.
        epoch (int): Number of the epoch, from 1.
        count (int): Number of training graphs.

    Shapes:
        - **output:** ``(count,)``, a permutation
    """
    generator = torch.Generator().manual_seed(run.seed_for(ORDER, epoch))
    return torch.randperm(count, generator=generator)


def graph_batches(
    run: Run, epoch: int, count: int, batch_size: int, batches: int | None = None
) -> tuple[Tensor, ...]:
    """Return the training graphs of every batch of an epoch.

    Args:
        run (Run): The run.
        epoch (int): Number of the epoch, from 1.
        count (int): Number of training graphs.
        batch_size (int): Graphs per batch.
        batches (int, optional): Number of batches, each drawn from all graphs; ``None`` splits
            the order of the epoch, so that every graph is in one of them. (default: :obj:`None`)

    Shapes:
        - **output:** ``(batch_size,)`` or fewer per batch, 64-bit
    """
    if batches is None:
        return torch.split(graph_order(run, epoch, count), batch_size)
    generator = torch.Generator().manual_seed(run.seed_for(ORDER, epoch, 1))
    drawn = (torch.randperm(count, generator=generator) for _ in range(batches))
    return tuple(order[:batch_size] for order in drawn)


@dataclass
class EarlyStopping:
    """Selects the best epoch of a run on its validation set, and counts the patience.

    With ``"metric"`` the best metric counts, ties broken by loss; with ``"loss"`` the lowest loss.
    With ``"authors"`` an epoch is kept if its metric is the best so far, or equal to it at
    the lowest loss so far, and the patience restarts if either is at least as good as its best.

    Args:
        stopping (str): ``"metric"``, ``"loss"`` or ``"authors"``.
        patience (int, optional): Epochs without improvement before the run stops; ``None``
            never stops it.
        lower (bool, optional): Whether a lower metric is better. (default: :obj:`False`)
    """

    stopping: str
    patience: int | None
    lower: bool = False
    best_epoch: int = 0
    best_metric: float = float("-inf")
    best_loss: float = float("inf")
    kept_loss: float = float("inf")  # at the best epoch
    waited: int = 0

    @classmethod
    def from_config(cls, config: Config, metric: str = "accuracy") -> EarlyStopping:
        """Return the state at the start of a run."""
        lower = metric in LOWER_IS_BETTER
        worst = math.inf if lower else -math.inf
        return cls(config.stopping, config.patience, lower, best_metric=worst)

    @property
    def done(self) -> bool:
        """Whether the patience is exhausted."""
        return self.patience is not None and self.waited >= self.patience

    def update(self, epoch: int, loss: float, metric: float) -> bool:
        """Record an epoch; return whether it is the best so far.

        After the patience no epoch is selected, even if training goes on for a test curve.
        """
        if self.done:
            return False
        sign = -1.0 if self.lower else 1.0
        now, best = sign * metric, sign * self.best_metric
        if self.stopping == "authors":
            better = now > best or (now == best and loss <= self.best_loss)
            restarts = loss <= self.best_loss or now >= best
        elif self.stopping == "loss":
            better = restarts = loss < self.best_loss
        else:
            better = restarts = (now, -loss) > (best, -self.kept_loss)
        self.best_metric = sign * max(best, now)
        self.best_loss = min(self.best_loss, loss)
        self.waited = 0 if restarts else self.waited + 1
        if better:
            self.best_epoch, self.kept_loss = epoch, loss
        return better


@dataclass
class Epoch:
    """Losses and metrics of an epoch, for progress bars and the log.

    Attributes:
        group: Index of the group of runs in training.
        groups: Number of groups.
        epoch: Number of the epoch, from 1.
        epochs: Largest number of epochs.
        runs: The runs in training.
        loss: Training loss per run.
        val_loss: Validation loss per run; empty without a validation set.
        val_metric: Validation metric per run; empty without a validation set.
        best_metric: Best validation metric so far per run; empty without a validation set.
        waited: Smallest number of epochs without improvement, over all runs.
        finished: Number of runs that are finished.
        parts: If several processes train, the epochs of single groups since the last call; then
            ``epoch`` is the smallest number of all groups.
        metric: Name of the metric.
        improved: Whether this is the best epoch so far, per run.
    """

    group: int
    groups: int
    epoch: int
    epochs: int
    runs: list[Run]
    loss: list[float]
    val_loss: list[float]
    val_metric: list[float]
    best_metric: list[float]
    waited: int
    finished: int
    parts: list[Epoch] = field(default_factory=list)
    metric: str = "accuracy"
    improved: list[bool] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return a row of ``log.jsonl``."""
        return {
            "epoch": self.epoch,
            "split": [run.split for run in self.runs],
            "seed": [run.seed for run in self.runs],
            "loss": self.loss,
            "val_loss": self.val_loss,
            "val_metric": self.val_metric,
        }


@dataclass
class RunResult:
    """A run that was trained and evaluated.

    Attributes:
        run: Split and seed.
        selected_epoch: Epoch of the weights.
        epochs: Number of epochs trained.
        val: Metrics on the validation set at the selected epoch; empty without one.
        test: Metrics on the test set at the selected epoch; empty if it was not evaluated.
        test_curve: Metric on the test set after every epoch, for rules that need it.
        weights: ``state_dict`` of the model, with the shapes of its parameters.
        threshold: Probability of the second of two classes above which it is predicted, chosen on
            the validation set; ``None`` for accuracy, without validation rows, or for more classes.
        assessment: Classes, calibration and uncertainty on the test set at the selected epoch, see
            :meth:`mgnni.data.task.Task.assess`; ``None`` if it was not evaluated.
    """

    run: Run
    selected_epoch: int
    epochs: int
    val: dict[str, float]
    test: dict[str, float]
    test_curve: list[float] | None
    weights: dict[str, Tensor]
    threshold: float | None = None
    assessment: dict[str, Any] | None = None

    def history(self, metric: str) -> RunHistory:
        """Return what a rule needs to score the run."""
        curve = None if self.test_curve is None else tuple(self.test_curve)
        run, test = self.run, self.test[metric]
        return RunHistory(run.split, run.seed, self.selected_epoch, test, curve, bool(self.val))


def best_run(metric: str, val: Sequence[Mapping[str, float]]) -> int:
    """Return the run with the best validation metrics; the first one if several are equal."""
    values = [gain(metric, one[metric]) if metric in one else -math.inf for one in val]
    return values.index(max(values))
