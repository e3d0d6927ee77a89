"""``mgnni models``: which models have a name, and what they compute."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields
from json import dumps
from typing import Any

from mgnni.cli.datasets import Name
from mgnni.models.catalog import MODELS, find_model
from mgnni.models.entry import ModelEntry


@dataclass(frozen=True)
class Models:
    """List the models, or tell all about one.

    Without a name: every model with its equation. With a name also its paper, where it differs
    from the code of its authors, its options, and the values that are worth a search.

    All of them are trained by mgnni train DATA --model NAME, by the same loop and the same rules.

    Example: mgnni models
    Example: mgnni models gcnii
    """

    name: Name = ""
    """Which one; all are listed if it is left out."""
    json: bool = False
    """Print everything as JSON, and nothing else, to standard output."""
    debug: bool = False
    """Show the traceback of an error."""

    def run(self) -> None:
        """Show."""
        found = described(find_model(self.name)) if self.name else {"models": listed()}
        if self.json:
            sys.stdout.write(dumps(found, indent=2, ensure_ascii=False) + "\n")
            return
        from mgnni.cli.model_screen import show_model, show_models

        if self.name:
            show_model(found)
        else:
            show_models(found["models"])


def listed() -> list[dict[str, Any]]:
    """What can be said without importing anything."""
    return [{**asdict(entry), "tables": list(entry.tables)} for entry in MODELS.values()]


def described(entry: ModelEntry) -> dict[str, Any]:
    """All that is known of one model."""
    from mgnni.train.config import options_class
    from mgnni.train.presets import space_for

    options = {one.name: one.default for one in fields(options_class(entry.name))}
    space = {name: list(values) for name, values in space_for(entry.name).items()}
    return {
        **asdict(entry),
        "tables": list(entry.tables),
        "options": options,
        "search": space,
    }
