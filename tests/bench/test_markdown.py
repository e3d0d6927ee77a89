"""Stored results as tables of the docs: nothing that is wrong becomes a number."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from mgnni.bench.row import ABSENT, CLAIM, MISSED, WRONG, Errors, Row
from mgnni.bench.settings import Settings
from mgnni.bench.store import stored

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
DATA = stored("solve", ROWS, Settings(torch.device("cpu")))


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
