"""The real datasets, where a machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real() -> Path:
    """The folder of datasets that MGNNI_DATA names."""
    named = os.environ.get("MGNNI_DATA")
    if not named:
        pytest.skip("MGNNI_DATA names no folder of datasets")
    return Path(named)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut both ways that PyG has to the network."""

    def no_network(*_: object, **__: object) -> None:
        raise OSError("no\n network")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    monkeypatch.setattr("torch_geometric.io.fs.cp", no_network)
