"""What a training shows on standard output when it is done."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mgnni.cli.train_progress import span
from mgnni.cli.wording import small
from mgnni.train.report import to_json

MARKED = (
    "chosen with the labels it is tested on: no estimate for new data, and comparable only with "
    "numbers by the same rule"
)


def show_training(
    report: Mapping[str, Any],
    folder: Path,
    data: Sequence[str],
    notes: Sequence[str],
    *,
    anew: bool,
    as_json: bool,
) -> None:
    """Print the table, the score with its rule, and what was saved; or the report alone.

    Args:
        report: of the training.
        folder: where it was saved.
        data: what it was called on the command line, with options of its own.
        notes: what a reader should know about the data.
        anew: whether something was trained, or all of it had been before.
        as_json: the report alone.
    """
    if as_json:
        sys.stdout.write(to_json(report))
        return
    console = Console(highlight=False, markup=False)
    console.print(runs_table(report))
    say(console, score_line(report), "bold")
    rule, mark = report["protocol"], report["protocol"]["mark"]
    say(console, f"by rule {rule['rule']}: {rule['description']}")
    if mark:
        say(console, f"{mark} {MARKED}")
    if report["solver"]["forward"]["solves"]:
        say(console, solver_line(report["solver"]))
    for note in notes:
        say(console, f"note: {note}", "dim")
    done = f"after {span(report['seconds'])}" if anew else "before: nothing was left to train"
    # Not wrapped: a path, and a command to copy.
    console.print(f"\n  Saved model.pt, report.json and log.jsonl {done}: {folder}", soft_wrap=True)
    again = shlex.join(["mgnni", "predict", str(folder), *data])
    console.print(f"  Next: {again}", soft_wrap=True)


def say(console: Console, text: str, style: str = "") -> None:
    """Print a paragraph with a margin, broken between words."""
    console.print(Padding(Text(text, style), (0, 0, 0, 2), expand=False))


def score_line(report: Mapping[str, Any]) -> str:
    """The score, as it may be quoted."""
    score, mark = report["score"], report["protocol"]["mark"]
    value, of = f"{100 * score['mean']:.2f}", "one run"
    if score["std"] is not None:
        value += f" ± {100 * score['std']:.2f}"
        of = f"mean ± standard deviation of {score['n']} runs"
    return f"{report['dataset']}: test {report['metric']} {value} %{mark} ({of})"


def solver_line(solver: Mapping[str, Any]) -> str:
    """How exactly the equations were solved."""
    there, back = solver["forward"], solver["backward"]
    bounds = [one["relative_error_bound"] for one in (there, back)]
    certified = "no contraction proven, so no error certified"
    if None not in bounds:
        certified = (
            f"certified relative error at most {small(bounds[0])} (states), {small(bounds[1])} "
            "(gradients)"
        )
    return (
        f"{there['solves'] + back['solves']} equations solved, "
        f"{there['failures'] + back['failures']} missed their tolerance; {certified}"
    )


def runs_table(report: Mapping[str, Any]) -> Table:
    """One row a run."""
    metric, mark = report["metric"], report["protocol"]["mark"]
    table = Table(box=SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for name in (" split", "seed", "epochs", "chosen epoch", "validation %", "test %"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in report["runs"]:
        val = run["val"].get(metric)
        table.add_row(
            str(run["split"]),
            str(run["seed"]),
            str(run["epochs"]),
            str(run["reported"]["epoch"]),
            "–" if val is None else f"{100 * val:.2f}",
            f"{100 * run['reported'][metric]:.2f}{mark}",
        )
    return table
