"""The start of a process that trains for another one."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess

import torch


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Start processes that are not interrupted, not even before :func:`begin_child`.

    They inherit that the signal is blocked. Otherwise an interrupt while they import torch would
    print their tracebacks. In this process it takes effect at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # its start would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_child(threads: int) -> None:
    """Prepare a process that another one has started.

    Interrupts are left to the parent. If the parent ends, even by a signal that it cannot handle,
    this process ends as well. Otherwise it would train on, or wait for work with its memory
    allocated, without anybody to stop it.

    Args:
        threads (int): Number of threads of torch.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)  # files are written atomically, and locks end with their process
