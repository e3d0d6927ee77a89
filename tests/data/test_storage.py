from __future__ import annotations

import io
import sys
import threading
from pathlib import Path

import filelock
import pytest
from torch_geometric.datasets import WebKB

from data.raw import expect, write_geom_gcn
from mgnni.data.catalog import ENTRIES
from mgnni.data.registry import load_task
from mgnni.data.storage import data_root, fetch_file, loading
from mgnni.errors import DataError

TEXAS = ENTRIES["texas"]


def broken(entry, root: Path, **options: bool) -> str:
    """Fail while fetching, and return what is said about it."""
    with pytest.raises(DataError) as caught, loading(entry, root, **options):
        raise EOFError("too\n short")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_failure_without_files_is_a_failed_download(tmp_path: Path) -> None:
    message = broken(TEXAS, tmp_path)
    assert message.startswith(f"texas: not found in {tmp_path}/webkb/texas")
    assert "the download failed (EOFError: too short)" in message
    assert "MGNNI_DATA=FOLDER" in message


def test_a_failed_download_leaves_no_empty_folders(tmp_path: Path) -> None:
    raw = tmp_path / "webkb" / "texas" / "raw"
    raw.mkdir(parents=True)
    assert "the download failed" in broken(TEXAS, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".texas.lock"]
    raw.mkdir(parents=True)
    (tmp_path / "webkb" / "mine.txt").write_text("kept")
    assert "the download failed" in broken(TEXAS, tmp_path)
    assert [path.name for path in (tmp_path / "webkb").iterdir()] == ["mine.txt"]


def test_a_failure_with_files_means_that_they_are_damaged(tmp_path: Path) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    for message in (broken(TEXAS, tmp_path), broken(TEXAS, tmp_path, on_disk=True)):
        assert message.startswith(f"texas: {tmp_path}/webkb/texas is damaged")
        assert "(EOFError: too short); remove it" in message
    assert "download failed" in broken(TEXAS, tmp_path, on_disk=False)


def test_what_has_no_download_is_not_looked_for_elsewhere(tmp_path: Path) -> None:
    reached = []
    with pytest.raises(DataError) as caught, loading(ENTRIES["ppi-recon"], tmp_path / "new"):
        reached.append(True)
    assert str(caught.value).startswith(f"ppi-recon: not found in {tmp_path}/new/ppi_recon")
    assert ENTRIES["ppi-recon"].remedy in str(caught.value)
    assert not reached
    assert not (tmp_path / "new").exists()


def test_pyg_is_kept_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("texas", "cornell"):
        write_geom_gcn(tmp_path / "webkb" / name, name)
        expect(monkeypatch, name, nodes=4)
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # under a test PyG is quiet by itself
    load_task("texas", root=tmp_path)
    assert capsys.readouterr() == ("", "")
    WebKB(str(tmp_path / "webkb"), "cornell")
    assert "Processing" in capsys.readouterr().err


def test_an_interrupt_is_not_an_error_of_the_data(tmp_path: Path) -> None:
    before = sys.stderr
    with pytest.raises(KeyboardInterrupt), loading(TEXAS, tmp_path):
        raise KeyboardInterrupt
    assert sys.stderr is before


def test_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas", nodes=4)
    done = threading.Event()

    def load() -> None:
        load_task("texas", root=tmp_path)
        done.set()

    thread = threading.Thread(target=load)
    with filelock.FileLock(tmp_path / ".texas.lock"):  # as another process would hold it
        thread.start()
        assert not done.wait(0.3)
        assert not (tmp_path / "webkb" / "texas" / "processed").exists()
    assert done.wait(30)
    thread.join()


def test_a_folder_that_cannot_be_written_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_geom_gcn(tmp_path / "webkb" / "texas", "texas")
    expect(monkeypatch, "texas", nodes=4)

    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("filelock.FileLock", refuse)
    assert load_task("texas", root=tmp_path).num_rows == 4


class Web:
    """A network that breaks off after a number of answers."""

    def __init__(self, *chunks: bytes | Exception) -> None:
        self.chunks = [*chunks, b""]

    def read(self, _: int) -> bytes:
        chunk = self.chunks.pop(0)
        if isinstance(chunk, Exception):
            raise chunk
        return chunk


def test_a_download_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    webs = [Web(b"ab", OSError("gone")), Web(b"abcd", b"ef")]
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: webs.pop(0))
    path = tmp_path / "new" / "file.npz"
    with pytest.raises(OSError, match="gone"):
        fetch_file("https://nowhere/file.npz", path)
    assert not path.exists()
    assert fetch_file("https://nowhere/file.npz", path) == path
    assert path.read_bytes() == b"abcdef"
    assert [file.name for file in path.parent.iterdir()] == ["file.npz"]
    fetch_file("https://nowhere/file.npz", path)  # there is no third answer: it is there
    assert not webs


def test_nothing_is_left_of_the_redirection(tmp_path: Path) -> None:
    before = sys.stderr
    with loading(TEXAS, tmp_path):
        assert isinstance(sys.stderr, io.StringIO)
    assert sys.stderr is before


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
