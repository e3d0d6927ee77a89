"""What ``mgnni bench`` shows: progress on standard error, tables on standard output."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mgnni.bench.row import ABSENT, MISSED, RIGHT, WRONG, Row

WIDTH = 130  # of a table, where the terminal does not say how wide it is
NOTE = 24  # of its last column, at least: the names of cases are folded before a note is
SAID = {MISSED: "not reached", WRONG: "wrong", ABSENT: "absent"}


def following(name: str, rows: Iterable[Row], *, quiet: bool) -> Iterator[Row]:
    """Hand on the rows, and tell of every case as it is done; how many there are is not known."""
    console = Console(stderr=True, highlight=False)
    start, case = time.perf_counter(), None
    for row in rows:
        if row.case != case and not quiet:
            case = row.case
            console.print(f"[dim]{name}: {case} ({time.perf_counter() - start:.0f} s)[/dim]")
        yield row


def show_table(stored: Mapping[str, Any]) -> None:
    """Print a table, one section a case."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    rows = stored["rows"]
    memory = any(row["memory"] is not None for row in rows)
    # Methods stay on their lines; the names of cases may be folded.
    table.add_column("", min_width=max((len(row["method"]) for row in rows), default=0) + 2)
    columns = ["time", "× textbook", "forward error", "gradient error", "tol"]
    for column in [*columns, *(["memory"] if memory else [])]:
        table.add_column(column, justify="right", no_wrap=True)
    longest = max((len(row["note"]) for row in rows), default=0)
    table.add_column("", overflow="fold", min_width=min(longest, NOTE))
    case = None
    for row in rows:
        if row["case"] != case:
            if case is not None:
                table.add_section()
            case = row["case"]
            table.add_row(f"[bold]{case}[/bold]")
        table.add_row(*_cells(row, memory), style="bold red" if row["verdict"] == WRONG else None)
    quick = ", quick: times mean little" if stored["quick"] else ""
    console.print(f"\n[bold]{stored['title']}[/bold]; {stored['device']}{quick}", soft_wrap=True)
    console.print(table)


def show_end(files: Sequence[Path], left_out: Sequence[str], *, pictures: bool) -> None:
    """Say what was saved, and what was not."""
    console = Console(highlight=False)
    if not pictures:
        console.print("No pictures without matplotlib; run: pip install matplotlib")
    if left_out:
        console.print(f"Left out, as too large for a CPU: {', '.join(left_out)}.", soft_wrap=True)
    console.print(f"Saved {', '.join(map(str, files))}.", soft_wrap=True)


def duration(seconds: float) -> str:
    """A time in the unit that suits it, with three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _cells(row: Mapping[str, Any], memory: bool) -> list[str]:
    errors = row["errors"] or {}
    right = row["verdict"] == RIGHT and row["seconds"] is not None
    cells = [
        f"  {row['method']}",
        duration(row["seconds"]) if right else SAID.get(row["verdict"], ""),
        "" if row["ratio"] is None else f"{row['ratio']:.2f}",
        *(f"{errors[key]:.0e}" if key in errors else "" for key in ("forward", "gradient")),
        "" if row["tol"] is None else f"{row['tol']:.0e}",
    ]
    if memory:
        cells.append("" if row["memory"] is None else f"{row['memory'] / 2**20:,.0f} MiB")
    return [*cells, row["note"]]
