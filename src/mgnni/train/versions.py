"""What a result was made with."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import numpy
import torch
import torch_geometric

from mgnni.version import __version__


def versions() -> dict[str, str]:
    """Return the versions that decide what numbers come out."""
    return {
        "mgnni": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "torch_geometric": torch_geometric.__version__,
        "numpy": numpy.__version__,
    }


def commit() -> str | None:
    """Return the commit of the source, with ``+`` if it was changed since; none if installed."""
    folder = Path(__file__).parent
    try:
        # First, whether it is in that history at all: an environment may stand in another one's.
        _, found, state = (
            subprocess.run(
                ["git", "-C", str(folder), *command],
                capture_output=True,
                text=True,
                timeout=5,
                check=True,
            ).stdout.strip()
            for command in (
                ["ls-files", "--error-unmatch", "--", __file__],
                ["rev-parse", "HEAD"],
                ["status", "--porcelain", "--", str(folder)],
            )
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found + ("+" if state else "")


def device_name(device: torch.device) -> str:
    """Return what to call a device in a report."""
    if device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(device)})"
    if device.type != "cpu":
        return device.type
    threads = torch.get_num_threads()
    return f"cpu ({threads} thread{'s' if threads > 1 else ''})"
