"""The training of one candidate model, continued at every rung; test data are not used."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from typing import Any

from mgnni.train.device import make_fabric, one_thread
from mgnni.train.experiment import Experiment
from mgnni.train.training import OnEpoch, Training
from mgnni.train.trial import FAILURES, Watch, mean_metric


class CandidateTraining:
    """The training of a candidate: for some epochs, and later for more of them.

    Args:
        experiment (Experiment): What to train, with ``test=False``.

    Attributes:
        error: Why the training failed; ``None`` if it did not.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.error: str | None = None
        self._watches: list[Watch] = []
        self._times: list[list[float]] = []  # seconds of every epoch, per group of runs

    def advance(self, epochs: int, on_epoch: OnEpoch | None = None) -> None:
        """Train every run up to an epoch, or until it stops by itself.

        Args:
            epochs (int): Number of the last epoch to train.
            on_epoch (Callable[[Epoch], None], optional): Called after every epoch.
                (default: :obj:`None`)
        """
        whole = self.experiment
        fabric = make_fabric(whole.device, whole.config.precision, whole.deterministic)
        with one_thread(whole.single_threaded(fabric.device)):
            try:
                if not self._watches:
                    for runs in whole.groups():
                        part = replace(whole, runs=tuple(runs))
                        self._watches.append(Watch(Training(part, fabric)))
                        self._times.append([])
                for watch, times in zip(self._watches, self._times, strict=True):
                    _train(watch, times, epochs, on_epoch)
            except FAILURES as error:
                self.error = " ".join(str(error).split())[:200]
                self._watches.clear()

    @property
    def value(self) -> float:
        """Mean validation metric at the best epoch of each run."""
        return mean_metric([one[0] for watch in self._watches for one in watch.best.values()])

    @property
    def loss(self) -> float:
        """Mean validation loss at these epochs."""
        return statistics.fmean(one[1] for watch in self._watches for one in watch.best.values())

    @property
    def epochs(self) -> int:
        """Number of epochs of the run that was trained longest."""
        return max(len(times) for times in self._times)

    @property
    def pace(self) -> float:
        """Seconds of an epoch, per run."""
        # A median: the first epoch prepares the graph.
        found = sum(statistics.median(times) for times in self._times)
        return found / len(self.experiment.runs)

    def state(self) -> dict[str, Any] | None:
        """Return the state of the training if there is a single run that has not stopped."""
        if len(self.experiment.runs) > 1 or self._watches[0].training.learner is None:
            return None
        return self._watches[0].training.state()


def _train(watch: Watch, times: list[float], epochs: int, on_epoch: OnEpoch | None) -> None:
    training = watch.training
    if training.epoch >= epochs or training.group == len(training.groups):
        return
    last = time.perf_counter()
    for epoch in training.epochs():
        now = time.perf_counter()
        times.append(now - last)
        last = now
        watch.add(epoch)
        if on_epoch is not None:
            on_epoch(epoch)
        if training.epoch >= epochs:
            break
