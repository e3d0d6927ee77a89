"""How an error of the library or of the system is told on one line."""

from __future__ import annotations

import errno
import os

import pytest

from mgnni.cli.errors import as_options, one_line, trouble
from mgnni.errors import DataError

SPOKEN = {"input_map": "--input-map", "hidden_channels": "--hidden-channels", "seed": "--seeds"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("'seed' must lie between 0 and 3 (got 4)", "--seeds must lie between 0 and 3 (got 4)"),
        (
            "'hidden_channels' must equal in_channels with input_map='identity'; use input_map=mlp",
            "--hidden-channels must equal in_channels with --input-map identity; use "
            "--input-map mlp",
        ),
        ("'other' is not 'seed'", "'other' is not 'seed'"),
        ("other='seed', a.b=3", "other='seed', a.b=3"),
        ("", ""),
    ],
)
def test_arguments_become_options(text: str, said: str) -> None:
    assert as_options(text, SPOKEN) == said


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EFBIG, "free some space"),
        (errno.EACCES, "choose another place"),
        (errno.EROFS, "choose another place"),
        (errno.EIO, "see --debug"),
    ],
)
def test_trouble_has_a_reason_and_a_remedy(code: int, remedy: str) -> None:
    line = trouble(OSError(code, os.strerror(code), "a/file"))
    assert line.startswith(f"a/file: {os.strerror(code).lower()}; {remedy}")


def test_a_message_is_one_line() -> None:
    assert one_line(DataError("a\n  b")) == "a b"
    assert one_line(KeyError("a\nb")) == r"KeyError: 'a\nb'"
    assert one_line(ValueError()) == "ValueError"
