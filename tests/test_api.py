"""The API reference lists every public name and is up to date."""

import enum
import importlib.util
import re
from pathlib import Path

import pytest
from torch import nn

import mgnni

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
make_api = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_api)


def test_the_page_is_up_to_date():
    text = make_api.PAGE.read_text("utf-8")
    assert text == make_api.render(), "run: python docs/make_api.py"


def test_the_page_lists_every_public_name():
    headings = {
        line.removeprefix("### ") for line in make_api.render().splitlines() if line[:4] == "### "
    }
    assert headings == set(make_api.public())
    assert {"MGNNI", "CGS", "fit", "Propagation", "MgnniError"} <= headings


def test_names_in_submodules_are_listed_with_their_summaries():
    text = make_api.submodules()
    for names in make_api.SUBMODULES.values():
        for name in names:
            assert re.search(rf"^- `{name}\(.*\).*`: \S", text, re.MULTILINE), name


def test_a_deprecated_alias_is_not_listed(monkeypatch):
    monkeypatch.setattr(mgnni, "__all__", ["MGNNI", "Old", "__version__"])
    monkeypatch.setattr(mgnni, "Old", mgnni.MGNNI, raising=False)
    assert list(make_api.public()) == ["MGNNI"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a :math:`P^m Z` b", "a $P^m Z$ b"),
        ("see :class:`~mgnni.graph.Propagation`", "see `Propagation`"),
        ("see :func:`fit`", "see `fit`"),
        ("either ``a`` or :obj:`None`", "either `a` or `None`"),
        ('the `"Title" <https://a.org/b>`_ paper', 'the ["Title"](https://a.org/b) paper'),
    ],
)
def test_docstrings_become_markdown(text, expected):
    assert make_api.markdown(text) == expected


def test_the_summary_is_the_first_paragraph():
    def documented():
        pass

    documented.__doc__ = "Do one thing\nwell.\n\nDetails."
    assert make_api.summary(documented) == "Do one thing well."


def test_a_signature_shows_types_defaults_and_keyword_only_arguments():
    def short(x: "int", *, y: "str | None" = None, **rest) -> "float":
        """Do it."""

    assert (
        make_api.signature(short, "short")
        == "short(x: int, *, y: str | None = None, **rest) -> float"
    )


def test_a_long_signature_has_one_argument_per_line():
    def long(first_argument: "int" = 1, second_argument: "int" = 2, third_argument: "int" = 3):
        """Do it."""

    lines = make_api.signature(long, "a_function_with_a_long_name").splitlines()
    assert lines[0] == "a_function_with_a_long_name("
    assert lines[1] == "    first_argument: int = 1,"
    assert lines[-1] == ")"


def test_an_error_names_its_base_classes():
    assert make_api.entry("ArgumentError", mgnni.ArgumentError).endswith(
        "A subclass of `MgnniError`, `ValueError`.\n"
    )


def test_an_enumeration_lists_its_members():
    class Color(enum.Enum):
        """A color."""

        RED = "red"

    assert make_api.entry("Color", Color) == "### Color\n\nA color.\n\n- `RED`: red\n"


def test_a_module_shows_its_forward():
    class Layer(nn.Module):
        """A layer."""

        def forward(self, x: "Tensor") -> "Tensor":  # noqa: F821
            """Apply the layer."""

    text = make_api.entry("Layer", Layer)
    assert "- `forward(x: Tensor) -> Tensor`: Apply the layer.\n" in text


def test_attributes_are_listed():
    class Result:
        """A result.

        Attributes:
            value: the value of it,
                on two lines.
            error (float): :math:`e`.

        More text: here.
        """

    assert make_api.attributes(Result) == [
        "- `value`: the value of it, on two lines.",
        "- `error`: $e$.",
    ]
    assert make_api.attributes(int) == []
