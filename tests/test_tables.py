"""The tables of the README are those of the stored results."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tables_are_generated():
    spec = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    text = (ROOT / "README.md").read_text()
    assert table.BLOCK.search(text), "the README has lost its tables"
    assert table.render(text) == text, "run: python benchmarks/table.py"
