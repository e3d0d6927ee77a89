"""The start of a process that trains for another one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess

import torch


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
