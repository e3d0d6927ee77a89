"""What is known of a model before it is built: its equation, its paper, its options."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

KINDS = ("implicit", "explicit", "floor")


@dataclass(frozen=True)
class ModelEntry:
    """A model that has a name.

    Attributes:
        name: by which it is asked for.
        title: what it is called.
        kind: ``"implicit"``, ``"explicit"``, or ``"floor"``: one that makes no use of the graph.
        home: module and class.
        equation: in one line.
        paper: where it comes from.
        differs: where ours differs from the code of its authors.
        tables: the parts of the MGNNI paper that have it: ``"heterophilic"``, ``"ppi"``,
            ``"graphs"`` and ``"chains"``.
        hidden_channels: of the model, if nothing else is said; none: as many as features.
    """

    name: str
    title: str
    kind: str
    home: str
    equation: str
    paper: str
    differs: str
    tables: tuple[str, ...] = ()
    hidden_channels: int | None = 64

    def load(self) -> type[Any]:
        """Import the class."""
        module, name = self.home.split(":")
        loaded: type[Any] = getattr(import_module(module), name)
        return loaded

    def options(self) -> type[Any]:
        """Return the keyword arguments of the class as a frozen dataclass."""
        return _options(self)


@lru_cache
def _options(entry: ModelEntry) -> type[Any]:
    cls = entry.load()
    # One source for the options of the library, of a configuration and of the command line.
    hints = typing.get_type_hints(cls.__init__)
    width = field(default=entry.hidden_channels)
    made: list[tuple[str, Any, Any]] = [("hidden_channels", int | None, width)]
    for one in inspect.signature(cls).parameters.values():
        if one.kind is one.KEYWORD_ONLY and one.name != "level":  # which the task decides
            default = tuple(one.default) if isinstance(one.default, list) else one.default
            made.append((one.name, _plain(hints[one.name]), field(default=default)))
    options = make_dataclass(f"{cls.__name__}Config", made, frozen=True)
    options.__doc__ = cls.__doc__
    options.__module__ = cls.__module__
    return options


def _plain(hint: Any) -> Any:
    """A sequence as the tuple that a configuration holds."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is Sequence:
        return tuple[inner[0], ...]  # type: ignore[valid-type]
    if type(None) in inner:
        return _plain(next(one for one in inner if one is not type(None))) | None
    return hint
