"""Progress of a training on standard error, with an estimate of the time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from mgnni.train.training import Epoch, OnEpoch, Plan

LINE_EVERY = 15.0  # seconds, where there is no terminal


@contextmanager
def follow_training(plan: Plan) -> Iterator[OnEpoch]:
    """Yield what the training calls after every epoch; a terminal sees a bar, a log sees lines."""
    console = Console(stderr=True, highlight=False)
    clock = Clock(plan)
    if not console.is_terminal:
        yield _lines(console, clock)
        return
    with Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("epochs   {task.fields[state]}"),
        console=console,
        transient=True,
        refresh_per_second=8,
    ) as progress:
        bar = progress.add_task("training", total=plan.config.epochs, state="")

        def on_epoch(epoch: Epoch) -> None:
            clock.tick(epoch)
            progress.update(
                bar,
                completed=epoch.epoch,
                description=clock.where(epoch),
                state=clock.state(epoch),
            )

        yield on_epoch


class Clock:
    """Knows how long an epoch takes, and how many there may still be."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._pace: float | None = None  # seconds an epoch of one run, a moving mean
        self._last: float | None = None

    def tick(self, epoch: Epoch) -> None:
        """Take in an epoch."""
        now = time.perf_counter()
        if self._last is not None:
            pace = (now - self._last) / len(epoch.runs)
            self._pace = pace if self._pace is None else 0.95 * self._pace + 0.05 * pace
        self._last = now

    def where(self, epoch: Epoch) -> str:
        """Which runs are in training."""
        splits = sorted({run.split for run in epoch.runs})
        if len(epoch.runs) > 1:
            return f"{len(epoch.runs)} runs of {len(self.plan.runs)}"
        return f"split {splits[0]}, seed {epoch.runs[0].seed}"

    def state(self, epoch: Epoch) -> str:
        """How good the runs are, and when they may be done."""
        parts = []
        if epoch.val_metric:
            mean = sum(epoch.best_metric) / len(epoch.best_metric)
            parts.append(f"best validation {100 * mean:.1f} %")
        if self._pace is not None:
            parts.append(f"time left {self._left(epoch)}")
        return ", ".join(parts)

    def _left(self, epoch: Epoch) -> str:
        """Between what patience allows if nothing improves, and all epochs of all runs."""
        waiting = len(self.plan.runs) - epoch.finished - len(epoch.runs)
        pace = self._pace or 0.0
        most = ((epoch.epochs - epoch.epoch) * len(epoch.runs) + epoch.epochs * waiting) * pace
        patience = self.plan.config.patience
        if patience is None or not epoch.val_metric:
            return span(most)
        least = ((patience - epoch.waited) * len(epoch.runs) + patience * waiting) * pace
        return f"{span(min(least, most))} to {span(most)}"


def span(seconds: float) -> str:
    """A time in the unit that suits it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _lines(console: Console, clock: Clock) -> OnEpoch:
    said = time.perf_counter()

    def on_epoch(epoch: Epoch) -> None:
        nonlocal said
        clock.tick(epoch)
        if time.perf_counter() - said > LINE_EVERY:
            said = time.perf_counter()
            console.print(f"epoch {epoch.epoch}: {clock.where(epoch)}, {clock.state(epoch)}")

    return on_epoch
