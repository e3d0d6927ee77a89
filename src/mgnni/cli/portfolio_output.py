"""The choice of a model by ``mgnni train`` in the terminal: the plan, progress and result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mgnni.cli.terminal import console_for, paragraph, span
from mgnni.data.metric_names import shown, unit
from mgnni.train.auto import Chosen, OnCandidateEpoch, choose
from mgnni.train.experiment import Experiment
from mgnni.train.runs import Epoch


def choose_model(
    experiment: Experiment,
    changes: Mapping[str, Any],
    output: Path,
    resume: bool,
    minutes: float | None,
    json: bool,
) -> Chosen:
    """Compare models with a plan before and a table after it.

    Args:
        experiment (Experiment): All runs.
        changes (Mapping[str, Any]): Options that were given.
        output (Path): Folder of the training.
        resume (bool): Whether to continue the comparison in it.
        minutes (float, optional): Time for everything.
        json (bool): Whether standard output is for JSON only.
    """
    console = console_for(80, stderr=json)
    with follow_comparison() as follow:
        choice = choose(
            experiment,
            changes,
            output,
            resume,
            minutes,
            on_start=lambda record: show_plan(console, record),
            on_epoch=follow,
        )
    show_comparison(console, choice.experiment.portfolio or {})
    return choice


def show_plan(console: Console, record: Mapping[str, Any]) -> None:
    """Print what will be compared, and how long it may take."""
    names = ", ".join(one["name"] for one in record["candidates"])
    paragraph(
        console,
        f"No --model given. Comparing {names} by {record['metric']} on the validation set of "
        f"{_splits(record)}, then training the best one. Budget: {_minutes(record, 'minutes')}, of "
        f"which {_minutes(record, 'comparing')} to compare; --budget MINUTES changes it.",
    )
    for name, reason in record["left_out"].items():
        paragraph(console, f"{name} is left out: {reason}", style="dim")


def show_comparison(console: Console, record: Mapping[str, Any]) -> None:
    """Print the validation score of every candidate, and which one was chosen."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column(" model")
    metric = record["metric"]
    for name in ("epochs", f"validation{unit(metric)}", "s / epoch"):
        table.add_column(name, justify="right")
    table.add_column("")
    for one in record["candidates"]:
        if one["validation"] is None:
            table.add_row(f" {one['name']}", "", "failed", "", one["error"])
            continue
        score, pace = shown(metric, one["validation"]), f"{one['seconds_per_epoch']:.3g}"
        mark = "chosen" if one["name"] == record["chosen"] else ""
        table.add_row(f" {one['name']}", str(one["epochs"]), score, pace, mark)
    console.print(table)
    paragraph(
        console,
        f"Chosen: {record['chosen']}, the best {record['metric']} on the validation set of "
        f"{_splits(record)}, after {span(record['seconds'])}. Training it for at most "
        f"{record['epochs']} epochs.",
    )
    for note in record["notes"]:
        paragraph(console, f"note: {note}")


@contextmanager
def follow_comparison() -> Iterator[OnCandidateEpoch]:
    """Yield the callback of a comparison; a terminal shows the candidate and its epoch."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda name, epoch: None
        return
    with console.status("comparing models") as status:
        yield _shown(status.update)


def _shown(update: Callable[[str], None]) -> OnCandidateEpoch:
    def show(name: str, epoch: Epoch) -> None:
        best = sum(epoch.best_metric) / len(epoch.best_metric)
        value = f"{shown(epoch.metric, best, digits=1)}{unit(epoch.metric)}"
        update(f"{name}, epoch {epoch.epoch}, val {value}")

    return show


def _splits(record: Mapping[str, Any]) -> str:
    splits = record["splits"]
    return f"split{'s' * (len(splits) > 1)} {', '.join(map(str, splits))}"


def _minutes(record: Mapping[str, Any], name: str) -> str:
    return f"{record['budget'][name]:.3g} min"
