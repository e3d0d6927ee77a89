"""The folder of the datasets, and the loading of their files."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import filelock

from mgnni.data.entry import Entry
from mgnni.errors import DataError, one_line

VARIABLE = "MGNNI_DATA"


def data_root(root: Path | None = None) -> Path:
    """Returns the folder of all datasets; it need not exist.

    Args:
        root (Path, optional): The folder. By default the value of the environment variable
            ``MGNNI_DATA``, or else ``mgnni`` in the cache of the user (``XDG_CACHE_HOME``, or
            ``~/.cache``).
    """
    if root is not None:
        return Path(root).expanduser()
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mgnni"


@contextlib.contextmanager
def loading(entry: Entry, root: Path, *, on_disk: bool | None = None) -> Iterator[None]:
    """Guards the loading of a dataset: one process at a time, no output, errors in one line.

    Args:
        entry (Entry): The dataset.
        root (Path): The folder of all datasets.
        on_disk (bool, optional): Whether the required files exist. (default:
            ``entry.on_disk(root)``)
    """
    exists = entry.on_disk(root) if on_disk is None else on_disk
    place = root / entry.place
    if entry.remedy and not exists:
        raise DataError(
            f"{entry.name}: not found in {place}, and there is no download; {entry.remedy}, or set "
            f"{VARIABLE}=FOLDER to a folder with {entry.place}"
        )
    try:
        # PyG prints its progress to standard error and has no option to turn that off.
        with _lock(entry, root), contextlib.redirect_stderr(io.StringIO()):
            yield
    except Exception as error:  # PyG's readers raise any error on a damaged file
        if exists:
            raise damaged(entry, root, one_line(error, 200)) from error
        # A failed download leaves empty folders; rmdir removes no other ones.
        above = [folder for folder in place.parents if root in folder.parents]
        for folder in (*sorted(place.rglob("*"), reverse=True), place, *above):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise DataError(
            f"{entry.name}: not found in {place}, and the download failed "
            f"({one_line(error, 200)}); connect to the network, or set {VARIABLE}=FOLDER to a "
            f"folder with {entry.place}"
        ) from error


def damaged(entry: Entry, root: Path, reason: str) -> DataError:
    """Returns the error for files with unexpected content."""
    again = f"{entry.remedy}, or copy it there again" if entry.remedy else "load it again"
    return DataError(
        f"{entry.name}: {root / entry.place} is damaged or cut short ({reason}); remove it and "
        f"{again}"
    )


def fetch_file(url: str, path: Path) -> Path:
    """Returns the file, after an atomic download if it does not exist."""
    if not path.is_file():
        # Imported here: listing the datasets needs no torch.
        from torch_geometric.data import download_url

        part = path.with_name(f".{path.name}.part")
        part.unlink(missing_ok=True)  # PyG would take an existing file as complete
        download_url(url, str(path.parent), log=False, filename=part.name)
        os.replace(part, path)
    return path


@contextlib.contextmanager
def _lock(entry: Entry, root: Path) -> Iterator[None]:
    """Waits for other processes that load this dataset: PyG would read incomplete files."""
    with contextlib.ExitStack() as stack:
        # Where no lock file can be created, nothing can be written, and reading is safe.
        with contextlib.suppress(OSError):
            root.mkdir(parents=True, exist_ok=True)
            stack.enter_context(filelock.FileLock(root / f".{entry.name}.lock"))
        yield
