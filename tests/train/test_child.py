"""Processes that train for another one end with it."""

from __future__ import annotations

import os
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
        assert parent.stdout.readline() == "importing\n"
        assert parent.stdout.readline() == "ready\n"  # of the child
        parent.send_signal(number)
        # The output ends when nobody can write to it any more, so neither parent nor child.
        parent.communicate(timeout=60)
    assert parent.returncode == -number


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="the system has no process groups")
def test_an_interrupt_while_a_child_starts_is_left_to_the_parent() -> None:
    """A terminal interrupts all processes at once."""
    with subprocess.Popen(
        [sys.executable, WAITING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A test run in the background ignores SIGINT, which children inherit.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "importing\n"
        os.killpg(parent.pid, signal.SIGINT)
        try:
            errors = parent.communicate(timeout=60)[1]
        finally:
            parent.kill()  # otherwise a failed test would wait for it
    assert "process.join()" in errors  # the parent is interrupted
    assert errors.count("Traceback") == 1
