"""Live progress on standard error, with an estimate of the time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from mgnni.cli.study import SCALES, OnEpoch, Settings
from mgnni.cli.wording import model_name


@contextmanager
def follow(settings: Settings) -> Iterator[OnEpoch]:
    """Yield what the study calls after every epoch; a terminal sees bars, a log sees lines."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(console, settings)
        return
    models = Progress(
        TextColumn("  {task.description}"),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("epochs   validation {task.fields[accuracy]}"),
        console=console,
    )
    total = Progress(
        TextColumn("  run {task.fields[run]} of {task.fields[runs]}, time left"),
        TimeRemainingColumn(),
        console=console,
    )
    width = max(len(model_name(scales)) for scales in SCALES)
    rows = [
        models.add_task(
            model_name(scales).ljust(width), total=settings.runs * settings.epochs, accuracy="–"
        )
        for scales in SCALES
    ]
    # An epoch costs about as much as it has equations.
    cost = settings.runs * settings.epochs * sum(len(scales) for scales in SCALES)
    everything = total.add_task("", total=cost, run=1, runs=settings.runs)

    def on_epoch(model: int, run: int, accuracy: float) -> None:
        models.update(rows[model], advance=1, accuracy=f"{100 * accuracy:.1f} %")
        total.update(everything, advance=len(SCALES[model]), run=run + 1)

    with Live(Group(models, total), console=console, transient=True, refresh_per_second=8):
        yield on_epoch


def _lines(console: Console, settings: Settings) -> OnEpoch:
    """One line for every tenth of the work, for a file or a continuous-integration log."""
    whole = settings.runs * settings.epochs * sum(len(scales) for scales in SCALES)
    start, done, said = time.perf_counter(), 0, 0

    def on_epoch(model: int, run: int, accuracy: float) -> None:
        nonlocal done, said
        done += len(SCALES[model])
        if 10 * done // whole > said:
            said = 10 * done // whole
            left = (time.perf_counter() - start) * (whole - done) / done
            console.print(
                f"{said * 10:3d} %  run {run + 1} of {settings.runs}, about {left:.0f} s left",
                highlight=False,
            )

    return on_epoch
