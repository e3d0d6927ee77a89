"""Output folders of commands."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from mgnni.cli.arguments import UsageError
from mgnni.errors import LostProcessError
from mgnni.files import atomic_write


def writable_folder(path: Path) -> Path:
    """Create the folder if necessary, and check that a file can be written to it."""
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


def default_folder(name: str) -> Path:
    """Return the folder in ``runs`` with a name that may hold any characters."""
    return Path("runs") / re.sub(r"[^\w.-]", "-", name)


def run_folder(path: Path) -> Path:
    """Return the folder of a complete training, given it or its model.pt."""
    folder = path.parent if path.name == "model.pt" else path
    if not (folder / "model.pt").is_file():
        raise UsageError(
            f"RUN must be the output folder of a complete training (got {str(path)!r}, which has "
            "no model.pt); train one with mgnni train"
        )
    return folder


@contextlib.contextmanager
def result_folder(path: Path) -> Iterator[None]:
    """Create the folder of a result, and remove it again, if it is new, when there is none."""
    missing = [place for place in (path, *path.parents) if not place.exists()]
    writable_folder(path)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # a folder that is not empty stays
            for place in missing:
                place.rmdir()
        raise


def write_result(
    folder: Path, names: tuple[str, str], text: str, draw: Callable[[IO[bytes]], None]
) -> str:
    """Write a result and, if matplotlib is installed, a figure of it; return what was written.

    Args:
        folder (Path): The folder, which must exist.
        names (tuple[str, str]): Names of the file with the result and of the figure.
        text (str): The result, as JSON.
        draw (Callable[[IO[bytes]], None]): Writes the figure to a file.
    """
    with atomic_write(folder / names[0]) as file:
        file.write(text.encode())
    if importlib.util.find_spec("matplotlib") is None:
        missing = "No figure without matplotlib; run: pip install matplotlib\n"
        return f"{missing}Saved {names[0]} in {folder}.\n"
    with atomic_write(folder / names[1]) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)  # drawn as an empty box
        draw(file)
    return f"Saved {', '.join(names)} in {folder}.\n"


@contextlib.contextmanager
def training_folder(path: Path, worth_keeping: float) -> Iterator[None]:
    """Create the folder of a training, and remove it again if the training fails early.

    Args:
        path (Path): The folder.
        worth_keeping (float): Seconds of training after which a checkpoint is kept.
    """
    missing = [place for place in (path, *path.parents) if not place.exists()]
    before = set(path.iterdir()) if path.is_dir() else set()
    start = time.monotonic()
    try:
        writable_folder(path)
        yield
    except Exception as error:
        lost = isinstance(error, LostProcessError)  # nothing is wrong with this training
        early = time.monotonic() - start < worth_keeping and not lost
        if early or not any((path / name).exists() for name in ("state.pt", "portfolio.json")):
            _undo(path, before, missing)
        raise


def _undo(path: Path, before: set[Path], missing: list[Path]) -> None:
    """Remove what was not there before, unless another process is training there."""
    from filelock import FileLock, Timeout

    from mgnni.train.folder import FILES, PORTFOLIO

    lock = path / ".lock"
    # The error that led here is the one to report, so errors of the cleanup are ignored.
    with contextlib.suppress(OSError, Timeout):
        if lock.exists():
            with FileLock(lock, timeout=0):
                for file in {path / name for name in (*FILES, PORTFOLIO, lock.name)} - before:
                    file.unlink(missing_ok=True)
        for place in missing:
            place.rmdir()
