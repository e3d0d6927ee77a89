"""Two percent of the nodes are positive: what a user of the command line sees, and what helps."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.tables import write
from mgnni.cli.assessment_output import assessment_lines

Call = Callable[..., Any]  # see conftest.py
NODES, POSITIVE = 1000, 20
TRAIN = ("train", "rare", "--model", "gcn", "--directed", "false", "--epochs", "60")
FAST = ("--hidden-channels", "8", "--lr", "0.02", "--device", "cpu", "--no-report")


def test_one_test_row_is_not_counted_as_several() -> None:
    rare = {"name": "yes", "precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 1}
    found = {"interval": None, "baseline": {}, "calibration": {"expected_error": 0.1}}
    found |= {"rare": [], "runs": [{}], "classes": [rare]}
    report = {"classification": found, "metric": "accuracy", "protocol": {"mark": ""}}
    lines = assessment_lines({**report, "runs": [{"test": {}}], "config": {}})
    assert list(lines)[-1] == "class yes: precision 50.00, recall 100.00, F1 66.67 %, 1 test row"


def write_rare(folder: Path) -> Path:
    """Positive nodes have more positive neighbours, and a feature with a lot of noise."""
    draw = random.Random(0)
    parts = [("train", "val", "test")[i % 5 // 2 if i % 5 else 0] for i in range(NODES)]
    nodes, pairs = ["id,a,b,fraud,split"], set()
    for i in range(NODES):
        positive = i < POSITIVE
        signal = draw.gauss(2.0 if positive else 0.0, 1.0)
        label = "yes" if positive else "no"
        nodes.append(f"n{i:03d},{signal:.3f},{draw.gauss(0, 1):.3f},{label},{parts[i]}")
        ends = [draw.randrange(POSITIVE if positive else NODES), draw.randrange(NODES)]
        pairs |= {(min(i, end), max(i, end)) for end in ends if end != i}
    edges = [f"n{i:03d},n{j:03d}" for i, j in sorted(pairs)]
    return write(folder, nodes=nodes, edges=["source,target", *edges])


@pytest.fixture(scope="module")
def trained(call: Call, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A training as it comes, one with class weights, and what both have printed."""
    folder = tmp_path_factory.mktemp("rare")
    write_rare(folder / "rare")
    shown = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, more in (("plain", ()), ("balanced", ("--class-weight", "balanced"))):
            options = ("--label", "fraud", *more, "--output", f"runs/{name}")
            ended = call(*TRAIN, *FAST, *options)
            assert ended.status == 0, ended.err
            shown[name] = " ".join(ended.out.split())
    return folder, shown


def report(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "runs" / name / "report.json").read_text())
    return found


def test_a_user_is_told_that_a_class_is_rare(trained: tuple[Path, dict[str, str]]) -> None:
    folder, shown = trained
    text = shown["plain"]
    before, _, after = text.partition("validation %")  # the result
    assert "classes: no 98.0 %, yes 2.0 %" in before
    assert "rare classes: yes (2.0 %): pass --class-weight balanced" in before
    assert "always predicting 'no': accuracy 98.00 %" in after
    assert "class yes is rare, 2.00 % of the rows: look at its recall" in after
    assert "class yes: precision" in after
    assert "and try --class-weight balanced" in after
    assert report(folder, "plain")["classification"]["rare"][0]["class"] == "yes"


def test_class_weights_raise_the_balanced_accuracy(trained: tuple[Path, dict[str, str]]) -> None:
    folder, shown = trained
    plain, balanced = (report(folder, name) for name in ("plain", "balanced"))
    (before,), (after,) = (one["runs"] for one in (plain, balanced))
    gain = after["test"]["balanced_accuracy"] - before["test"]["balanced_accuracy"]
    assert gain > 0.1
    assert (plain["metric"], balanced["metric"]) == ("accuracy", "balanced_accuracy")
    assert "and try --class-weight balanced" not in shown["balanced"]


def test_predictions_use_the_threshold_of_validation(
    call: Call, trained: tuple[Path, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = trained
    monkeypatch.chdir(folder)
    found = report(folder, "balanced")["classification"]
    threshold = found["runs"][0]["threshold"]
    ended = call("predict", "runs/balanced", "rare")
    assert ended.status == 0
    assert f"'yes' where its probability exceeds {threshold:.4g}" in " ".join(ended.out.split())
    with (folder / "runs" / "balanced" / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == NODES
    assert all((row["prediction"] == "yes") == (float(row["p_yes"]) > threshold) for row in rows)
    # The confusion matrix of the report is that of these very predictions.
    test = [row for row in rows if row["split"] == "test"]
    counts = [
        [sum((row["label"], row["prediction"]) == (true, said) for row in test) for said in order]
        for order in [("no", "yes")]
        for true in order
    ]
    assert counts == report(folder, "balanced")["confusion"]["counts"]
    # Without class weights accuracy is the metric, and the more probable class is predicted.
    assert "threshold" not in report(folder, "plain")["classification"]
