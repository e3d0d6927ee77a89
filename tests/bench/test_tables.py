"""Every table can be made, all its results are right, and the docs show it."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from mgnni.bench.compete import RIVAL
from mgnni.bench.results import ABSENT, CLAIM, MISSED, RIGHT, WRONG, Errors, Row, Settings, stored
from mgnni.bench.tables import TABLES
from mgnni.files import to_json

FILE = Path(__file__).parents[2] / "benchmarks" / "table.py"
SPEC = importlib.util.spec_from_file_location("table", FILE)
table = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(table)

ERRORS = Errors(1e-7, 2e-6)
ROWS = [
    Row("one", "textbook", "cpu", 2.5, ERRORS, CLAIM, 1e-6, ratio=1.0),
    Row("one", "TorchDEQ", "cpu", verdict=ABSENT, note="not installed"),
    Row("one", "mgnni", "cpu", 0.0125, ERRORS, CLAIM, 1e-6, 2**21, 200.0),
    Row("one", "mgnni, cg", "cpu", verdict=MISSED),
    Row("two", "textbook", "cpu", 0.5, ERRORS, CLAIM, 1e-6, ratio=1.0),
    Row("two", "mgnni", "cpu", None, Errors(1e-3, 1e-3), CLAIM, 1e-6, verdict=WRONG),
]
DATA = stored("solve", "Solve", ROWS, Settings(torch.device("cpu")))


@pytest.mark.parametrize("name", TABLES)
def test_all_rows_are_right(device, name, monkeypatch):
    for module in ("equation", "rivals"):  # the same rows whether it is installed or not
        monkeypatch.setattr(f"mgnni.bench.{module}.deq_installed", lambda: False)
    settings = Settings(device, quick=True)
    rows = list(TABLES[name].rows(settings))
    verdicts = {(row.case, row.method): row.verdict for row in rows}
    assert len(verdicts) == len(rows), "one row a method and case"
    there = {key: verdict for key, verdict in verdicts.items() if verdict != ABSENT}
    assert set(there.values()) == {RIGHT}, there
    assert all(row.seconds for row in rows if row.verdict == RIGHT)
    for case in {row.case for row in rows}:
        methods = {row.method: row for row in rows if row.case == case}
        mine = [row for method, row in methods.items() if method.startswith("mgnni")]
        assert mine
        if name == "large":  # where the textbook would take minutes
            continue
        assert methods[RIVAL].ratio == 1
        for row in mine:
            if row.method == "mgnni, tf32":  # which claims less, and is held to that above
                continue
            assert row.errors.forward <= max(methods[RIVAL].errors.forward, 1e-6)

    data = json.loads(to_json(stored(name, TABLES[name].title, rows, settings)))
    assert (data["table"], data["quick"]) == (name, True)
    assert {"device", "threads", "versions", "commit", "date"} <= set(data)
    assert data["rows"][0]["errors"].keys() == {"forward", "gradient"}
    assert len(data["rows"]) == len(rows)


def lines(text: str) -> list[str]:
    first, empty, _, _, *rows = text.splitlines()
    assert first.startswith("cpu (")
    assert not empty
    return rows


def test_every_row_with_its_errors():
    assert lines(table.full_table(DATA)) == [
        "| one | textbook | 2,500 | 1.00 | 1e-07 | 2e-06 |  |",
        "|  | TorchDEQ (not installed) | – |  |  |  |  |",
        "|  | mgnni | 12.5 | 200.00 | 1e-07 | 2e-06 | 2 |",
        "|  | mgnni, cg | not reached |  |  |  |  |",
        "| two | textbook | 500 | 1.00 | 1e-07 | 2e-06 |  |",
        "|  | mgnni | wrong |  | 1e-03 | 1e-03 |  |",
    ]


def test_one_line_a_case():
    assert lines(table.solve_table(DATA)) == [
        "| one | 2,500 | – | 12.5 | 200.0 × |",
        "| two | 500 |  | wrong |  |",
    ]


def test_one_column_a_solver():
    assert lines(table.solvers_table(DATA)) == ["| one | not reached |", "| two |  |"]
