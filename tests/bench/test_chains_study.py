"""The study of longer and longer chains: what it counts, what it keeps, what it draws."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

FILE = Path(__file__).parents[2] / "benchmarks" / "chains.py"
SPEC = importlib.util.spec_from_file_location("chains_study", FILE)
study = sys.modules["chains_study"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(study)


def stored(path: Path) -> dict[tuple[str, int], dict]:
    rows = json.loads(path.read_text("utf-8"))["rows"]
    return {(row["case"]["model"], row["case"]["length"]): row for row in rows}


def asked(output: Path, *more: str) -> list[str]:
    device = ["--device", "cpu", "--splits", "2", "--epochs", "2"]
    return ["--lengths", "11", "10", *device, "--output", str(output), *more]


@pytest.mark.parametrize(
    ("right", "reach"),
    [
        ([[1, 1, 1, 1]], 3),
        ([[1, 1, 0, 1]], 1),  # what is right again beyond a gap is luck
        ([[0, 1, 1, 1]], None),
        ([[1, 1, 1, 0], [1, 1, 1, 1]], 2),  # half of the runs is not known
    ],
)
def test_the_reach_ends_at_the_first_distance_that_is_not_known(right, reach):
    hop = torch.tensor([3, 1, 0, 2])
    found = [(hop, torch.tensor(one, dtype=torch.bool)[hop]) for one in right]
    assert study.reach(found) == reach


def test_what_is_stored_is_not_trained_again(tmp_path, monkeypatch, capsys):
    study.main(asked(tmp_path, "--models", "gcn"))
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "chains 11 gcn",
        "chains 10 gcn",
    ]
    trained = []

    def failing(case, device):
        trained.append((case.model, case.length))
        return case.row(error="not solved")

    monkeypatch.setattr(study, "measure", failing)
    before = stored(tmp_path / "chains.json")
    for _ in range(2):  # a failure is told, kept, and tried again
        study.main(asked(tmp_path, "--models", "gcn", "sgc"))
    assert trained == [("sgc", 11), ("sgc", 10)] * 2
    assert capsys.readouterr().out.count("sgc: not solved") == 4
    after = stored(tmp_path / "chains.json")
    assert {key: after[key] for key in before} == before
    assert after["sgc", 10]["error"] == "not solved"


def test_a_row_tells_how_it_was_solved_and_what_exactness_would_change(tmp_path, monkeypatch):
    whole, fitted = [], study.fit
    monkeypatch.setattr(study, "fit", lambda *a, **k: whole.append(fitted(*a, **k)) or whole[-1])
    study.main(asked(tmp_path, "--models", "mgnni", "gcn", "--data", "colors", "--lengths", "12"))
    rows = stored(tmp_path / "colors.json")
    assert rows.keys() == {("mgnni", 12), ("gcn", 12)}
    mgnni, gcn = rows["mgnni", 12], rows["gcn", 12]
    assert gcn["exact"] is None
    assert gcn["relative_residual"] == 0
    assert 0 < mgnni["relative_residual"] <= 1e-6
    assert mgnni["relative_residual"] <= mgnni["relative_error_bound"]
    assert mgnni["trained"] == [2, 2]
    case = study.Case("colors", "mgnni", 12, 2, 2)
    # By another way: the accuracies of the runs from the logits, against those of the report.
    accuracy = [float(right.double().mean()) for _, right in study.outcomes(whole[0], case)]
    assert sum(accuracy) / 2 == pytest.approx(mgnni["mean"], abs=1e-12)
    assert (tmp_path / "colors.png").read_bytes().startswith(b"\x89PNG")


def test_exact_trains_what_is_solved_in_float64(tmp_path):
    study.main(asked(tmp_path, "--models", "mgnni", "gcn", "--exact", "--lengths", "10"))
    rows = stored(tmp_path / "chains-exact.json")
    assert rows["mgnni", 10]["config"]["precision"] == "64"
    assert rows["mgnni", 10]["relative_residual"] <= 1e-14
    assert rows["gcn", 10]["config"]["precision"] == "32"  # nothing is solved
    assert rows["mgnni", 10]["exact"] == pytest.approx(rows["mgnni", 10]["mean"], abs=1e-12)


def test_what_cannot_be_solved_so_exactly_keeps_its_row(tmp_path, monkeypatch):
    out_of_reach = {"precision": "64", "tol": 1e-300}
    monkeypatch.setattr(study, "LAST_DIGITS", out_of_reach)
    study.main(asked(tmp_path, "--models", "eignn", "--lengths", "10"))
    row = stored(tmp_path / "chains.json")["eignn", 10]
    assert row["exact"] is None
    assert 0 <= row["mean"] <= 1
    assert row["n"] == 2
    study.main(asked(tmp_path, "--models", "eignn", "--lengths", "10", "--exact"))
    assert "stopped" in stored(tmp_path / "chains-exact.json")["eignn", 10]["error"]
