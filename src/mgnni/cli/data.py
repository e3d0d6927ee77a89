"""The data of a command: a benchmark with its options, or a path."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgnni.cli.arguments import UsageError
from mgnni.data.catalog import ENTRIES, benchmark_named
from mgnni.errors import closest


def check_data(data: str) -> None:
    """Refuse data that are neither a benchmark nor a path, and suggest a benchmark."""
    if benchmark_named(data) or Path(data).exists():
        return
    near = closest(data, ENTRIES)
    hint = f" (did you mean {near}?)" if near else ""
    raise UsageError(
        f"{data!r} is neither a benchmark{hint} nor a path; mgnni datasets lists the benchmarks, "
        "and a path is a folder with nodes.csv and edges.csv, or a .npz or .pt file"
    )


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
