"""``mgnni models``: the models by name."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from json import dumps
from typing import Any, ClassVar

from mgnni.cli.arguments import Command
from mgnni.models.catalog import MODELS, ModelEntry, find_model


@dataclass(frozen=True, kw_only=True)
class Models(Command):
    """List the models, or describe one of them.

    Without NAME: every model with its equation. With NAME also its paper, the differences from
    the authors' code, its options, and the values worth a hyperparameter search.

    Train any of them with mgnni train DATA --model NAME.

    Example: mgnni models
    Example: mgnni models gcnii
    """

    renamed: ClassVar[Mapping[str, str]] = {"model": "NAME"}

    name: str = field(
        default="", metadata={"metavar": "NAME", "positional": True, "unset": "list all"}
    )
    """Name of a model."""

    def run(self) -> None:
        """Print one model or all."""
        if self.name:
            found = described(find_model(self.name))
        else:
            found = {"models": [_plain(entry) for entry in MODELS.values()]}
        if self.json:
            sys.stdout.write(dumps(found, indent=2, ensure_ascii=False) + "\n")
            return
        from mgnni.cli.terminal import show_model, show_models

        (show_model if self.name else show_models)(found)


def _plain(entry: ModelEntry) -> dict[str, Any]:
    changed = {"defaults": dict(entry.defaults), "trained": dict(entry.trained)}
    return {**asdict(entry), "tables": list(entry.tables), **changed}


def described(entry: ModelEntry) -> dict[str, Any]:
    """Return everything known about one model."""
    from mgnni.train.config import options_class
    from mgnni.train.presets import space_for

    return {
        **_plain(entry),
        "options": {one.name: one.default for one in fields(options_class(entry.name))},
        "search": {name: list(values) for name, values in space_for(entry.name).items()},
    }
