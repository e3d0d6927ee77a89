"""Settings of the library as options of a command: how each is shown, written and read."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import docstring_parser
from tyro.conf import FlagCreatePairsOff, arg
from tyro.constructors import PrimitiveConstructorSpec

# What a value is called in the help, and in a complaint about another one.
KINDS: dict[Any, tuple[str, str]] = {
    int: ("INT", "a whole number"),
    float: ("FLOAT", "a number"),
    str: ("NAME", "a word"),
    Path: ("PATH", "a path"),
    bool: ("true|false", "true or false"),
}
NONE = "none"

Flag = Annotated[bool, FlagCreatePairsOff, arg(help_behavior_hint="")]


def option(
    hint: Any,
    *,
    shown: str | None = None,
    choices: Sequence[str] = (),
    unset: str | None = None,
    text: str | None = None,
    name: str | None = None,
) -> Any:
    """Return a type as tyro takes it: a value, several, or either of these and none.

    Args:
        hint: the type.
        shown: the value in the help; by default its choices or its kind.
        choices: all values there are, for the help; the library refuses others, with the nearest.
        unset: what is done if the option is left out, where its default says too little; empty
            if its text says so.
        text: the line of help; by default the docstring of the field.
        name: what it is called, if not as the field.
    """
    says = f"(default: {unset})" if unset else unset
    about = arg(help=text, help_behavior_hint=says, name=name)
    if hint is bool:
        return Annotated[bool, arg(help=text, help_behavior_hint=_yes_or_no)]
    return Annotated[hint, _spec(hint, shown or "|".join(choices), named=unset is None), about]


def options_of(
    cls: type,
    about: str,
    *,
    choices: Mapping[str, Sequence[str]] | None = None,
    unset: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
    apart: Sequence[str] = (),
) -> type[Any]:
    """Return the fields of a frozen dataclass as one group of options.

    Args:
        cls: its plain fields become options of the same name, default and docstring.
        about: what the group is, for the help.
        choices: of the fields that have some.
        unset: what is done if an option is left out, see :func:`option`.
        flags: switches that are off by default and so need no opposite.
        apart: fields that are no options of this group.
    """
    documented = docstring_parser.parse_from_object(cls).params
    docs = {one.arg_name: _plain(one.description or "") for one in documented}
    made: list[tuple[str, Any, Any]] = []
    typed: Any
    hints = typing.get_type_hints(cls)
    for one in fields(cls):
        hint = hints[one.name]
        if one.name in apart:
            continue
        if one.name in flags:
            typed = Annotated[Flag, arg(help=docs[one.name], help_behavior_hint="")]
        else:
            typed = option(
                hint,
                choices=(choices or {}).get(one.name, ()),
                unset=(unset or {}).get(one.name),
                text=docs[one.name],
            )
        made.append((one.name, typed, field(default=one.default)))
    group = make_dataclass(f"{cls.__name__}Options", made, frozen=True)
    group.__doc__ = about
    return group


def _spec(hint: Any, shown: str, named: bool) -> PrimitiveConstructorSpec[Any]:
    """Say how words of the command line become a value, and a value words.

    Args:
        hint: the type.
        shown: the value in the help; empty for the name of its kind.
        named: show that none is a value too, where it is.
    """
    inner, optional = _without_none(hint)
    several = typing.get_origin(inner) is tuple
    kind = typing.get_args(inner)[0] if several else inner
    name, description = KINDS[kind]
    name = shown or (f"{name} ..." if several else name)
    name += f"|{NONE}" if optional and named else ""

    def read(words: list[str]) -> Any:
        if optional and [word.lower() for word in words] == [NONE]:
            return None
        values = [_read(kind, word, description, optional) for word in words]
        return tuple(values) if several else values[0]

    def write(value: Any) -> list[str]:
        values = value if isinstance(value, tuple) else (value,)
        return [_write(one) for one in values]

    return PrimitiveConstructorSpec(
        nargs="*" if several else 1,
        metavar=name,
        instance_from_str=read,
        is_instance=lambda value: True,
        str_from_instance=write,
    )


def _read(kind: Callable[[str], Any], word: str, description: str, optional: bool) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[word.lower()]
        return kind(word)
    except (ValueError, KeyError):
        also = f", or {NONE}" if optional else ""
        raise ValueError(f"must be {description}{also} (got {word!r})") from None


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return NONE if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _without_none(hint: Any) -> tuple[Any, bool]:
    """Return the type without None, and whether None was allowed."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    (inner,) = (one for one in typing.get_args(hint) if one is not type(None))
    return inner, True


def _yes_or_no(default: str) -> str:
    return f"(default: {'yes' if default == 'True' else 'no'})"


def _plain(text: str) -> str:
    """A docstring as a sentence for a terminal: no markup, one paragraph, a capital."""
    value = text.startswith("``")
    for word in ("True", "False", "None"):
        text = text.replace(f"``{word}``", word.lower())
    text = re.sub(r"\(default: .*?\)\s*$", "", text)  # shown by tyro
    text = re.sub(r":\w+:`[~.]?\\?(.*?)`", r"\1", text)
    text = " ".join(text.replace("``", "").split())
    return text if value else text[:1].upper() + text[1:]
