"""The folder of a training: checkpoints, log, model and report, all written atomically."""

from __future__ import annotations

import contextlib
import io
import json
import reprlib
import time
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout

from mgnni.errors import DataError, LostProcessError, MgnniError
from mgnni.files import atomic_write, read_object, to_json
from mgnni.train.config import Config
from mgnni.train.experiment import CHECKPOINT_EVERY
from mgnni.train.more_epochs import (
    ENTRY,
    asks_for_more,
    can_go_on,
    check_chosen,
    check_final_state,
    epochs_of,
    reopen,
)
from mgnni.train.training import Training

REPORT = "report.json"
PREVIOUS = "report.previous.json"  # of model.pt, while a training goes on for more epochs
FILES = ("config.json", "log.jsonl", "state.pt", "model.pt", REPORT, PREVIOUS, "report.html")
PORTFOLIO = "portfolio.json"  # written before the training, see mgnni.train.auto
JOURNAL = "journal.log"  # of a search, see mgnni.train.trial_queue
DELETE = "delete it to train from the beginning"


class Folder:
    """A locked folder of one training.

    It holds ``config.json``, ``log.jsonl`` and, during training, ``state.pt``; afterwards also
    ``model.pt`` and ``report.json``. The report is written last, when the training is complete.
    The state is kept if a run was ended by the number of epochs, so that it can go on. If it does,
    the report is ``report.previous.json`` until the longer training is complete.
    ``portfolio.json`` tells how the model was chosen, if it was chosen among several.

    Args:
        path (Path): The folder; created if it does not exist.
        every (float, optional): Seconds between checkpoints; more if writing them takes long.
            (default: :obj:`10.0`)
    """

    def __init__(self, path: Path, every: float = CHECKPOINT_EVERY) -> None:
        self.path, self.every = path, every
        self._lock = FileLock(path / ".lock")
        self._next = 0.0
        # Whether more epochs are asked for, and change nothing as all runs had stopped early.
        self.all_stopped = False

    def __enter__(self) -> Folder:
        if self._has(JOURNAL):  # which could not be continued beside a training
            raise DataError(f"{self.path}: holds a search; choose another --output")
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
        for name in (*FILES, PORTFOLIO):
            for draft in self.path.glob(f".{name}.*.part"):  # left by a killed process
                draft.unlink()
        return self

    def __exit__(self, *error: object) -> None:
        self._lock.release()  # keep the lock file: removing it races with a new owner

    def open(self, header: dict[str, Any], resume: bool) -> dict[str, Any] | None:
        """Start a training here, or return the last checkpoint of the same training.

        Args:
            header (dict[str, Any]): Everything that decides the outcome; trainings with equal
                headers are the same.
            resume (bool): Whether to continue the training in the folder.
        """
        file = self.path / "config.json"
        if file.exists():
            if not resume:
                raise DataError(
                    f"{self.path}: already holds a training; continue it with --resume, or choose "
                    "another folder with --output"
                )
            self._check_header(read_object(file, "choose another --output"), header)
        else:
            for name in FILES:
                if self._has(name):
                    raise DataError(
                        f"{self.path}: holds a {name} of something else; choose another --output"
                    )
            self._write("config.json", to_json(header).encode())
        if self.complete or not self._has("state.pt"):
            return None
        return load_checkpoint(self.path / "state.pt", DELETE)

    def _check_header(self, there: dict[str, Any], header: dict[str, Any]) -> None:
        """Check that the folder holds this training, and reopen it if more epochs are asked for."""
        more = asks_for_more(self.path, there, header)
        check_same(self.path, there, header, ignored=(ENTRY,) if more else ())
        if not more:
            return
        if self.complete and not self._has("state.pt"):
            check_final_state(self.path, epochs_of(there), self.report())
            self.all_stopped = True
            return
        if self._has("state.pt"):  # a damaged checkpoint must not cost the report
            load_checkpoint(self.path / "state.pt", DELETE)
        # In this order: if the process dies in between, the folder holds the earlier training.
        if self.complete:
            (self.path / REPORT).replace(self.path / PREVIOUS)
        self._write("config.json", to_json(header).encode())

    def restore(self, training: Training, state: dict[str, Any]) -> float:
        """Load a checkpoint of this folder into a training; return the seconds it had taken."""
        try:
            training.resume(state)
            if state["epochs"] < training.config.epochs:
                reopen(training)
            return float(state["seconds"])
        except LostProcessError:
            raise
        # Tensors and plain data of another shape: any error is possible.
        except Exception as error:
            raise DataError(
                f"{self.path / 'state.pt'}: does not fit this training "
                f"({' '.join(str(error).split())[:100]}); {DELETE}"
            ) from error

    @property
    def complete(self) -> bool:
        """Whether the training is finished."""
        return self._has(REPORT)

    def report(self) -> dict[str, Any]:
        """Return the report of a complete training."""
        return read_object(self.path / REPORT, "delete it to finish the training again")

    def save(self, training: Training, seconds: float) -> None:
        """Write a checkpoint if it is due."""
        now = time.monotonic()
        if now < self._next:
            return
        self._write_state(training, seconds)
        self._write_log(training)
        taken = time.monotonic() - now
        self._next = now + max(self.every, 20 * taken)  # at most a twentieth of the time

    def finish(self, training: Training, model: dict[str, Any], report: dict[str, Any]) -> None:
        """Write model, log and report, and remove the checkpoint if no run can go on."""
        self._write("model.pt", packed(model))
        self._write_log(training)
        if can_go_on(training):
            self._write_state(training, report["seconds"])
        self._write(REPORT, to_json(report).encode())
        (self.path / PREVIOUS).unlink(missing_ok=True)
        if not can_go_on(training):
            (self.path / "state.pt").unlink(missing_ok=True)

    def _write_state(self, training: Training, seconds: float) -> None:
        more = {"seconds": seconds, "epochs": training.config.epochs}
        self._write("state.pt", packed({**training.state(), **more}))

    def _write_log(self, training: Training) -> None:
        text = "".join(json.dumps(row) + "\n" for row in training.rows())
        self._write("log.jsonl", text.encode())

    def _write(self, name: str, content: bytes) -> None:
        with atomic_write(self.path / name) as file:
            file.write(content)

    def _has(self, name: str) -> bool:
        return (self.path / name).exists()


def check_resumable(path: Path) -> None:
    """Refuse to resume a training in a folder that does not exist."""
    if not path.exists():
        raise DataError(
            f"{path}: no such folder, so there is nothing to resume; check --output, or leave out "
            "--resume to start a training"
        )


def save_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write tensors and plain data to a file, which :func:`load_checkpoint` reads."""
    # torch.save does not write the file itself, as its errors hide that the disk is full.
    with atomic_write(path) as file:
        file.write(packed(content))


def packed(content: dict[str, Any]) -> bytes:
    """Return the content of a file of tensors and plain data."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def load_checkpoint(path: Path, remedy: str = "train again") -> dict[str, Any]:
    """Read a file of tensors and plain data; anything else in it is refused and not executed.

    Args:
        path (Path): A file written by :func:`torch.save`.
        remedy (str, optional): What to do if it is damaged, for the error message.
            (default: :obj:`"train again"`)
    """
    try:
        with zipfile.ZipFile(path) as archive:  # torch does not verify checksums
            if archive.testzip() is not None:
                raise zipfile.BadZipFile
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({_reason(error)}); check the path") from error
    # torch promises no kind of error for a damaged file.
    except Exception as error:
        raise DataError(
            f"{path}: is not a checkpoint of mgnni, or it is damaged (nothing in it was run); "
            f"{remedy}"
        ) from error
    if not isinstance(content, dict):
        raise DataError(
            f"{path}: is not a checkpoint of mgnni (got a {type(content).__name__}); {remedy}"
        )
    return content


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


class OtherTrainingError(DataError):
    """A folder holds something else than what is asked for."""


def check_same(
    folder: Path,
    there: dict[str, Any],
    header: dict[str, Any],
    what: str = "training",
    ignored: Collection[str] = (),
) -> None:
    """Check that a folder holds what is asked for.

    Options that did not exist when the folder was written count as their defaults.

    Args:
        folder (Path): The folder, for the message.
        there (dict[str, Any]): The header of what it holds, read from JSON.
        header (dict[str, Any]): The header of what is asked for.
        what (str, optional): What it holds, for the message. (default: :obj:`"training"`)
        ignored (Collection[str], optional): Entries that may differ, by their path.
    """
    there, asked = _completed(there), _completed(header)
    # Notes are texts, which may be worded differently in another version.
    ignored = {"data.notes", *ignored}
    found = [one for one in _differences(there, asked) if one[0] not in ignored]
    if found:
        if (folder / PORTFOLIO).exists() and (folder / "config.json").exists():
            check_chosen(folder, [path for path, _, _ in found], asked)
        path, a, b = found[0]
        raise OtherTrainingError(
            f"{folder}: holds another {what}, with {path} = {reprlib.repr(a)} (asked for: "
            f"{reprlib.repr(b)}); repeat its options to continue it, or choose another --output"
        )


def _completed(header: dict[str, Any]) -> dict[str, Any]:
    """Return a header as plain data, with all options of its configuration."""
    with contextlib.suppress(MgnniError, KeyError):  # what is missing or unknown is a difference
        header = {**header, "config": Config.from_dict(header["config"]).to_dict()}
    data: dict[str, Any] = json.loads(to_json(header))
    return data


def _differences(a: Any, b: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted(a.keys() | b.keys())
        return [
            found
            for key in keys
            for found in _differences(a.get(key), b.get(key), f"{path}.{key}".lstrip("."))
        ]
    return [] if a == b else [(path, a, b)]
