"""Dataclasses from plain data, such as the content of a JSON file."""

from __future__ import annotations

import dataclasses
import reprlib
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from mgnni.errors import ArgumentError, check_choice

T = TypeVar("T")


def from_dict(cls: type[T], data: Mapping[str, Any], where: str) -> T:
    """Build a dataclass from plain data; unknown and missing fields and wrong types are errors.

    Args:
        cls (type): The dataclass.
        data (Mapping[str, Any]): Its fields.
        where (str): Name of the data in error messages.
    """
    if not isinstance(data, Mapping):
        raise ArgumentError(f"'{where}' must be a table of options (got {type(data).__name__})")
    missing = [
        one.name
        for one in dataclasses.fields(cls)  # type: ignore[arg-type]
        if one.default is one.default_factory is dataclasses.MISSING and one.name not in data
    ]
    if missing:
        raise ArgumentError(f"'{where}' must have {missing} (got {sorted(map(str, data))})")
    hints = typing.get_type_hints(cls)
    return cls(
        **{
            key: convert(hints[check_choice(where, key, hints)], value, f"{where}.{key}")
            for key, value in data.items()
        }
    )


def convert(hint: Any, value: Any, where: str) -> Any:
    """Return a value as the type of a field, or raise an error that names it.

    Lists become tuples, whole numbers become floats, and mappings become dataclasses, where the
    field asks for these; nothing else is converted.

    Args:
        hint (type): Type of the field.
        value (Any): Plain data.
        where (str): Name of the field in error messages.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):  # X | None
        return None if value is None else convert(args[0], value, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(convert(args[0], item, where) for item in value)
    if origin is dict and isinstance(value, dict):
        return {convert(args[0], k, where): convert(args[1], v, where) for k, v in value.items()}
    if origin is None and (hint is Any or _is_a(value, hint)):
        return value
    if hint is float and _is_a(value, int):
        return float(value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_dict(hint, value, where)
    kind = {tuple: "a list", dict: "a table"}.get(origin) or f"of type {hint.__name__}"
    raise ArgumentError(f"'{where}' must be {kind} (got {reprlib.repr(value)})")


def _is_a(value: Any, kind: type) -> bool:
    """Check the type of a value; a bool is no int here."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
