"""Folders for what a command writes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from mgnni.cli.errors import UsageError


def writable_folder(path: Path) -> Path:
    """Make the folder if need be, and be sure that a file can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".write-test.{os.getpid()}.part"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"--output must be a folder that can be written to (got {str(path)!r}: {reason}); "
            "choose another with --output FOLDER"
        ) from error
    return path


@contextlib.contextmanager
def folder_for(path: Path, worth: float) -> Iterator[None]:
    """Make a folder to train in; if that fails early, the disk is left as it was.

    Args:
        path: the folder.
        worth: seconds of training after which its log and its checkpoint are worth keeping.
    """
    missing = [place for place in (path, *path.parents) if not place.exists()]
    before = set(path.iterdir()) if path.is_dir() else set()
    start = time.monotonic()
    try:
        writable_folder(path)
        yield
    except Exception:  # whatever it was goes on its way; the disk is put in order first
        early = time.monotonic() - start < worth
        if early or not (path / "state.pt").exists():
            _undo(path, before, missing)
        raise


def _undo(path: Path, before: set[Path], missing: list[Path]) -> None:
    """Remove what was not there before, unless another process has come to work there."""
    from filelock import FileLock, Timeout

    from mgnni.train.folder import FILES

    lock = path / ".lock"
    # What cannot be removed stays: the error that led here is the one to be told.
    with contextlib.suppress(OSError, Timeout):
        if lock.exists():
            with FileLock(lock, timeout=0):
                for file in {path / name for name in (*FILES, lock.name)} - before:
                    file.unlink(missing_ok=True)
        for place in missing:
            place.rmdir()
