"""The tables of the README and of docs are those of the stored results."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "table.py")
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)


@pytest.mark.parametrize("page", table.pages(), ids=lambda page: page.name)
def test_tables_are_generated(page):
    text = page.read_text("utf-8")
    assert table.render(text) == text, "run: python benchmarks/table.py"


@pytest.mark.parametrize("name", ["README.md", "docs/benchmarks.md"])
def test_pages_have_not_lost_their_tables(name):
    assert table.BLOCK.search((ROOT / name).read_text("utf-8"))
