"""Two small trainings, and stored results with numbers of a paper."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from torch import Tensor
from torch_geometric.data import Data

from html_report.definitions import write_definition
from mgnni.data.task import Task
from mgnni.train.fit import fit
from train.cases import node_data, random_split

HOSTILE = '<img src=x onerror="boom()"></script>&amp;'
PAPER = {"red": [64.05, 5.28], "grey": [50, None]}


def hostile_task() -> Task:
    """A task whose names are HTML."""
    data: Data
    labels: Tensor
    data, labels = node_data()
    splits = [random_split(data.num_nodes, index) for index in range(2)]
    return Task(f"red {HOSTILE}", [data], labels, splits, ["a", HOSTILE, "%{x}@low"])


@pytest.fixture(scope="session")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of two trainings: an implicit model, and one scored with test labels."""
    root = tmp_path_factory.mktemp("runs")
    small = {"hidden_channels": 4, "split": "all", "epochs": 6}
    fit(hostile_task(), output=root / f"one {HOSTILE.replace('/', '')}", gamma=0.5, **small)
    fit(hostile_task(), model="gcn", rule="test-max", output=root / "two", **small)
    return root


@pytest.fixture(scope="session")
def stored(trainings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stored results: ``results/webkb/ROW/red``, and ``experiments`` with the paper's numbers."""
    root = tmp_path_factory.mktemp("stored")
    report = json.loads((trainings / "two" / "report.json").read_text())
    for row in ("second", "first", "unknown"):
        folder = root / "results" / "webkb" / row / "red"
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(json.dumps({**report, "dataset": "red"}))
        shutil.copy(trainings / "two" / "config.json", folder)
    rows = [
        {"name": "first", "label": "First of paper", "model": "mgnni", "paper": PAPER},
        {"name": "second", "label": "Second", "model": "gcn", "paper": {"grey": [1, 2]}},
    ]
    columns = [{"name": "red"}, {"name": "grey"}]
    write_definition(root / "experiments" / "webkb.json", columns=columns, rows=rows)
    return root
