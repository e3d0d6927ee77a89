"""How a message shows a value, lists names and guesses which one was meant: always in one line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence

LONGEST_VALUE = 60
LONGEST_LINE = 100
MOST_NAMES = 12


def show(value: object) -> str:
    """Return the value as it would be typed in Python, cut if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 4]}...{text[0]}"


def listed(names: Iterable[object]) -> str:
    """Return the names one after another, the first ones if there are many."""
    every = list(names)
    if not every:
        return "nothing"
    shown = ", ".join(show(name) for name in every[:MOST_NAMES])
    more = f" and {len(every) - MOST_NAMES} more" if len(every) > MOST_NAMES else ""
    return f"{shown}{more}"


def nearest(name: str, names: Sequence[str]) -> str:
    """Return the end of a message that names what may have been meant, or nothing."""
    by_lower = {other.strip().lower(): other for other in names}
    near = difflib.get_close_matches(name.strip().lower(), by_lower, n=1)
    return f"; did you mean {show(by_lower[near[0]])}?" if near else ""


def counted(count: int, noun: str) -> str:
    """Return ``1 edge`` or ``1,234 edges``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def reason(error: OSError) -> str:
    """Return why the system refused, without the path, which the message names already."""
    return os.strerror(error.errno).lower() if error.errno else first_line(error)


def first_line(error: Exception) -> str:
    """Return what an error of another library says, in short; its kind if it says nothing."""
    lines = str(error).splitlines()
    return printable(lines[0]).rstrip(". :") if lines else type(error).__name__


def printable(text: str) -> str:
    """Return text from a file in short, with a ? for what a terminal would not show or obey."""
    return "".join(c if c.isprintable() else "?" for c in text[:LONGEST_LINE])
