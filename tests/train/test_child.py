"""Processes that train for another one end with it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

WAITING = Path(__file__).with_name("waiting.py")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_a_child_ends_with_its_parent(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, WAITING], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"  # of the child
        parent.send_signal(number)
        # The output ends when nobody can write to it any more, so neither parent nor child.
        parent.communicate(timeout=60)
    assert parent.returncode == -number
