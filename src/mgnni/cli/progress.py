"""Progress of a training on standard error, with an estimate of the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from mgnni.cli.terminal import span
from mgnni.data.metric_names import shown, unit
from mgnni.train.runs import Epoch

LINE_EVERY = 15.0  # seconds between lines where there is no terminal
BESIDE_BAR = 68  # columns reserved for text and numbers


class Clock:
    """Counts epochs, measures how long one takes, and estimates the time left.

    Args:
        runs (int): Number of runs.
        patience (int, optional): Epochs without improvement after which a run stops.
        show (Callable): Called with each epoch and this clock.
        name (str, optional): What is trained. (default: :obj:`"training"`)
    """

    def __init__(
        self,
        runs: int,
        patience: int | None,
        show: Callable[[Epoch, Clock], None],
        name: str = "training",
    ) -> None:
        self.runs, self.patience, self.name = runs, patience, name
        self.epochs = 0
        self._show = show
        self._pace: float | None = None  # seconds per epoch and run, a moving average
        self._last: float | None = None

    def __call__(self, epoch: Epoch) -> None:
        """Record an epoch and show it."""
        now = time.perf_counter()
        if self._last is not None:
            pace = (now - self._last) / len(epoch.runs)
            self._pace = pace if self._pace is None else 0.95 * self._pace + 0.05 * pace
        self._last = now
        self.epochs += 1
        self._show(epoch, self)

    def current(self, epoch: Epoch) -> str:
        """Return which runs are being trained."""
        training = len(epoch.runs)
        if self.runs == 1 or self.name != "training":
            return self.name
        if training == 1:
            return f"run {epoch.finished + 1} of {self.runs}"
        return f"{training} runs" if training == self.runs else f"{training} of {self.runs} runs"

    def state(self, epoch: Epoch) -> str:
        """Return the validation score and the time left."""
        parts = []
        if epoch.val_metric:
            mean = sum(epoch.best_metric) / len(epoch.best_metric)
            parts.append(f"val {shown(epoch.metric, mean, digits=1)}{unit(epoch.metric)}")
        if self._pace is not None:
            parts.append(f"{self._left(epoch)} left")
        return "  ".join(parts)

    def _left(self, epoch: Epoch) -> str:
        """Return a range: from no further improvement to all epochs of all runs."""
        waiting = self.runs - epoch.finished - len(epoch.runs)
        pace = self._pace or 0.0
        most = ((epoch.epochs - epoch.epoch) * len(epoch.runs) + epoch.epochs * waiting) * pace
        if self.patience is None or not epoch.val_metric:
            return span(most)
        least = (self.patience - epoch.waited) * len(epoch.runs) + self.patience * waiting
        soon, late = span(min(least * pace, most)), span(most)
        return late if soon == late else f"{soon} to {late}"


@contextmanager
def follow_training(
    runs: int, epochs: int, patience: int | None, name: str = "training"
) -> Iterator[Clock]:
    """Yield the callback of a training; a terminal shows a bar, a log file shows lines."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield Clock(runs, patience, _lines(console), name)
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
        bar = progress.add_task(name, total=epochs, state="")

        def show(epoch: Epoch, clock: Clock) -> None:
            state, current = clock.state(epoch), clock.current(epoch)
            progress.update(bar, completed=epoch.epoch, description=current, state=state)

        yield Clock(runs, patience, show, name)


def _lines(console: Console) -> Callable[[Epoch, Clock], None]:
    last = time.perf_counter()

    def show(epoch: Epoch, clock: Clock) -> None:
        nonlocal last
        if time.perf_counter() - last > LINE_EVERY:
            last = time.perf_counter()
            state = clock.state(epoch).replace("  ", ", ")
            line = f"{clock.current(epoch)}, epoch {epoch.epoch} of {epoch.epochs}, {state}"
            console.print(line, soft_wrap=True)

    return show
