"""What a prediction shows on standard output when it is done."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from mgnni.cli.train_screen import say
from mgnni.train.report import to_json

MOST_SHOWN = 20  # classes


def show_predictions(summary: Mapping[str, Any], *, as_json: bool) -> None:
    """Print where the table is, who predicted, and how often each class; or all as JSON."""
    if as_json:
        sys.stdout.write(to_json(summary))
        return
    console = Console(highlight=False, markup=False)
    which = f"the model of split {summary['split']}, seed {summary['seed']}"
    if summary["best_of"] > 1:
        which += f", best of {summary['best_of']} on validation"
    # Not wrapped: a path.
    console.print(f"\n  {summary['rows']} rows by {which}: {summary['output']}\n", soft_wrap=True)
    often = sorted(summary["predicted"].items(), key=lambda pair: -pair[1])
    for name, count in often[:MOST_SHOWN]:
        console.print(f"  {count:8d}  {name}", soft_wrap=True)
    if len(often) > MOST_SHOWN:
        console.print(f"            and {len(often) - MOST_SHOWN} classes more, none more often")
    console.print()
    for note in summary["notes"]:
        say(console, f"note: {note}", "dim")
