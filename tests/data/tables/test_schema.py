from __future__ import annotations

import json
from typing import Any

import pytest

from mgnni.data.tables.schema import Column, Schema, TableOptions
from mgnni.errors import ArgumentError, DataError

SCHEMA = Schema(
    level="node",
    classes=("x", "ÿ"),
    multilabel=False,
    columns=(
        Column("size", "number", missing=True, fill=1 / 3, mean=0.1, deviation=1e-7),
        Column("colour", "category", ("blue", "red"), missing=True),
        Column("old", "bool"),
        Column("degree", "degree"),
    ),
    weighted=True,
    options=TableOptions(
        id="key", label="y", split_column=("s0", "s1"), directed=False, delimiter=";"
    ),
)


def test_there_and_back_through_json() -> None:
    text = json.dumps(SCHEMA.to_dict())
    assert Schema.from_dict(json.loads(text)) == SCHEMA


def test_feature_names() -> None:
    assert SCHEMA.feature_names == (
        "size",
        "size_missing",
        "colour=blue",
        "colour=red",
        "colour_missing",
        "old",
        "degree",
    )


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in SCHEMA.to_dict().items() if name != key}


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({**SCHEMA.to_dict(), "version": 2}, r"version 1 is needed \(got 2\)"),
        (without("version"), r"version 1 is needed \(got None\)"),
        ({**SCHEMA.to_dict(), "colour": 1}, "'schema' must be one of .*'colour'"),
        (without("classes"), r"'schema' must have \['classes'\]"),
        (
            {**SCHEMA.to_dict(), "columns": [{"name": "a"}]},
            r"'schema.columns' must have \['kind'\] \(got \['name'\]\)",
        ),
        (
            {**SCHEMA.to_dict(), "columns": [{"name": "a", "kind": "number", "unit": "m"}]},
            "'schema.columns' must be one of .*'unit'",
        ),
        (
            {**SCHEMA.to_dict(), "columns": [{"name": "a", "kind": "image"}]},
            "kind .*'image'",
        ),
        ({**SCHEMA.to_dict(), "options": {"fold": 1}}, "'schema.options' must be one of .*'fold'"),
        ("text", "'schema' .*str"),
        ({**SCHEMA.to_dict(), "columns": 3}, "'schema.columns' must be a list .*3"),
        ({**SCHEMA.to_dict(), "columns": ["size"]}, "'schema.columns' .*str"),
        ({**SCHEMA.to_dict(), "columns": [{"name": "a", "kind": [1]}]}, "'schema.columns.kind'"),
        (
            {**SCHEMA.to_dict(), "columns": [{"name": "a", "kind": "number", "fill": "much"}]},
            "'schema.columns.fill' .*'much'",
        ),
        ({**SCHEMA.to_dict(), "options": None}, "'schema.options' .*NoneType"),
        ({**SCHEMA.to_dict(), "options": {"label": 3}}, "'schema.options.label' .*3"),
        ({**SCHEMA.to_dict(), "options": {"id": 3}}, "'schema.options.id' .*3"),
        ({**SCHEMA.to_dict(), "options": {"delimiter": 3}}, "'schema.options.delimiter' .*3"),
        ({**SCHEMA.to_dict(), "classes": [1, 2]}, "'schema.classes' .*1"),
        ({**SCHEMA.to_dict(), "level": None}, "'schema.level' .*None"),
    ],
)
def test_what_is_not_known_is_refused(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Schema.from_dict(plain)


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
