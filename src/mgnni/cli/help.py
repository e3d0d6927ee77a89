"""What stands above the options in ``--help``."""

from __future__ import annotations

import inspect
import shutil
import textwrap

EXAMPLE = "Example: "
WIDEST = 100


def described(doc: str | None) -> str:
    """Lay out a docstring for the terminal: a line, its paragraphs below, examples one a line.

    Tyro joins lines that begin with a letter, and leaves the wrapping of what it has joined to
    the terminal, in the middle of words. So all but the first line of a block are indented.
    """
    width = min(shutil.get_terminal_size().columns, WIDEST)
    lines = inspect.cleandoc(doc or "").splitlines()
    examples = [line.removeprefix(EXAMPLE) for line in lines if line.startswith(EXAMPLE)]
    text = "\n".join(line for line in lines if not line.startswith(EXAMPLE))
    first, *paragraphs = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    found = textwrap.wrap(first, width, subsequent_indent="  ")
    for paragraph in paragraphs:
        found += textwrap.wrap(paragraph, width, initial_indent="  ", subsequent_indent="  ")
    shown = [(" " * len(EXAMPLE) if index else EXAMPLE) + e for index, e in enumerate(examples)]
    return "\n".join([*found, "", *shown])
