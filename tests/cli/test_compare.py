"""``mgnni compare`` from the outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.tables import QUICK, node_rows, write_graphs, write_nodes

Call = Callable[..., Any]  # see conftest.py
SPLITS = ("--num-splits", "3", "--no-report", *QUICK)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with two small graphs in files."""
    monkeypatch.chdir(tmp_path)
    write_nodes(tmp_path / "mine", node_rows(splits=False))
    write_graphs(tmp_path / "many")
    return tmp_path


def test_two_models_are_compared_on_the_same_splits(call: Call, place: Path) -> None:
    for model in ("gcn", "mlp"):
        assert call("train", "mine", *SPLITS, "--model", model).status == 0
    ended = call("compare", "runs/mine-gcn", "runs/mine-mlp/report.json")
    assert (ended.status, ended.err) == (0, "")
    found = json.loads(call("compare", "runs", "--json").out)
    tests = []
    for model in ("gcn", "mlp"):
        report = json.loads((place / "runs" / f"mine-{model}" / "report.json").read_text())
        tests.append([100 * run["test"]["accuracy"] for run in report["runs"]])
        mean, std = (100 * report["score"][name] for name in ("mean", "std"))
        assert f"{mean:.2f} ± {std:.2f}" in ended.out
        assert found["summaries"][f"runs/mine-{model}"]["mean"] == pytest.approx(mean)
    gap = sum(a - b for a, b in zip(*tests, strict=True)) / 3
    assert found["pairs"][0]["difference"]["difference"] == pytest.approx(gap)
    assert f"{gap:+.2f}" in ended.out
    assert "mine: test accuracy in %, by rule validation" in ended.out


def test_other_columns_can_be_compared_and_other_data_cannot(call: Call, place: Path) -> None:
    assert call("train", "mine", *SPLITS).status == 0
    options = ("--standardize", "--num-splits", "2", "--output", "standardized")
    assert call("train", "mine", *SPLITS, *options).status == 0
    ended = call("compare", "runs/mine", "standardized")
    assert ended.status == 0
    assert "were read with different options" in ended.out
    assert call("train", "many", "--no-report", *QUICK).status == 0
    ended = call("compare", "runs/mine", "runs/many")
    assert (ended.status, ended.out) == (1, "")
    assert "must be on the same data (got mine in runs/mine and many in runs/many" in ended.err


def test_what_is_no_training_is_refused(call: Call, place: Path) -> None:
    for arguments, message in (
        ((), "RUNS must be at least two folders (got none)"),
        (("nowhere", "mine"), "nowhere: no such folder"),
        (("mine", "many"), "must be or contain the folder of a complete training"),
    ):
        ended = call("compare", *arguments)
        assert ended.status in (1, 2)
        assert message in ended.err
