"""Folders for what a command writes."""

from __future__ import annotations

import os
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
