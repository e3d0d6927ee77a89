"""Compiled kernels on disk, so that they are compiled once and not by every process."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from mgnni.files import atomic_write

_DIGEST = 32  # bytes of a checksum, in front of the binary


def cache_folder() -> Path:
    """Returns the folder of compiled kernels, in the user's cache; it need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mgnni" / "kernels"


def cached(name: str, depends_on: Sequence[str], compile: Callable[[], bytes]) -> bytes:
    """Returns a binary from the cache, or compiles it.

    A damaged file is compiled again. A folder that cannot be read or written is no error.

    Args:
        name (str): Name of the source file.
        depends_on (Sequence[str]): Everything the binary depends on: the source, options,
            architecture and versions.
        compile (Callable[[], bytes]): Compiles the binary.
    """
    key = hashlib.sha256(json.dumps([name, *depends_on]).encode()).hexdigest()[:32]
    try:
        file = cache_folder() / f"{Path(name).stem}-{key}.cubin"
    except RuntimeError:  # the user has no home
        return compile()
    with contextlib.suppress(OSError):
        content = file.read_bytes()
        binary = content[_DIGEST:]
        if content[:_DIGEST] == hashlib.sha256(binary).digest():
            return binary
    binary = compile()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as draft:
            draft.write(hashlib.sha256(binary).digest() + binary)
    return binary
