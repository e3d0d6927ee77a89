"""What was predicted, on standard output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mgnni.cli.terminal import console_for, paragraph
from mgnni.data.metric_names import readable
from mgnni.data.tables.messages import counted

MAX_CLASSES = 20  # shown after a prediction


def show_predictions(summary: Mapping[str, Any]) -> None:
    """Print the path of the predictions, the run used, and the count of each class.

    Args:
        summary (Mapping[str, Any]): What ``mgnni predict --json`` prints.
    """
    console = console_for(80)
    split = "" if summary["split"] is None else f"split {summary['split']}, "
    which = f"the model of {split}seed {summary['seed']}"
    if summary["best_of"] > 1:
        which += f", best of {summary['best_of']} on validation"
    rows = counted(summary["rows"], "row")
    console.print(f"\n  {rows} by {which}: {summary['output']}\n", soft_wrap=True)
    for name, one in summary.get("numbers", {}).items():
        mean, low, high = (readable(one[key]) for key in ("mean", "min", "max"))
        spread = f"mean {mean}, from {low} to {high}"
        paragraph(console, f"{name}: {spread}")
    counts = sorted(summary["predicted"].items(), key=lambda pair: -pair[1])
    for name, count in counts[:MAX_CLASSES]:
        console.print(f"  {count:8d}  {name}", soft_wrap=True)
    if len(counts) > MAX_CLASSES:
        console.print(f"            and {len(counts) - MAX_CLASSES} less frequent classes")
    console.print()
    if summary["threshold"] is not None:
        name, value = list(summary["predicted"])[1], summary["threshold"]
        hint = "" if value == 0.5 else "; --threshold 0.5 for the more probable class"
        paragraph(console, f"{name!r} where its probability exceeds {value:.4g}{hint}")
    for warning in summary["warnings"]:
        paragraph(console, f"warning: {warning}", style="bold yellow")
    for note in summary["notes"]:
        paragraph(console, f"note: {note}", style="dim")
