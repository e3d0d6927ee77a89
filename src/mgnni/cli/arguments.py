"""Command-line options built from dataclasses: one field is one option."""

from __future__ import annotations

import argparse
import inspect
import shutil
import textwrap
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from mgnni.errors import ArgumentError, MgnniError, check_choice, closest
from mgnni.models.catalog import plain_text
from mgnni.train.option_words import NONE

EXAMPLE = "Example: "
# The type of a value: its name in the help, and its description in an error.
KINDS: dict[Any, tuple[str, str]] = {
    int: ("INT", "a whole number"),
    float: ("FLOAT", "a number"),
    str: ("NAME", "a word"),
    Path: ("PATH", "a path"),
    bool: ("true|false", "true or false"),
}


class UsageError(MgnniError):
    """The command line is wrong; nothing has been done yet."""


@dataclass(frozen=True, kw_only=True)
class Command(ABC):
    """Base class of all commands: every field is an option, its docstring the help.

    The ``metadata`` of a field may have ``metavar``, the value in the help; ``choices``, all
    values, for the help only; ``unset``, what happens without the option, instead of its default
    value; ``names``, the option strings; ``positional``, whether it is a positional argument;
    ``switch``, whether ``--name`` and ``--no-name`` set a value that is none by default;
    ``literal``, whether the word none is a value like any other, for example a name.
    """

    # Arguments of the library whose option has another name, for error messages.
    renamed: ClassVar[Mapping[str, str]] = {}
    # Fields that are not options.
    no_options: ClassVar[Sequence[str]] = ()

    json: bool = False
    """Print the result as JSON to standard output, and nothing else."""
    debug: bool = False
    """Show the traceback of an error."""

    @classmethod
    def parser(cls, args: Sequence[str]) -> Parser:
        """Return the parser of this command; the options may depend on the arguments."""
        parser = Parser(f"mgnni {cls.__name__.lower()}", cls.__doc__)
        common = [one.name for one in fields(Command)]
        parser.add_fields(parser, cls, skip=(*common, *cls.no_options))
        parser.add_fields(parser, Command)
        return parser

    @classmethod
    def create(cls, values: Mapping[str, Any]) -> Command:
        """Return the command with the options that were given."""
        return cls(**values)

    @abstractmethod
    def run(self) -> None:
        """Execute the command."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises :class:`UsageError` and suggests similar options.

    Args:
        prog (str): The command.
        doc (str, optional): A docstring; lines that start with ``Example:`` follow the text.
        add_help (bool, optional): Whether ``--help`` is an option.
    """

    def __init__(self, prog: str, doc: str | None = None, add_help: bool = True) -> None:
        self.list_option: str | None = None  # the last one that was read
        super().__init__(
            prog=prog,
            usage=f"{prog} [options]",
            description=layout(doc or ""),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,  # so that only given options have a value
            allow_abbrev=False,
            exit_on_error=False,
            add_help=add_help,
        )

    def parse(self, args: Sequence[str], *, partly: bool = False) -> dict[str, Any]:
        """Return the values of the options that were given, by field name.

        Args:
            args (Sequence[str]): The arguments after the command.
            partly (bool, optional): Ignore options that are not known.
        """
        try:
            found, unknown = self.parse_known_args([_hyphens(arg) for arg in args])
        except argparse.ArgumentError as error:
            self.error(" ".join(filter(None, [error.argument_name, error.message])))
        if unknown and not partly:
            known = [name.strip("-") for name in self._option_string_actions]
            near = closest(unknown[0].partition("=")[0].strip("-"), known)
            hint = f"; did you mean --{near}?" if near and unknown[0][:1] == "-" else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return vars(found)

    def error(self, message: str) -> NoReturn:
        """Raise :class:`UsageError`."""
        missing = message.partition("arguments are required: ")[2]
        if missing and self.list_option:
            message += f"; write {missing} before {self.list_option}, which takes several words"
        raise UsageError(message if message[-1:] == "?" else f"{message}; see {self.prog} --help")

    def option_names(self) -> dict[str, str]:
        """Return the option string of every field."""
        named = (one for one in self._actions if one.option_strings)
        return {one.dest: one.option_strings[0] for one in named}

    def group(self, title: str, description: str) -> argparse._ArgumentGroup:
        """Add a titled group to the help."""
        return self.add_argument_group(title, textwrap.fill(description, _width() - 4))

    def add_fields(
        self,
        group: argparse._ActionsContainer,
        cls: type,
        *,
        defaults: Any = None,
        details: Mapping[str, Mapping[str, Any]] | None = None,
        skip: Sequence[str] = (),
        switches: bool = False,
    ) -> None:
        """Add an option for every field of a dataclass.

        Args:
            group (argparse._ActionsContainer): Where the options are listed in the help.
            cls (type): The dataclass.
            defaults (Any, optional): An instance whose values are shown as defaults.
            details (Mapping, optional): Metadata per field, in addition to its own.
            skip (Sequence[str], optional): Fields without an option.
            switches (bool, optional): Give each boolean a ``--no-...`` option.
        """
        import docstring_parser

        docs = {
            one.arg_name: one.description
            for base in reversed(cls.__mro__[:-1])  # a command may extend another
            for one in docstring_parser.parse_from_object(base).params
        }
        hints = typing.get_type_hints(cls)
        for one in fields(cls):
            if one.name in skip:
                continue
            about = {**one.metadata, **(details or {}).get(one.name, {})}
            default = one.default if defaults is None else getattr(defaults, one.name)
            doc = docs.get(one.name) or ""
            self._add(group, one, hints[one.name], doc, default, about, switches)

    def _add(
        self,
        group: argparse._ActionsContainer,
        one: Field[Any],
        hint: Any,
        doc: str,
        default: Any,
        about: Mapping[str, Any],
        switches: bool,
    ) -> None:
        names = about.get("names", ("--" + one.name.replace("_", "-"),))
        text = plain_text(doc)
        if "choices" in about:
            text += f" One of {', '.join(about['choices'])}."
        flag = hint is bool and not switches
        if "switch" in about:
            hint, unset = bool, about["unset"]
        elif hint is bool:
            unset = "" if flag else "yes" if default else "no"
        else:
            unset = about.get("unset", "" if one.default is MISSING else written(default))
        text += f" (default: {unset})" if unset else ""
        text = text.replace("%", "%%")
        if hint is bool:
            action: Any = "store_true" if flag else argparse.BooleanOptionalAction
            group.add_argument(*names, dest=one.name, action=action).help = text
            return
        inner, optional = _without_none(hint)
        several = typing.get_origin(inner) is tuple
        kind = typing.get_args(inner)[0] if several else inner
        metavar = about.get("metavar")
        if metavar is None:
            metavar = KINDS[kind][0] + (f"|{NONE}" if optional and "unset" not in about else "")
        reader = _reader(kind, optional and not about.get("literal"), several)
        settings: dict[str, Any] = {"help": text, "type": reader, "metavar": metavar}
        if several:
            settings |= {"nargs": "*", "action": _Several}
        if about.get("positional"):
            if not several and one.default is not MISSING:
                settings["nargs"] = "?"
            group.add_argument(one.name, **settings)
            shown = f"[{metavar}{' ...' * several}]" if one.default is not MISSING else metavar
            self.usage = f"{self.usage} {shown}"
        else:
            group.add_argument(*names, dest=one.name, **settings)


class _Several(argparse.Action):
    """Stores all values of an option as one tuple: several per word, or the option repeated."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        parser.list_option = option_string
        before = getattr(namespace, self.dest, ())
        if before is None or (None in values and (before or len(values) > 1)):
            raise argparse.ArgumentError(self, f"must be values, or {NONE} alone")
        new = None if values == [None] else (*before, *(one for part in values for one in part))
        setattr(namespace, self.dest, new)


def _reader(kind: Any, optional: bool, several: bool) -> Callable[[str], Any]:
    """Return the function that converts one word of the command line."""

    def convert(word: str) -> Any:
        return {"true": True, "false": False}[word.lower()] if kind is bool else kind(word)

    def read(word: str) -> Any:
        if optional and word.lower() == NONE:
            return None
        try:
            if not several:
                return convert(word)
            # Names may contain commas, numbers may be separated by them.
            return [convert(part) for part in (word.split(",") if kind in (int, float) else [word])]
        except (ValueError, KeyError):
            also = f", or {NONE}" if optional else ""
            example = "; separate several by spaces" if several else ""
            raise argparse.ArgumentTypeError(
                f"must be {KINDS[kind][1]}{also} (got {word!r}){example}"
            ) from None

    return read


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Return a converter that accepts only these words and suggests the closest one."""

    def read(word: str) -> str:
        try:
            return check_choice("option", word, choices)
        except ArgumentError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix("'option' ")) from None

    return read


def layout(doc: str) -> str:
    """Wrap the paragraphs of a docstring for the terminal; examples stay on one line each."""
    lines = inspect.cleandoc(doc).splitlines()
    text = "\n".join(line for line in lines if not line.startswith(EXAMPLE))
    blocks = [textwrap.fill(" ".join(part.split()), _width()) for part in text.split("\n\n")]
    shown = [line.removeprefix(EXAMPLE) for line in lines if line.startswith(EXAMPLE)]
    if shown:
        blocks.append("\n".join(["examples:", *(f"  {example}" for example in shown)]))
    return "\n\n".join(block for block in blocks if block.strip())


def _width() -> int:
    return min(shutil.get_terminal_size().columns - 2, 100)


def _hyphens(arg: str) -> str:
    """Accept ``--weight_decay`` for ``--weight-decay``."""
    name, sign, value = arg.partition("=")
    return name.replace("_", "-") + sign + value if name.startswith("--") else arg


def written(value: Any) -> str:
    """Return a default as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(map(written, value)) or NONE
    return NONE if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return the type without None, and whether None is allowed."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    (inner,) = (one for one in typing.get_args(hint) if one is not type(None))
    return inner, True
