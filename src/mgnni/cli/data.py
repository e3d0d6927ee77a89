"""The data of a command: a benchmark with its options, or a path."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from mgnni.cli.arguments import Command, Parser, UsageError
from mgnni.cli.option_details import FILE_DETAILS
from mgnni.data.catalog import ENTRIES, benchmark_named
from mgnni.data.tables.schema import TableOptions
from mgnni.errors import closest


@dataclass(frozen=True, kw_only=True)
class DataCommand(Command):
    """A command that reads data and trains nothing."""

    no_options: ClassVar[Sequence[str]] = ("tables",)

    tables: TableOptions = field(default_factory=TableOptions)

    @classmethod
    def parser(cls, args: Sequence[str]) -> Parser:
        """Return the parser with the options for columns of files."""
        parser = super().parser(args)
        group = parser.group("file options", "For your own graph: the meaning of its columns.")
        parser.add_fields(group, TableOptions, details=FILE_DETAILS)
        return parser

    @classmethod
    def create(cls, values: Mapping[str, Any]) -> DataCommand:
        """Return the command with the options that were given."""
        of_tables = {one.name for one in fields(TableOptions)}
        return cls(
            **{name: value for name, value in values.items() if name not in of_tables},
            tables=TableOptions(**{k: v for k, v in values.items() if k in of_tables}),
        )


def check_data(data: str) -> None:
    """Refuse data that are neither a benchmark nor a path, and suggest a benchmark."""
    if (Path(data) / "sweep.json").exists():
        raise UsageError(
            f"{data} has the stored terms of a graph, not the graph; to train on them: mgnni train "
            f"{data} --precomputed"
        )
    if benchmark_named(data) or Path(data).exists():
        return
    near = closest(data, ENTRIES)
    hint = f" (did you mean {near}?)" if near else ""
    raise UsageError(
        f"{data!r} is neither a benchmark{hint} nor a path; mgnni datasets lists the benchmarks, "
        "and a path is a folder with nodes.csv and edges.csv, or a .npz or .pt file"
    )


def likely_data(args: Sequence[str]) -> str:
    """Return the data that are named on a command line whose options are not known yet."""
    words = [arg for arg in args if not arg.startswith("-")]  # some are values of options
    known = (one for one in words if benchmark_named(one) or Path(one).exists())
    return next(known, words[0] if words else "")


def benchmark_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value that is not a Python literal is a string."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--option must be NAME=VALUE (got {pair!r}), for example length=80")
        if name in found:
            raise UsageError(f"--option must give each name once (got {name} twice)")
        literal = value.capitalize() if value in ("true", "false", "none") else value
        try:
            found[name] = ast.literal_eval(literal)
        except (ValueError, SyntaxError, TypeError):
            found[name] = value
    return found


def split_numbers(words: Sequence[str]) -> str | list[int]:
    """Return the splits that ``--split`` names."""
    if tuple(words) == ("all",):
        return "all"
    try:
        return [int(number) for number in words]
    except ValueError:
        raise UsageError(
            f"--split must be numbers from 0, or all (got {' '.join(words)})"
        ) from None
