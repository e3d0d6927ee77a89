"""How models are shown on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from mgnni.cli.dataset_screen import console_for

TITLES = {
    "implicit": "Implicit: states that solve an equation",
    "explicit": "Explicit: layers",
    "floor": "Floors: what the features alone can do",
}


def show_models(found: Sequence[Mapping[str, Any]]) -> None:
    """Print one row a model, by kind."""
    console = console_for()
    for kind, title in TITLES.items():
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for one in found:
            if one["kind"] == kind:
                table.add_row(one["name"], one["equation"])
        console.print(title, style="bold")
        console.print(table)
        console.print()
    console.print("mgnni models NAME tells all about one; mgnni train DATA --model NAME trains it.")


def show_model(found: Mapping[str, Any]) -> None:
    """Print all about one model."""
    console = console_for()
    console.print(found["title"], style="bold")
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="bold", no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("equation", found["equation"])
    facts.add_row("paper", found["paper"])
    facts.add_row("differs", found["differs"])
    facts.add_row("in MGNNI's", ", ".join(found["tables"]) or "no table")
    facts.add_row("class", found["home"].replace(":", "."))
    options = (f"{name}={_shown(default)}" for name, default in found["options"].items())
    facts.add_row("options", ", ".join(options))
    for place, (name, values) in enumerate(found["search"].items()):
        facts.add_row("" if place else "search", f"{name}: {', '.join(map(_shown, values))}")
    console.print(facts)


def _shown(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return "{" + ", ".join(map(_shown, value)) + "}"
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
