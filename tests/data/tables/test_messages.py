from __future__ import annotations

import pytest

from mgnni.data.tables.messages import counted, did_you_mean, first_line, listed, os_reason, show


def test_values_are_shown_in_one_short_line() -> None:
    assert show("a\nb") == "'a\\nb'"
    assert show("x" * 1000) == f"'{'x' * 55}...'"
    assert len(show("x" * 1000)) == 60


def test_long_lists_are_cut() -> None:
    assert listed(["a", 1]) == "'a', 1"
    assert listed([]) == "nothing"
    assert listed(range(14)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more"


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [
        ("lable", ["id", "label"], "; did you mean 'label'?"),
        ("LABEL", ["id", "label "], "; did you mean 'label '?"),
        ("zzz", ["id", "label"], ""),
    ],
)
def test_nearest(name: str, names: list[str], hint: str) -> None:
    assert did_you_mean(name, names) == hint


def test_counts() -> None:
    assert (counted(1, "edge"), counted(1234, "edge")) == ("1 edge", "1,234 edges")


def test_errors_of_others_in_one_line() -> None:
    assert first_line(ValueError("bad.\nVery bad.")) == "bad"
    assert first_line(EOFError()) == "EOFError"
    assert os_reason(PermissionError(13, "Permission denied", "/file")) == "permission denied"
