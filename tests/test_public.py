"""The public names: each is there, documented, and known to type checkers."""

import ast
import inspect
from pathlib import Path

import pytest

import mgnni


def typed_names() -> dict[str, str]:
    """What type checkers are told: name -> module, from the imports under TYPE_CHECKING."""
    tree = ast.parse(Path(mgnni.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_type_checkers_are_told_the_truth():
    assert typed_names() == mgnni._HOMES


@pytest.mark.parametrize("name", sorted(typed_names()))
def test_every_public_name_is_there_and_says_what_it_is(name):
    found = getattr(mgnni, name)
    assert found.__name__ == name
    assert inspect.getdoc(found)
    assert name in dir(mgnni)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'MGNI'"):
        mgnni.MGNI  # noqa: B018
