"""A folder for a training: made when needed, and gone if it was for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock

from cli.tables import listing
from mgnni.cli.files import folder_for

LONG, NEVER = 1e9, 0.0


def train(path: Path, worth: float, *, error: BaseException | None = None) -> None:
    """Write what a training writes, and perhaps fail."""
    with folder_for(path, worth), FileLock(path / ".lock"):
        for name in ("config.json", "state.pt"):
            (path / name).write_text("written")
        if error is not None:
            raise error


def test_a_training_that_ends_well_stays(tmp_path: Path) -> None:
    train(tmp_path / "a" / "b", LONG)
    assert set(listing(tmp_path)) == {"a", "a/b", "a/b/.lock", "a/b/config.json", "a/b/state.pt"}


def test_an_early_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no luck"):
        train(tmp_path / "a" / "b", LONG, error=RuntimeError("no luck"))
    assert listing(tmp_path) == {}


@pytest.mark.parametrize("error", [RuntimeError(), OSError(), KeyboardInterrupt()])
def test_a_late_failure_and_an_interrupt_leave_all(tmp_path: Path, error: BaseException) -> None:
    worth = LONG if isinstance(error, KeyboardInterrupt) else NEVER
    with pytest.raises(type(error)):
        train(tmp_path / "a", worth, error=error)
    assert (tmp_path / "a" / "state.pt").exists()


def test_without_a_checkpoint_there_is_nothing_to_keep(tmp_path: Path) -> None:
    def refuse() -> None:
        with folder_for(tmp_path / "a", NEVER):
            raise ValueError("other options")

    with pytest.raises(ValueError, match="other options"):
        refuse()
    assert listing(tmp_path) == {}


def test_what_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("of another training")
    (tmp_path / "notes.txt").write_text("mine")

    def fail() -> None:
        with folder_for(tmp_path, LONG), FileLock(tmp_path / ".lock"):
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


def test_a_training_that_another_process_began_meanwhile_stays(tmp_path: Path) -> None:
    """Its files are as new as ours would be; its lock is what tells."""

    def come_second() -> None:
        with folder_for(tmp_path / "a", LONG):
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
