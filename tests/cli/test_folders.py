"""The folder of a training is created when needed, and removed after an early failure."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from cli.tables import listing
from mgnni.cli.folders import training_folder

LONG, NEVER = 1e9, 0.0


def train(path: Path, worth: float, *, error: BaseException | None = None) -> None:
    """Write the files of a training, and fail if told so."""
    with training_folder(path, worth), FileLock(path / ".lock"):
        for name in ("config.json", "state.pt"):
            (path / name).write_text("written")
        if error is not None:
            raise error


def test_a_complete_training_stays(tmp_path: Path) -> None:
    train(tmp_path / "a" / "b", LONG)
    assert set(listing(tmp_path)) == {"a", "a/b", "a/b/.lock", "a/b/config.json", "a/b/state.pt"}


def test_an_early_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no luck"):
        train(tmp_path / "a" / "b", LONG, error=RuntimeError("no luck"))
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("error", [RuntimeError(), OSError(), KeyboardInterrupt()])
def test_a_late_failure_leaves_the_checkpoint(tmp_path: Path, error: BaseException) -> None:
    worth = LONG if isinstance(error, KeyboardInterrupt) else NEVER
    with pytest.raises(type(error)):
        train(tmp_path / "a", worth, error=error)
    assert (tmp_path / "a" / "state.pt").exists()


def test_a_failure_without_a_checkpoint_leaves_nothing(tmp_path: Path) -> None:
    def refuse() -> None:
        with training_folder(tmp_path / "a", NEVER):
            raise ValueError("other options")

    with pytest.raises(ValueError, match="other options"):
        refuse()
    assert listing(tmp_path) == {}


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("of another training")
    (tmp_path / "notes.txt").write_text("mine")

    def fail() -> None:
        with training_folder(tmp_path, LONG), FileLock(tmp_path / ".lock"):
            (tmp_path / "state.pt").write_text("new")
            (tmp_path / "more notes.txt").write_text("mine too")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert {name: (tmp_path / name).read_text() for name in listing(tmp_path)} == {
        "config.json": "of another training",
        "notes.txt": "mine",
        "more notes.txt": "mine too",
    }


def test_a_training_of_another_process_stays(tmp_path: Path) -> None:
    """Only its lock tells that the files are not ours."""

    def come_second() -> None:
        with training_folder(tmp_path / "a", LONG):
            other = FileLock(tmp_path / "a" / ".lock", thread_local=False)
            other.acquire()
            held.append(other)
            (tmp_path / "a" / "config.json").write_text("of the other")
            raise RuntimeError

    held: list[FileLock] = []
    with pytest.raises(RuntimeError):
        come_second()
    assert (tmp_path / "a" / "config.json").read_text() == "of the other"
    held[0].release()
