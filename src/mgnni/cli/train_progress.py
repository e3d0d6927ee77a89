"""Progress of a training on standard error, with an estimate of the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from mgnni.train.experiment import Experiment
from mgnni.train.runs import Epoch

LINE_EVERY = 15.0  # seconds, where there is no terminal
BESIDE_BAR = 68  # columns that the words and numbers beside the bar may need


@contextmanager
def follow_training(experiment: Experiment) -> Iterator[Clock]:
    """Yield what the training calls after every epoch; a terminal sees a bar, a log sees lines."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Clock(experiment, _lines(console))
        return
    with Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=min(max(console.width - BESIDE_BAR, 8), 32)),
        MofNCompleteColumn(),
        TextColumn("epochs  {task.fields[state]}"),
        console=console,
        transient=True,
        refresh_per_second=8,
    ) as progress:
        bar = progress.add_task("training", total=experiment.config.epochs, state="")

        def show(epoch: Epoch, clock: Clock) -> None:
            progress.update(
                bar,
                completed=epoch.epoch,
                description=clock.where(epoch),
                state=clock.state(epoch),
            )

        yield Clock(experiment, show)


class Clock:
    """Hears of every epoch; knows how long one takes, and how many there may still be."""

    def __init__(self, experiment: Experiment, show: Callable[[Epoch, Clock], None]) -> None:
        self.experiment = experiment
        self.epochs = 0  # heard of
        self._show = show
        self._pace: float | None = None  # seconds an epoch of one run, a moving mean
        self._last: float | None = None

    def __call__(self, epoch: Epoch) -> None:
        """Take in an epoch, and have it shown."""
        now = time.perf_counter()
        if self._last is not None:
            pace = (now - self._last) / len(epoch.runs)
            self._pace = pace if self._pace is None else 0.95 * self._pace + 0.05 * pace
        self._last = now
        self.epochs += 1
        self._show(epoch, self)

    def where(self, epoch: Epoch) -> str:
        """Which runs are in training."""
        runs, training = len(self.experiment.runs), len(epoch.runs)
        if runs == 1:
            return "training"
        return f"run {epoch.finished + 1} of {runs}" if training == 1 else f"{training} runs"

    def state(self, epoch: Epoch) -> str:
        """How good the runs are, and when they may be done."""
        parts = []
        if epoch.val_metric:
            mean = sum(epoch.best_metric) / len(epoch.best_metric)
            parts.append(f"val {100 * mean:.1f} %")
        if self._pace is not None:
            parts.append(f"{self._left(epoch)} left")
        return "  ".join(parts)

    def _left(self, epoch: Epoch) -> str:
        """Between what patience allows if nothing improves, and all epochs of all runs."""
        waiting = len(self.experiment.runs) - epoch.finished - len(epoch.runs)
        pace = self._pace or 0.0
        most = ((epoch.epochs - epoch.epoch) * len(epoch.runs) + epoch.epochs * waiting) * pace
        patience = self.experiment.config.patience
        if patience is None or not epoch.val_metric:
            return span(most)
        least = ((patience - epoch.waited) * len(epoch.runs) + patience * waiting) * pace
        soon, late = span(min(least, most)), span(most)
        return late if soon == late else f"{soon} to {late}"


def span(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _lines(console: Console) -> Callable[[Epoch, Clock], None]:
    said = time.perf_counter()

    def show(epoch: Epoch, clock: Clock) -> None:
        nonlocal said
        if time.perf_counter() - said > LINE_EVERY:
            said = time.perf_counter()
            console.print(
                f"{clock.where(epoch)}, epoch {epoch.epoch} of {epoch.epochs}, "
                + clock.state(epoch).replace("  ", ", "),
                soft_wrap=True,
            )

    return show
