"""The tables of the README and of docs are those of the stored results and of the catalog."""

import importlib.util
import json
from pathlib import Path

import pytest

from mgnni.models.catalog import MODELS
from mgnni.reproduce.definitions import select

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "table.py")
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)
STORED = ROOT / "reproduction"
REPORTS = sorted(STORED.glob("*/*/*/report.json"))


@pytest.mark.parametrize("page", table.pages(), ids=lambda page: page.name)
def test_tables_are_generated(page):
    text = page.read_text("utf-8")
    assert table.render(text) == text, "run: python benchmarks/table.py"


@pytest.mark.parametrize(
    "name",
    ["README.md", "docs/benchmarks.md", "docs/models.md", "docs/results.md", "docs/scale.md"],
)
def test_pages_have_not_lost_their_tables(name):
    assert table.BLOCK.search((ROOT / name).read_text("utf-8"))


def test_every_model_is_on_its_page():
    text = (ROOT / "docs" / "models.md").read_text("utf-8")
    tables = "".join(block[0] for block in table.BLOCK.finditer(text))
    for one in MODELS.values():
        assert f"| `{one.name}` | " in tables


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: str(path.parent.relative_to(STORED)))
def test_a_stored_report_belongs_to_a_cell_and_is_small(path):
    name, row, column = path.relative_to(STORED).parts[:3]
    (cell,) = select([name], models=[row], data=[column])
    report = json.loads(path.read_text("utf-8"))
    assert report["experiment"] == str(cell)
    assert not report["quick"]
    assert report["model"] == cell.row.architecture
    assert report["dataset"] == cell.column.dataset
    assert {one.name for one in path.parent.iterdir()} == {"config.json", "report.json"}
    assert path.stat().st_size <= 60_000
    config = json.loads((path.parent / "config.json").read_text("utf-8"))
    assert config["config"] == report["config"]
