"""Where datasets lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "MGNNI_DATA"


def data_root(root: Path | None = None) -> Path:
    """Return the folder of all datasets; it need not exist.

    It is ``root`` if given, else what the environment variable ``MGNNI_DATA`` names, else
    ``mgnni`` in the user's cache (``XDG_CACHE_HOME``, or ``~/.cache``).
    """
    if root is not None:
        return Path(root).expanduser()
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mgnni"
