"""Parts of error messages: values, lists of names and suggestions, always on one line."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterable, Sequence

LONGEST_VALUE = 60
LONGEST_LINE = 100
MOST_NAMES = 12


def show(value: object) -> str:
    """Returns ``repr(value)``, shortened if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 4]}...{text[0]}"


def listed(names: Iterable[object]) -> str:
    """Returns the names separated by commas; only the first ones if there are many."""
    every = list(names)
    if not every:
        return "nothing"
    shown = ", ".join(show(name) for name in every[:MOST_NAMES])
    more = f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return f"{shown}{more}"


def did_you_mean(name: str, names: Sequence[str]) -> str:
    """Returns a suggestion to append to a message, empty if no name is similar."""
    by_lower = {other.strip().lower(): other for other in names}
    near = difflib.get_close_matches(name.strip().lower(), by_lower, n=1)
    return f"; did you mean {show(by_lower[near[0]])}?" if near else ""


def flag(option: str, value: str) -> str:
    """Returns an option of the command line with its value, quoted for a shell."""
    between = "=" if value.startswith("-") else " "
    return f"--{option}{between}{shlex.quote(value)}"


def counted(count: int, noun: str) -> str:
    """Returns ``1 edge`` or ``1,234 edges``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def alike(what: str, kind: str, values: Sequence[str]) -> list[str]:
    """Returns notes on values that differ only in spelling.

    Args:
        what (str): What has the values, for the notes.
        kind (str): What they are, in the plural.
        values (list of str): The different values.
    """
    notes = []
    for how, same in (("in spaces", str.strip), ("in capital letters", str.lower)):
        fewer = list(dict.fromkeys(same(value) for value in values))
        if len(fewer) < len(values):
            notes.append(f"{what}: some {kind} differ only {how}")
        values = fewer
    numbers: dict[float, str] = {}
    for value in values:
        try:
            first = numbers.setdefault(float(value), value)
        except ValueError:
            continue
        if first != value:
            pair = f"{show(first)} and {show(value)}"
            notes.append(f"{what}: some {kind} are the same number, such as {pair}")
            break
    return notes


def os_reason(error: OSError) -> str:
    """Returns the reason the operating system gives, without the path."""
    return os.strerror(error.errno).lower() if error.errno else first_line(error)


def first_line(error: Exception) -> str:
    """Returns the first line of an error message, or the type of the error if it is empty."""
    lines = str(error).splitlines()
    return printable(lines[0]).rstrip(". :") if lines else type(error).__name__


def printable(text: str) -> str:
    """Returns shortened text from a file, with ``?`` for control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:LONGEST_LINE])
