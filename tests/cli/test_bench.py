"""``mgnni bench`` from the outside."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mgnni.bench.results import ABSENT, CLAIM, MISSED, WRONG, Errors, Row
from mgnni.bench.tables import TABLES, Table
from mgnni.cli import bench
from mgnni.cli.bench import NAMES
from mgnni.cli.bench_output import FIGURES, duration

Call = Callable[..., Any]  # see conftest.py

ROWS = [
    Row("a case", "textbook", "cpu", 0.0123, Errors(1e-7, 1e-6), CLAIM, 1e-6, ratio=1.0),
    Row("a case", "mgnni", "cpu", None, Errors(2e-5, 3e-6), CLAIM, 1e-6, verdict=WRONG),
    Row("a case", "lost", "cpu", verdict=MISSED, note="at no tolerance"),
    Row("a case", "TorchDEQ", "cpu", verdict=ABSENT, note="not installed"),
]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tables that take no time: in one of them a result is wrong."""
    monkeypatch.setitem(TABLES, "small", Table("Small", lambda settings: iter(ROWS)))
    monkeypatch.setitem(TABLES, "solve", Table("Solve", lambda settings: iter(ROWS[:1])))


def test_a_real_table_with_its_picture(call: Call, tmp_path: Path) -> None:
    ended = call("bench", "scaling", "--quick", "--device", "cpu", "--out", tmp_path)
    assert ended.status == 0, ended.err
    assert {path.name for path in tmp_path.iterdir()} == {"scaling-cpu.json", "scaling-cpu.png"}
    assert (tmp_path / "scaling-cpu.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads((tmp_path / "scaling-cpu.json").read_text())
    assert "quick: times mean little" in ended.out
    for row in stored["rows"]:
        assert row["case"] in ended.out
        assert duration(row["seconds"]) in ended.out


@pytest.mark.parametrize("name", FIGURES)
def test_stored_tables_can_be_drawn(name: str) -> None:
    for path in (Path(__file__).parents[2] / "benchmarks" / "results").glob(f"{name}-*.json"):
        figure = io.BytesIO()
        FIGURES[name](json.loads(path.read_text("utf-8")), figure)
        assert figure.getvalue().startswith(b"\x89PNG")


def test_a_wrong_result_is_printed_without_a_time(call: Call, tmp_path: Path, tables: None) -> None:
    ended = call("bench", "solve", "small", "--quick", "--device", "cpu", "--output", tmp_path)
    assert ended.status == 1
    assert "2e-05" in ended.out
    lines = {line.split()[0]: line.split() for line in ended.out.splitlines() if line.strip()}
    assert lines["textbook"][1:4] == ["12.3", "ms", "1.00"]
    assert lines["mgnni"] == ["mgnni", "wrong", "2e-05", "3e-06", "1e-06"]
    assert lines["lost"][1:3] == ["not", "reached"]
    assert lines["TorchDEQ"][1:] == ["absent", "not", "installed"]
    assert ended.err.splitlines()[-1].startswith(
        "mgnni bench: error: 1 wrong, first mgnni on a case: errors 2.0e-05 forward"
    )
    assert json.loads((tmp_path / "small-cpu.json").read_text())["rows"][1]["seconds"] is None


def test_long_names_of_cases_leave_room_for_notes(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = "a graph of a shape that it takes many words to tell of, and a few more"
    row = Row(case, "a method of two", "cpu", 0.5, ratio=1.0, memory=2**30, note="one solver")
    monkeypatch.setitem(TABLES, "small", Table("Small", lambda settings: iter([row])))
    ended = call("bench", "small", "--device", "cpu", "--output", tmp_path)
    assert ended.status == 0, ended.err
    (line,) = [line.split() for line in ended.out.splitlines() if "500 ms" in line]
    assert line == "a method of two 500 ms 1.00 1,024 MiB one solver".split()


def test_json_is_all_there_is(call: Call, tmp_path: Path, tables: None) -> None:
    ended = call("bench", "solve", "--device", "cpu", "--json", "--output", tmp_path)
    assert (ended.status, ended.err) == (0, "")
    (table,) = json.loads(ended.out)["tables"]
    assert table == json.loads((tmp_path / "solve-cpu.json").read_text())
    assert table["rows"][0]["errors"] == {"forward": 1e-7, "gradient": 1e-6}


def test_without_names_all_that_fit_are_made(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, table in TABLES.items():
        made = Table(table.title, lambda settings: iter(ROWS[:1]), table.cuda_only)
        monkeypatch.setitem(TABLES, name, made)
    monkeypatch.setattr(bench, "_can_draw", lambda: False)  # nothing but the pictures is lost
    ended = call("bench", "--device", "cpu", "--output", tmp_path)
    assert ended.status == 0, ended.err
    assert "pip install matplotlib" in ended.out
    assert "too large for a CPU: large" in ended.out
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {f"{name}-cpu.json" for name in NAMES if name != "large"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["epochs"], "TABLE must be one of epoch, ppi"),
        (["epochs"], "did you mean epoch?"),
        (["small", "small"], "TABLE must not be repeated"),
        (["large", "--device", "cpu"], "large needs a GPU (got cpu); use --device cuda"),
        (["small", "--device", "tpu"], "--device must be one of ['auto', 'cpu', 'cuda']"),
    ],
)
def test_bad_usage_is_one_line(call: Call, tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = call("bench", *arguments, "--output", tmp_path / "new")
    assert (ended.status, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert said in line
    assert not (tmp_path / "new").exists()


def test_names_are_those_of_the_tables(call: Call) -> None:
    assert tuple(TABLES) == NAMES
    assert set(FIGURES) <= set(NAMES)
    ended = call("bench", "--help")
    assert ended.status == 0
    assert all(word in ended.out for word in (*NAMES, "--quick", "--output", "--json"))


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(12.34, "12.3 s"), (0.5, "500 ms"), (0.00123, "1.23 ms"), (4.56e-5, "45.6 µs")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said
