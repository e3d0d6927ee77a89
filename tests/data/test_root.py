from __future__ import annotations

from pathlib import Path

import pytest

from mgnni.data.storage import data_root


def test_the_argument_then_the_variable_then_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("MGNNI_DATA", "/data")
    assert data_root(Path("/here")) == Path("/here")
    assert data_root() == Path("/data")
    monkeypatch.setenv("MGNNI_DATA", "~/data")
    assert data_root() == Path("/home/me/data")
    monkeypatch.setenv("MGNNI_DATA", "")
    assert data_root() == Path("/cache/mgnni")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path("/home/me/.cache/mgnni")
