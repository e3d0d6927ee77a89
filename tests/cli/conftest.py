"""Calling the command line as a user does, and catching what it says."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cli.tables import write_graphs, write_nodes
from mgnni.cli import main


class Ended(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def call() -> Callable[..., Ended]:
    """Run ``mgnni`` with these arguments."""

    def run(*args: str | Path) -> Ended:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([str(arg) for arg in args])
        return Ended(status, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a graph and many graphs in files."""
    monkeypatch.chdir(tmp_path)
    write_nodes(tmp_path / "mine")
    write_graphs(tmp_path / "many")
    return tmp_path
