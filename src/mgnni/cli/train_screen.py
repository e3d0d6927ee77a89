"""What a training shows on standard output when it is done."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mgnni.cli.train_progress import span
from mgnni.train.report import to_json


def show_training(
    report: Mapping[str, Any], folder: Path, notes: Sequence[str], *, as_json: bool
) -> None:
    """Print the table, the score with its rule, and what was saved; or the report alone."""
    if as_json:
        sys.stdout.write(to_json(report))
        return
    console = Console(highlight=False)
    console.print(runs_table(report))
    protocol, solver = report["protocol"], report["solver"]
    console.print(f"  [bold]{score_line(report)}[/bold]", soft_wrap=True)
    mark = f"{protocol['mark']} " if protocol["mark"] else ""
    console.print(f"  {mark}rule {protocol['rule']}: {protocol['description']}", soft_wrap=True)
    console.print(
        f"  {solver['forward']['solves'] + solver['backward']['solves']} equations solved, "
        f"{solver['forward']['failures'] + solver['backward']['failures']} missed their "
        "tolerance; certified relative error at most "
        f"{solver['forward']['relative_error_bound']:.0e} (states), "
        f"{solver['backward']['relative_error_bound']:.0e} (gradients)",
        soft_wrap=True,
    )
    for note in notes:
        console.print(f"  [dim]note: {note}[/dim]", soft_wrap=True, markup=True)
    console.print(
        f"\n  Saved model.pt, report.json and log.jsonl in {folder} after "
        f"{span(report['seconds'])}.\n  Next: mgnni predict {folder} GRAPH",
        soft_wrap=True,
    )


def score_line(report: Mapping[str, Any]) -> str:
    """The score, as it may be quoted."""
    score, mark = report["score"], report["protocol"]["mark"]
    spread = f" ± {100 * score['std']:.2f}" if score["std"] is not None else ""
    runs = "run" if score["n"] == 1 else "runs"
    return (
        f"{report['dataset']}: test {report['metric']} {100 * score['mean']:.2f}{spread} %{mark} "
        f"over {score['n']} {runs}"
    )


def runs_table(report: Mapping[str, Any]) -> Table:
    """One row a run."""
    metric = report["metric"]
    table = Table(box=SIMPLE_HEAD, padding=(0, 2), pad_edge=False)
    for name in ("  split", "seed", "epochs", "chosen epoch", f"validation {metric}", "test"):
        table.add_column(name, justify="right")
    for run in report["runs"]:
        val = run["val"].get(metric)
        table.add_row(
            str(run["split"]),
            str(run["seed"]),
            str(run["epochs"]),
            str(run["reported"]["epoch"]),
            "–" if val is None else f"{100 * val:.2f}",
            f"{100 * run['reported'][metric]:.2f}{report['protocol']['mark']}",
        )
    return table
