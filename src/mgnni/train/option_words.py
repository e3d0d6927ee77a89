"""Options of a training as words of a command line."""

from __future__ import annotations

from typing import Any

NONE = "none"  # the word for no value
# Whether the graph is directed may be left open, so these are followed by true or false. Other
# Boolean options have two forms, such as --degree and --no-degree.
OPEN = ("directed", "undirected")


def option_words(name: str, value: Any) -> list[str]:
    """Return an option and its value as words.

    Args:
        name (str): Name of the field.
        value (Any): Its value.
    """
    option = name.replace("_", "-")
    if isinstance(value, bool) and name not in OPEN:
        return [f"--{option}" if value else f"--no-{option}"]
    values = value if isinstance(value, (list, tuple)) else [value]
    return [f"--{option}", *map(_word, values)]


def _word(value: Any) -> str:
    if value is None:
        return NONE
    return str(value).lower() if isinstance(value, bool) else str(value)
