"""Getting a dataset from the disk or the network, quietly, and saying in one line what failed."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import filelock
from torch_geometric.data import download_url

from mgnni.data.entry import Entry
from mgnni.data.root import VARIABLE
from mgnni.errors import DataError


@contextlib.contextmanager
def fetching(entry: Entry, root: Path, *, on_disk: bool | None = None) -> Iterator[None]:
    """Guard the loading of a dataset: one process at a time, no chatter, errors in one line.

    Args:
        entry: the dataset.
        root: the folder of all datasets.
        on_disk: whether the files it needs are there, where the entry cannot tell.
    """
    there = entry.on_disk(root) if on_disk is None else on_disk
    place = root / entry.place
    if entry.remedy and not there:
        raise DataError(
            f"{entry.name}: not found in {place}, and there is no download; {entry.remedy}, or set "
            f"{VARIABLE}=FOLDER to a folder with {entry.place}"
        )
    try:
        # PyG tells of its progress on standard error, with no switch to turn that off.
        with _alone(entry, root), contextlib.redirect_stderr(io.StringIO()):
            yield
    except Exception as error:  # PyG's readers raise whatever a bad byte happens to cause
        if there:
            raise DataError(damaged(entry, root, _reason(error))) from error
        raise DataError(
            f"{entry.name}: not found in {place}, and the download failed ({_reason(error)}); "
            f"connect to the network, or set {VARIABLE}=FOLDER to a folder with {entry.place}"
        ) from error


def damaged(entry: Entry, root: Path, reason: str) -> str:
    """Word what to do about files that are not what they should be."""
    again = f"{entry.remedy}, or put a whole copy there" if entry.remedy else "load it again"
    place = root / entry.place
    return f"{entry.name}: {place} is damaged or cut short ({reason}); remove it and {again}"


def fetch_file(url: str, path: Path) -> Path:
    """Return the file, downloaded if it is not there; it is there whole or not at all."""
    if not path.is_file():
        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)  # PyG takes a file of this name as it is
        download_url(url, str(path.parent), log=False, filename=part.name)
        os.replace(part, path)
    return path


@contextlib.contextmanager
def _alone(entry: Entry, root: Path) -> Iterator[None]:
    """Wait until no other process is at this dataset: PyG would read what is half written."""
    with contextlib.ExitStack() as stack:
        # Where no lock can be made nothing can be written either, and reading is safe.
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            stack.enter_context(filelock.FileLock(root / f".{entry.name}.lock"))
        yield


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())[:200]
    return text if isinstance(error, DataError) else f"{type(error).__name__}: {text}"
