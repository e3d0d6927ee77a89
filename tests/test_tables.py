"""The tables of the README and of docs are those of the stored results and of the catalog."""

import importlib.util
import json
from pathlib import Path

import pytest

from mgnni.models.catalog import MODELS
from mgnni.train.config import Config, changed
from mgnni.train.presets import preset_for

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("table", ROOT / "benchmarks" / "table.py")
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)
REPORTS = sorted((ROOT / "benchmarks" / "reports").glob("*.json"))


@pytest.mark.parametrize("page", table.pages(), ids=lambda page: page.name)
def test_tables_are_generated(page):
    text = page.read_text("utf-8")
    assert table.render(text) == text, "run: python benchmarks/table.py"


@pytest.mark.parametrize(
    "name", ["README.md", "docs/benchmarks.md", "docs/models.md", "docs/results.md"]
)
def test_pages_have_not_lost_their_tables(name):
    assert table.BLOCK.search((ROOT / name).read_text("utf-8"))


def test_every_model_is_on_its_page():
    text = (ROOT / "docs" / "models.md").read_text("utf-8")
    tables = "".join(block[0] for block in table.BLOCK.finditer(text))
    for one in MODELS.values():
        assert f"| `{one.name}` | " in tables


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_stored_report_is_of_the_settings_as_they_are(path):
    """Or its name says in what it differs: DATA-MODEL-undirected."""
    report = json.loads(path.read_text("utf-8"))
    settings = preset_for(report["dataset"], report["data"]["level"], model=report["model"])
    change = path.stem.removeprefix(f"{report['dataset']}-{report['model']}")
    if change:
        assert change == "-undirected"
        settings = changed(settings, {"undirected": True})
    assert Config.from_dict(report["config"]) == settings
    assert report["protocol"]["honest"]
    assert len(report["runs"]) == report["data"]["splits"]
