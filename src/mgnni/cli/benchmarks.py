"""Benchmarks on the command line: their names, and options of theirs."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgnni.cli.errors import UsageError
from mgnni.data.catalog import ENTRIES, benchmark_named

WORDS = ("true", "false", "none")  # as a person may write True, False and None


def check_exists(data: str) -> None:
    """Refuse what is neither a benchmark nor on the disk, with the benchmark that may be meant."""
    if benchmark_named(data) or Path(data).exists():
        return
    near = difflib.get_close_matches(data.lower(), ENTRIES, n=1)
    meant = f" (did you mean {near[0]}?)" if near else ""
    raise UsageError(
        f"{data!r} is neither a benchmark{meant} nor a path; mgnni datasets lists the benchmarks, "
        "and a path is a folder with nodes.csv and edges.csv, or a .npz or .pt file"
    )


def benchmark_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Read ``NAME=VALUE`` pairs; a value that is no Python literal is a word."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"--option must be NAME=VALUE (got {pair!r}); write length=80, say")
        if name in found:
            raise UsageError(f"--option must give each name once (got {name} twice)")
        try:
            found[name] = ast.literal_eval(value.capitalize() if value in WORDS else value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found
