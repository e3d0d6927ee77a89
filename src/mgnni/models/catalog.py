"""The catalog of all models: their names, equations, papers and options."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, field, make_dataclass
from functools import lru_cache
from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING, Any, TypeVar

from mgnni.errors import check_choice
from mgnni.models.explicit_catalog import EXPLICIT
from mgnni.models.implicit_catalog import IMPLICIT

if TYPE_CHECKING:  # the catalog is listed without importing torch
    from mgnni.models.base import GraphModel

KINDS = ("implicit", "explicit", "baseline")
MGNNI = "mgnni"
# Not hyperparameters: the task decides the level, and a failed solve ends a training.
NOT_OPTIONS = ("level", "on_failure")

_Node = TypeVar("_Node", ast.ClassDef, ast.FunctionDef)


@dataclass(frozen=True)
class ModelEntry:
    """A model of the catalog.

    Args:
        name (str): Name of the model, for example :obj:`"gcnii"`.
        title (str): Full name of the model.
        kind (str): :obj:`"implicit"`, :obj:`"explicit"`, or :obj:`"baseline"`, which ignores
            the graph.
        home (str): Module and class, separated by a colon.
        equation (str): Equation of the model in one line.
        paper (str): Authors, title, venue and year of the paper.
        differs (str): Differences to the authors' code.
        tables (tuple[str, ...], optional): Tables of the MGNNI paper that include the model, of
            :obj:`"heterophilic"`, :obj:`"ppi"`, :obj:`"graphs"` and :obj:`"chains"`.
        hidden_channels (int, optional): Default number of hidden channels. :obj:`None` uses the
            number of input channels. (default: :obj:`64`)
        defaults (tuple[tuple[str, Any], ...], optional): Names and values of arguments of the class
            whose default is another one for this model.
        trained (tuple[tuple[str, Any], ...], optional): The same for trainings only, where presets
            choose what suits the task.
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
    defaults: tuple[tuple[str, Any], ...] = ()
    trained: tuple[tuple[str, Any], ...] = ()

    def load(self) -> type[GraphModel]:
        """Import and return the class of the model."""
        module, name = self.home.split(":")
        loaded: type[GraphModel] = getattr(import_module(module), name)
        return loaded

    def options(self) -> type[Any]:
        """Return a frozen dataclass of the options of the model.

        Its fields are ``hidden_channels`` and all arguments of the class that have a default,
        except for ``level`` and ``on_failure``. Its docstring has a plain text per field.
        """
        return _options(self)


MODELS: dict[str, ModelEntry] = {
    name: ModelEntry(name, **facts) for name, facts in {**IMPLICIT, **EXPLICIT}.items()
}


def find_model(name: str) -> ModelEntry:
    """Return the entry of a model; an unknown name raises an error with the closest match.

    Args:
        name (str): Name of the model.
    """
    return MODELS[check_choice("model", name, MODELS)]


def make_model(
    name: str, in_channels: int, hidden_channels: int | None, out_channels: int, **kwargs: Any
) -> GraphModel:
    """Build a model by its name.

    Args:
        name (str): Name of the model, as listed by ``mgnni models``.
        in_channels (int): Size of each input sample.
        hidden_channels (int or None): Size of each hidden sample. :obj:`None` uses
            ``in_channels``.
        out_channels (int): Number of classes or labels.
        **kwargs (optional): Arguments of the class of the model.
    """
    from mgnni.layers.graph_module import with_pyg_names

    entry = find_model(name)
    cls = entry.load()
    kwargs = {**dict(entry.defaults), **with_pyg_names(kwargs)}
    known = list(inspect.signature(cls).parameters)[3:]  # without the numbers of channels
    for option in kwargs:
        check_choice(f"option of {name}", option, known)
    hidden = in_channels if hidden_channels is None else hidden_channels
    return cls(in_channels, hidden, out_channels, **kwargs)


@lru_cache
def _options(entry: ModelEntry) -> type[Any]:
    # Configurations and the options of the command line are derived from this dataclass. The
    # source is parsed, not imported: importing torch takes seconds, too long for a help text.
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
            # A configuration holds tuples.
            hint = re.sub(r"Sequence\[(\w+)\]", r"tuple[\1, ...]", ast.unparse(argument.annotation))
            changed = dict((*entry.defaults, *entry.trained))
            value = changed.get(argument.arg, ast.literal_eval(default))
            fields.append((argument.arg, eval(hint), field(default=value)))
    options = make_dataclass(f"{name}Config", fields, frozen=True)
    texts = argument_texts(ast.get_docstring(cls) or "")
    texts["hidden_channels"] += " none uses the number of features."
    lines = [f"    {one}: {texts[one]}" for one, _, _ in fields]
    options.__doc__ = "\n".join([f"Options of {name}.", "", "Args:", *lines])
    options.__module__ = __name__
    return options


def _find(tree: ast.Module | ast.ClassDef, kind: type[_Node], name: str) -> _Node:
    """Return the class or function of this name."""
    return next(node for node in tree.body if isinstance(node, kind) and node.name == name)


def argument_texts(doc: str) -> dict[str, str]:
    """Return the texts of the ``Args:`` section of a docstring without markup and defaults.

    Args:
        doc (str): A docstring in PyG's style, ``name (type): text``.
    """
    section = re.search(r"^Args:\n((?: .*\n|\n)*)", f"{inspect.cleandoc(doc)}\n", re.MULTILINE)
    entries = re.split(r"^ {4}(?=\S)", section.group(1) if section else "", flags=re.MULTILINE)
    matches = (re.match(r"\**(\w+) \([^)]*\): (.*)", entry, re.DOTALL) for entry in entries)
    return {match.group(1): plain_text(match.group(2)) for match in matches if match}


def plain_text(text: str) -> str:
    """Return the description of an argument without markup and without its default.

    Args:
        text (str): Text in PyG's style, with roles such as :obj:`"sym"`.
    """
    text = re.sub(r"\s*\(default: .*\)\.?$", "", " ".join(text.split()))
    role = r":\w+:`[~\\]?\"?([^`]*?)\"?`|``([^`]*)``"
    text = re.sub(role, lambda found: found[1] or found[2], text)
    for word in ("True", "False", "None"):
        text = re.sub(rf"\b{word}\b", word.lower(), text)
    lower = text.startswith(("true", "false", "none"))
    return text if lower else text[:1].upper() + text[1:]
