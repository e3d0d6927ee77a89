"""What the quick start shows on standard output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mgnni.cli.palette import MODELS, NODES
from mgnni.cli.study import Settings
from mgnni.cli.wording import percent, small
from mgnni.train.report import to_json


def show_task(settings: Settings) -> None:
    """Say what will be learnt, and draw a chain."""
    data = settings.data(0)
    chains = 2 * settings.chains_per_class
    train = int(data.train_mask.sum()) // settings.length
    val = int(data.val_mask.sum()) // settings.length
    console = Console(highlight=False)
    text = Text("\n  ")
    for features in data.x[: settings.colored]:
        text.append("●", style=NODES[int(features.argmax())])
    tail = min(settings.length - settings.colored, 60)
    text.append("·" * tail + ("…" if tail < settings.length - settings.colored else ""), "dim")
    console.print(text, overflow="crop", no_wrap=True)
    console.print(
        f"\n  [bold]Colour counting.[/bold] A chain has {settings.length} nodes; the first "
        f"{settings.colored} carry one of two colours.\n"
        "  Every node, however far, shall name the colour that most of them have.\n"
        f"  {chains} chains a run: {train} to train on, {val} to choose the epoch, "
        f"{chains - train - val} to test on.\n"
    )


def show_result(report: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the table and what was saved, or the report alone."""
    if as_json:
        sys.stdout.write(to_json(report))
        return
    console = Console(highlight=False)
    console.print(result_table(report))
    files = report["files"]
    console.print(
        f"  Saved {files['picture']} and {files['report']} after {report['seconds']:.0f} s.",
        soft_wrap=True,
    )
    console.print(
        "  Next, in Python:\n"
        "      from mgnni import MGNNI\n"
        "      model = MGNNI(in_channels, hidden_channels, out_channels, scales=(1, 4, 8))\n"
        "      logits = model(x, edge_index)",
        soft_wrap=True,
    )


def result_table(report: Mapping[str, Any]) -> Table:
    """Accuracy by distance, and how far the solves can be trusted, one column a model."""
    models, config = report["models"], report["config"]
    table = Table(box=SIMPLE_HEAD, padding=(0, 2), pad_edge=False)
    table.add_column("  Test accuracy, %")
    for model, color in zip(models, MODELS, strict=True):
        table.add_column(model["name"], justify="right", header_style=f"bold {color}")

    def row(label: str, *cells: str, end: bool = False, style: str | None = None) -> None:
        table.add_row(f"  {label}", *cells, end_section=end, style=style)

    for index, part in enumerate(models[0]["by_distance"]):
        first, last = part["hops"]
        label = "among the coloured nodes" if last == 0 else f"{first} to {last} hops away"
        row(label, *(percent(model["by_distance"][index]) for model in models))
    row("all nodes", *(percent(m["test_accuracy"]) for m in models), style="bold")
    row(
        f"all nodes, solved to {small(config['exact_tol'])} in float64",
        *(percent(m["float64"]["test_accuracy"]) for m in models),
        end=True,
    )
    row("solver", *(", ".join(m["forward"]["solvers"]) for m in models))
    for label, direction, key in (
        (
            f"worst relative residual (tol {small(config['tol'])})",
            "forward",
            "relative_residual",
        ),
        ("certified relative error, states", "forward", "relative_error_bound"),
        ("certified relative error, gradients", "backward", "relative_error_bound"),
    ):
        row(label, *(f"{m[direction][key]:.1e}" for m in models))
    row("seconds", *(f"{m['seconds']:.0f}" for m in models))
    return table
