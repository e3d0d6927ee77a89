from __future__ import annotations

from typing import Any

import pytest

from mgnni.data.tables.schema import TableOptions
from mgnni.errors import ArgumentError


def test_a_string_is_one_name() -> None:
    options = TableOptions(label="y", features=["a", "b"])  # type: ignore[arg-type]
    assert options.label == ("y",)
    assert options.features == ("a", "b")
    assert options.given() == ("label", "features")
    assert TableOptions().given() == ()


def test_a_tab_as_typed_in_a_shell() -> None:
    assert TableOptions(delimiter="\\t") == TableOptions(delimiter="\t")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"delimiter": "::"}, "'delimiter' must be one character"),
        ({"delimiter": "§"}, "'delimiter' must be one character"),
        ({"label": ("a", "a")}, "'label' must name each column once"),
        ({"features": "a", "ignore": ("b", "a")}, r"'features' and 'ignore' .*\['a'\]"),
        ({"categorical": "a", "ignore": "a"}, r"'categorical' and 'ignore' .*\['a'\]"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        TableOptions(**given)
