from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from mgnni.files import atomic_write


def test_a_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with atomic_write(path) as file:
        file.write(b"whole")
        assert not path.exists()
    assert path.read_bytes() == b"whole"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


def test_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stopped"), atomic_write(path):
        raise RuntimeError("stopped")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.csv"
    with pytest.raises(FileNotFoundError) as caught, atomic_write(path):
        pass
    assert caught.value.filename == str(path)
    assert ".part" not in str(caught.value)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder") as caught_replace:
        with atomic_write(tmp_path / "folder"):
            pass
    assert ".part" not in str(caught_replace.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_read_only_file_system_is_reported_for_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)  # it fails there as well, even without a file
    with pytest.raises(OSError, match="Read-only") as caught, atomic_write(tmp_path / "p.csv"):
        pass
    assert caught.value.filename == str(tmp_path / "p.csv")


def test_a_full_disk_is_reported_for_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space") as caught, atomic_write(tmp_path / "p.csv"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(tmp_path / "p.csv")
    assert str(caught.value).endswith(f": {str(tmp_path / 'p.csv')!r}")
