"""Progress and result of ``mgnni tune`` in the terminal."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from mgnni.cli.progress import LINE_EVERY
from mgnni.cli.terminal import console_for, paragraph, shown_value, span
from mgnni.data.metric_names import shown, unit
from mgnni.train.search import Progress

BEST = 5  # trials in the table
BESIDE_BAR = 60  # columns reserved for text and numbers


class SearchClock:
    """Estimates the time that a search will take."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.before: int | None = None  # trials that were done before

    def state(self, now: Progress) -> str:
        """Return the best value, and the time left if a trial was done."""
        if self.before is None:
            self.before = now.done
        parts = []
        if now.best is not None:
            value = shown(now.metric, now.best["value"])
            parts.append(f"best val {value}{unit(now.metric)}")
        done = now.done - self.before
        if done:
            each = (time.perf_counter() - self.start) / done
            parts.append(f"about {span(each * (now.trials - now.done))} left")
        return "  ".join(parts)


def current(now: Progress) -> str:
    """Return what the current trial is doing."""
    if not now.params:
        return "waiting for trials of other processes" if now.epoch is None else ""
    text = params_line(now.params)
    if now.epoch is None:
        return text
    return f"{text}: epoch {now.epoch.epoch} of at most {now.epoch.epochs}"


def params_line(params: Mapping[str, Any]) -> str:
    """Return hyperparameters in one line."""
    return ", ".join(f"{name} {shown_value(value)}" for name, value in params.items())


@contextmanager
def follow_search() -> Iterator[Callable[[Progress], None]]:
    """Yield the callback of a search; a terminal shows a bar, a log file shows lines."""
    console = Console(stderr=True, highlight=False)
    clock = SearchClock()
    if not console.is_terminal:
        yield _lines(console, clock)
        return
    bars = Bars(
        TextColumn("  trials"),
        BarColumn(bar_width=min(max(console.width - BESIDE_BAR, 8), 32)),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
    )
    bar = bars.add_task("", total=None, state="")
    line = Text(no_wrap=True, overflow="ellipsis")

    def show(now: Progress) -> None:
        bars.update(bar, total=now.trials, completed=now.done, state=clock.state(now))
        line.plain = f"  {current(now)}"

    shown = Group(bars, line)
    with Live(shown, console=console, transient=True, refresh_per_second=8):
        yield show


def _lines(console: Console, clock: SearchClock) -> Callable[[Progress], None]:
    last = time.perf_counter()

    def show(now: Progress) -> None:
        nonlocal last
        state = clock.state(now)
        if time.perf_counter() - last > LINE_EVERY:
            last = time.perf_counter()
            parts = [f"{now.done} of {now.trials} trials", *state.split("  "), current(now)]
            console.print(", ".join(part for part in parts if part), soft_wrap=True, markup=False)

    return show


def show_search(result: Mapping[str, Any], folder: Path, data: Sequence[str]) -> None:
    """Print the best trials, what was searched, and how to train with the result.

    Args:
        result (Mapping[str, Any]): The content of ``preset.json``.
        folder (Path): Where it was saved.
        data (Sequence[str]): The data and their options as given on the command line.
    """
    console = console_for(80)
    trials, budget, metric = result["trials"], result["budget"], result["metric"]
    best = [trial for trial in trials if trial["state"] == "complete"][:BEST]
    # What all of them share is below the table, which would otherwise be too wide.
    values = {name: [trial["params"][name] for trial in best] for name in result["space"]}
    searched = [name for name, every in values.items() if any(one != every[0] for one in every)]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in (" trial", *searched, "epochs", f"validation{unit(metric)}"):
        table.add_column(name, justify="right")
    for trial in best:
        params = (shown_value(trial["params"][name]) for name in searched)
        score = shown(metric, trial["value"])
        table.add_row(str(trial["trial"]), *params, str(trial["epochs"]), score)
    console.print(table)
    runs = len(budget["splits"]) * len(budget["seeds"])
    of = f"mean of {runs} runs" if runs > 1 else "one run"
    value = f"{shown(metric, result['validation'][metric])}{unit(metric)}"
    paragraph(
        console,
        f"{result['dataset']}, {result['model']}: validation {metric} {value} ({of})",
        style="bold",
    )
    paragraph(console, f"with {params_line(result['chosen'])}")
    counts = {state: sum(one["state"] == state for one in trials) for state in ("pruned", "failed")}
    ended = "".join(f", {count} {state}" for state, count in counts.items() if count)
    part = "all" if budget["points"] == len(trials) else f"of {budget['points']}"
    which = f"{part} combinations" if part == "all" else f"{part} combinations, at random"
    paragraph(console, f"{len(trials)} trials ({which}){ended}; the test set was not used")
    failed = [one["error"] for one in trials if one["state"] == "failed"]
    if failed:
        paragraph(console, f"note: the first failure: {failed[0]}", style="dim")
    # Not wrapped: a path, and a command to copy.
    when = f"after {span(result['seconds'])} of training"
    console.print(f"\n  Saved preset.json and journal.log {when}: {folder}", soft_wrap=True)
    preset = str(folder / "preset.json")
    following = shlex.join(["mgnni", "train", *data, "--preset", preset])
    console.print(f"  Next: {following}", soft_wrap=True)
