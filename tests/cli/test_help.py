"""The text above the options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mgnni.cli.help import described

Call = Callable[..., Any]  # see conftest.py

DOC = """Do a thing.

    Words enough to fill a line, and then some more of them, for they are to be wrapped by words
    at the end of a terminal and never in the middle of one of them.

    More.

    Example: mgnni do this
    Example: mgnni do that --with everything
    """


def test_paragraphs_are_wrapped_and_examples_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = described(DOC).splitlines()
    assert lines[0] == "Do a thing."
    body, examples = lines[1 : lines.index("")], lines[lines.index("") + 1 :]
    assert all(line.startswith("  ") and len(line) <= 60 for line in body)
    assert " ".join(" ".join(body).split()) == " ".join(DOC[17 : DOC.index("Example")].split())
    assert body[-1] == "  More."
    assert examples == [
        "Example: mgnni do this",
        "         mgnni do that --with everything",
    ]


@pytest.mark.parametrize("command", ["", "quickstart", "datasets", "models", "train", "predict"])
@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_help_is_wider_than_the_terminal(
    call: Call, monkeypatch: pytest.MonkeyPatch, command: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    ended = call(*command.split(), "--help")
    assert ended.status == 0
    wide = [line for line in ended.out.splitlines() if len(line) > width]
    assert not [line for line in wide if "mgnni " not in line], "only a command is not broken"
    assert "Example: mgnni " in ended.out
