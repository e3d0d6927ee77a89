"""The folder of a training: everything in it is whole at every moment."""

from __future__ import annotations

import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from mgnni.errors import DataError
from mgnni.files import atomic_write
from mgnni.train.report import to_json
from mgnni.train.training import Training

EVERY = 10.0  # seconds between two checkpoints, or more if they take long to write
FILES = ("config.json", "log.jsonl", "state.pt", "model.pt", "report.json")


ANEW = "delete it to train from the beginning"


class Folder:
    """``config.json``, ``log.jsonl``, ``state.pt`` while training; ``model.pt``, ``report.json``.

    ``report.json`` is written last: where it is, the training is complete.
    """

    def __init__(self, path: Path, every: float = EVERY) -> None:
        self.path, self.every = path, every
        self._lock = FileLock(path / ".lock")
        self._next = 0.0

    def __enter__(self) -> Folder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            raise DataError(
                f"{self.path}: another process is training here; wait for it, or choose another "
                "folder"
            ) from None
        except OSError as error:
            raise DataError(
                f"{self.path}: must be a folder that can be written to ({_reason(error)}); choose "
                "another one"
            ) from error
        for name in FILES:
            for draft in self.path.glob(f".{name}.*.part"):  # of a process that was killed
                draft.unlink()
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()  # the file stays: who removed it could take it from a newcomer

    def open(self, header: dict[str, Any], resume: bool) -> dict[str, Any] | None:
        """Begin, or return the last state of the same training.

        Args:
            header: all that decides the outcome; a training is the same if this is.
            resume: go on with what is there.
        """
        file = self.path / "config.json"
        if file.exists():
            if not resume:
                raise DataError(
                    f"{self.path}: holds a training already; go on with it by --resume, or choose "
                    "another folder with --output"
                )
            _check_same(file, header)
        else:
            for name in FILES:
                if self._has(name):
                    raise DataError(
                        f"{self.path}: holds a {name} of something else; choose another --output"
                    )
            self._write("config.json", to_json(header).encode())
        if self.complete:  # killed after the last word, perhaps
            (self.path / "state.pt").unlink(missing_ok=True)
        return load_checkpoint(self.path / "state.pt", ANEW) if self._has("state.pt") else None

    def restore(self, training: Training, state: dict[str, Any]) -> float:
        """Put a training back to a state of this folder; return the seconds it had taken."""
        try:
            training.load_state(state)
            return float(state["seconds"])
        # Tensors and plain data, but of another shape: there is no telling what fails first.
        except Exception as error:
            raise DataError(
                f"{self.path / 'state.pt'}: does not fit this training "
                f"({' '.join(str(error).split())[:100]}); {ANEW}"
            ) from error

    @property
    def complete(self) -> bool:
        """Whether the training was finished."""
        return self._has("report.json")

    def report(self) -> dict[str, Any]:
        """Return the report of a complete training."""
        file = self.path / "report.json"
        try:
            report: dict[str, Any] = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise DataError(
                f"{file}: is damaged; delete it to finish the training again"
            ) from error
        return report

    def save(self, training: Training, seconds: float) -> None:
        """Write a checkpoint if it is time for one."""
        now = time.monotonic()
        if now < self._next:
            return
        self._write("state.pt", _packed({**training.state(), "seconds": seconds}))
        self._write_log(training)
        taken = time.monotonic() - now
        self._next = now + max(self.every, 20 * taken)  # at most a twentieth of the time

    def finish(self, training: Training, model: dict[str, Any], report: dict[str, Any]) -> None:
        """Write what is to stay, and remove what only a restart needs."""
        self._write("model.pt", _packed(model))
        self._write_log(training)
        self._write("report.json", to_json(report).encode())
        (self.path / "state.pt").unlink(missing_ok=True)

    def _write_log(self, training: Training) -> None:
        text = "".join(json.dumps(row) + "\n" for row in training.log)
        self._write("log.jsonl", text.encode())

    def _write(self, name: str, content: bytes) -> None:
        with atomic_write(self.path / name) as file:
            file.write(content)

    def _has(self, name: str) -> bool:
        return (self.path / name).exists()


def load_checkpoint(path: Path, remedy: str = "train anew") -> dict[str, Any]:
    """Read tensors and plain data; a file that holds anything else is refused, and not run.

    Args:
        path: a file that torch wrote.
        remedy: what to do if it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:  # torch looks at no checksum
            if archive.testzip() is not None:
                raise zipfile.BadZipFile
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({_reason(error)}); check the path") from error
    # A file may be wrong in any way, and torch promises no kind of error for it.
    except Exception as error:
        raise DataError(
            f"{path}: is no checkpoint of mgnni, or a damaged one (nothing in it was run); {remedy}"
        ) from error
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: is no checkpoint of mgnni (got a {type(content).__name__}); {remedy}"
        )
    return content


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _packed(content: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def _check_same(file: Path, header: dict[str, Any]) -> None:
    try:
        there = json.loads(file.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise DataError(f"{file}: cannot be read as JSON; choose another --output") from error
    mine = json.loads(to_json(header))
    for path, a, b in _differences(there, mine):
        raise DataError(
            f"{os.fspath(file.parent)}: holds another training, with {path} = {a!r} (asked for: "
            f"{b!r}); repeat its options to go on with it, or choose another --output"
        )


def _differences(a: Any, b: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted(a.keys() | b.keys())
        return [
            found
            for key in keys
            for found in _differences(a.get(key), b.get(key), f"{path}.{key}".lstrip("."))
        ]
    return [] if a == b else [(path, a, b)]
