"""What is known of a model before it is built: its equation, its paper, its options."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, make_dataclass
from functools import lru_cache
from importlib import import_module
from pkgutil import get_data
from typing import Any, TypeVar

KINDS = ("implicit", "explicit", "floor")
# Not options of a training: the task decides the level, and a failed solve ends a training.
NOT_OPTIONS = ("level", "on_failure")

_Node = TypeVar("_Node", ast.ClassDef, ast.FunctionDef)


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
        """Return the arguments of the class that have a default as a frozen dataclass.

        Configurations and the command line take the options of a model from here, so they are
        written once: in the signature and the docstring of its class.
        """
        return _options(self)


@lru_cache
def _options(entry: ModelEntry) -> type[Any]:
    # The source is parsed, not imported: importing torch takes seconds, which the help of the
    # command line does not have.
    home, name = entry.home.split(":")
    package, _, module = home.rpartition(".")
    cls = _find(ast.parse(get_data(package, f"{module}.py") or b""), ast.ClassDef, name)
    signature = _find(cls, ast.FunctionDef, "__init__").args
    required = len(signature.args) - len(signature.defaults)
    arguments = [*signature.args[required:], *signature.kwonlyargs]
    defaults = [*signature.defaults, *signature.kw_defaults]
    fields: list[tuple[str, Any, Any]] = [
        ("hidden_channels", int | None, field(default=entry.hidden_channels))
    ]
    for argument, default in zip(arguments, defaults, strict=True):
        if argument.arg not in NOT_OPTIONS and argument.annotation and default:
            hint = re.sub(r"Sequence\[(\w+)\]", r"tuple[\1, ...]", ast.unparse(argument.annotation))
            fields.append((argument.arg, eval(hint), field(default=ast.literal_eval(default))))
    options = make_dataclass(f"{name}Config", fields, frozen=True)
    options.__doc__ = ast.get_docstring(cls)
    options.__module__ = __name__
    return options


def _find(tree: ast.Module | ast.ClassDef, kind: type[_Node], name: str) -> _Node:
    """Return the class or function of this name."""
    return next(node for node in tree.body if isinstance(node, kind) and node.name == name)
