"""How datasets are shown on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from mgnni.data.storage import VARIABLE

WIDTH = 100  # of the table, where the terminal does not say how wide it is


def show_all(found: Mapping[str, Any]) -> None:
    """Print one row a dataset."""
    console = console_for()
    table = Table.grid(padding=(0, 2))
    table.show_header = True
    for column in ("name", "task"):
        table.add_column(column, no_wrap=True)
    for count in found["datasets"][0]["expected"]:
        table.add_column(count, no_wrap=True, justify="right")
    for column in ("metric", "on disk"):
        table.add_column(column, no_wrap=True)
    for entry in found["datasets"]:
        table.add_row(
            entry["name"],
            entry["level"],
            *(_number(count) for count in entry["expected"].values()),
            entry["metric"],
            "made" if entry["made_in_code"] else "yes" if entry["on_disk"] else "no",
            style=None if entry["on_disk"] else "dim",
        )
    console.print(table)
    console.print(
        f"\nDatasets lie in {found['folder']}; choose another folder with {VARIABLE}=FOLDER.\n"
        "mgnni datasets NAME tells all about one.",
        soft_wrap=True,
    )


def show_one(found: Mapping[str, Any]) -> None:
    """Print all about one dataset: its size, then everything else."""
    console = console_for()
    sizes = Table(box=SIMPLE_HEAD, pad_edge=False)
    sizes.add_column(found["name"], style="bold")
    sizes.add_column("expected", justify="right")
    sizes.add_column("on load", justify="right")
    measured = found["measured"] or {}
    for count, expected in found["expected"].items():
        sizes.add_row(count, _number(expected), _number(measured.get(count)))
    if measured:
        sizes.add_row("train / val / test", "", _parts(found["parts"]))
    console.print(sizes)

    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("task", f"{found['level']} classification, {found['metric']}")
    facts.add_row("on disk", _where(found))
    options = (f"{name}={default!r}" for name, default in found["options"].items())
    facts.add_row("options", ", ".join(options))
    facts.add_row("licence", found["licence"])
    facts.add_row("source", found["source"])
    for title, lines in (("beware", found["traps"]), ("notes", found.get("notes", []))):
        for index, line in enumerate(lines):
            facts.add_row("" if index else title, line)
    console.print(facts)


def console_for() -> Console:
    """A console that is wide enough where it is no terminal."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = WIDTH
    return console


def _number(count: int | None) -> str:
    return "" if count is None else f"{count:,}"


def _parts(parts: list[list[int]]) -> str:
    """The sizes of the parts, as ranges where the splits differ."""
    ranges = []
    for sizes in zip(*parts, strict=True):
        low, high = min(sizes), max(sizes)
        ranges.append(f"{low:,}" if low == high else f"{low:,}-{high:,}")
    return " / ".join(ranges)


def _where(found: Mapping[str, Any]) -> str:
    if found["made_in_code"]:
        return "made in code"
    if found["on_disk"]:
        return f"yes, {found['place']}"
    return f"no; {found['remedy'] or 'downloaded when it is first used'}"
