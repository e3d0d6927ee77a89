"""``mgnni report`` from the outside."""

from __future__ import annotations

import json
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.tables import QUICK, write_nodes

Call = Callable[..., Any]  # see conftest.py


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small graph in files."""
    monkeypatch.chdir(tmp_path)
    write_nodes(tmp_path / "mine")
    return tmp_path


def test_a_training_writes_its_own_report(call: Call, place: Path) -> None:
    ended = call("train", "mine", *QUICK)
    assert (ended.status, ended.err) == (0, "")
    page = place / "runs" / "mine" / "report.html"
    assert f"Report: {page.relative_to(place)}" in ended.out
    assert "mgnni report: mine" in page.read_text("utf-8")
    assert call("train", "mine", *QUICK, "--output", "other", "--no-report").status == 0
    assert not (place / "other" / "report.html").exists()


def test_without_plotly_a_training_has_no_report(
    call: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setattr("mgnni.html_report.page.find_spec", lambda name: None)
    ended = call("train", "mine", *QUICK)
    assert (ended.status, ended.err) == (0, "")
    assert not (place / "runs" / "mine" / "report.html").exists()
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    ended = call("report", "runs/mine")
    assert (ended.status, ended.out) == (1, "")
    assert "pip install 'mgnni[cli]'" in ended.err


def test_several_trainings_are_one_report(
    call: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for model in ("gcn", "mlp"):
        assert call("train", "mine", *QUICK, "--model", model, "--no-report").status == 0
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: opened.append(uri) or True)
    ended = call("report", "runs", "--output", "all.html", "--open")
    assert ended == (0, "Saved a report on 2 trainings: all.html\n", "")
    assert opened == [(place / "all.html").as_uri()]
    ended = call("report", "runs/mine-gcn", "runs/mine-mlp", "--output", "all.html", "--json")
    assert json.loads(ended.out) == {"command": "report", "output": "all.html", "trainings": 2}


def test_bad_input_is_explained(call: Call, place: Path) -> None:
    (place / "precious.html").write_text("mine")
    assert call("train", "mine", *QUICK, "--no-report").status == 0
    for args, status, message in (
        ((), 2, "RUNS must be at least one folder"),
        (("none",), 1, "none: no such folder"),
        (("mine",), 1, "found none"),
        (("runs", "--output", "precious.html"), 2, "--output must be a new file"),
        (("runs", "--output", "no/such/report.html"), 2, "--output must be in a folder"),
    ):
        ended = call("report", *args)
        assert (ended.status, ended.out) == (status, "")
        assert message in ended.err
    assert (place / "precious.html").read_text() == "mine"
    assert not (place / "report.html").exists()


def test_a_tracker_is_checked_before_training(call: Call, place: Path) -> None:
    ended = call("train", "mine", *QUICK, "--log", "wanb")
    assert (ended.status, ended.out) == (2, "")
    assert "--log must be one of" in ended.err
    assert not (place / "runs").exists()
