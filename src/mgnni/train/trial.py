"""One trial of a search: its runs are trained and validated, never tested."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mgnni.errors import ConvergenceError, DivergenceError, NotContractiveError
from mgnni.train.device import make_fabric, one_thread, settings_restored
from mgnni.train.experiment import Experiment
from mgnni.train.runs import Epoch, Run
from mgnni.train.training import OnEpoch, Training

# Of one point; others may do better.
FAILURES = (DivergenceError, ConvergenceError, NotContractiveError, torch.OutOfMemoryError)
# Called at a rung with the mean validation metric; returns whether the trial is pruned.
AtRung = Callable[[int, float], bool]


@dataclass(frozen=True)
class Outcome:
    """The result of a trial.

    Args:
        value (float, optional): Mean validation metric at the best epoch of each run; ``None`` if
            the trial failed or was pruned.
        loss (float, optional): Mean validation loss at these epochs.
        epochs (int): Number of epochs trained, over all runs.
        runs (int): Number of runs that were finished.
        error (str, optional): Why the trial failed.
    """

    value: float | None
    loss: float | None
    epochs: int
    runs: int
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the value as plain data."""
        found = {"loss": self.loss, "epochs": self.epochs, "runs": self.runs}
        return found if self.error is None else {**found, "error": self.error}


def mean_metric(values: Sequence[float]) -> float:
    """Return a mean, rounded so that means which differ by rounding errors only are ties."""
    return round(statistics.fmean(values), 12)


class Watch:
    """Follows a training: the validation results at the best epoch of each run, and the rungs.

    Args:
        training (Training): The training.
        unit (str, optional): What rungs count, ``"epochs"`` or ``"runs"``.
            (default: :obj:`"epochs"`)
        rungs (tuple[int, ...], optional): When to compare the trial with others.
            (default: :obj:`()`)

    Attributes:
        best: Validation metric and loss of every run at its best epoch so far.
    """

    def __init__(
        self, training: Training, unit: str = "epochs", rungs: tuple[int, ...] = ()
    ) -> None:
        self.training, self.unit, self.rungs = training, unit, list(rungs)
        self.best: dict[Run, tuple[float, float]] = {}
        self.epochs = 0

    def add(self, epoch: Epoch) -> None:
        """Record an epoch."""
        self.epochs += len(epoch.runs)
        for place, run in enumerate(epoch.runs):
            if epoch.improved[place]:
                self.best[run] = epoch.val_metric[place], epoch.val_loss[place]

    def reached(self) -> Iterator[tuple[int, float]]:
        """Yield the rungs that were reached in the last epoch, with the mean metric at each."""
        training, runs = self.training, self.training.experiment.runs
        finished = {one.run for one in training.finished}
        if len(finished) == len(runs):
            return
        done = training.epoch
        if self.unit == "runs":  # in the order of the experiment, the same for all trials
            done = next(k for k, run in enumerate(runs) if run not in finished)
        while self.rungs and self.rungs[0] <= done:
            rung = self.rungs.pop(0)
            yield rung, self.metric(runs if self.unit == "epochs" else runs[:rung])

    def metric(self, runs: Sequence[Run]) -> float:
        """Return the mean validation metric of some runs."""
        return mean_metric([self.best[run][0] for run in runs])

    def outcome(self, value: float | None = None, error: str | None = None) -> Outcome:
        """Return the result of the trial."""
        loss = statistics.fmean(one[1] for one in self.best.values()) if self.best else None
        return Outcome(value, loss, self.epochs, len(self.training.finished), error)


@settings_restored()
def run_trial(
    experiment: Experiment, unit: str, rungs: tuple[int, ...], at_rung: AtRung, on_epoch: OnEpoch
) -> Outcome:
    """Train and validate the runs of a trial.

    Args:
        experiment (Experiment): What to train, with ``test=False``.
        unit (str): What rungs count, ``"epochs"`` or ``"runs"``.
        rungs (tuple[int, ...]): When to compare the trial with others.
        at_rung (Callable[[int, float], bool]): Called at a rung with the mean validation metric so
            far; returns whether the trial is pruned.
        on_epoch (Callable[[Epoch], None]): Called after every epoch.
    """
    fabric = make_fabric(experiment.device, experiment.config.precision, experiment.deterministic)
    with one_thread(experiment.single_threaded(fabric.device)):
        training = Training(experiment, fabric)
        watch = Watch(training, unit, rungs)
        try:
            for epoch in training.epochs():
                watch.add(epoch)
                on_epoch(epoch)
                if any(at_rung(rung, value) for rung, value in watch.reached()):
                    return watch.outcome()
        except FAILURES as error:
            return watch.outcome(error=" ".join(str(error).split())[:200])
        return watch.outcome(watch.metric(experiment.runs))
