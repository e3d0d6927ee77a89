"""Start several processes on this machine, as torchrun does, and wait for them.

They are forked by a process of their own, so that torch is loaded once.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parents[1]


def run_script(name: str, *arguments: object, limit: float = 300) -> str:
    """Run a script of this folder in a new process; return what it printed."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    # Children are forked, which CUDA does not survive.
    around = {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, str(TESTS / "distributed" / name), *map(str, arguments)],
        env={**os.environ, **around},
        capture_output=True,
        text=True,
        timeout=limit,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(count: int, work: Callable[[int], object]) -> list[int]:
    """Fork processes that can find one another, and call ``work`` with the rank of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(count):
        process = os.fork()
        if process:
            children.append(process)
            continue
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in names.items()})
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        try:
            status = work(rank)
            os._exit(status if isinstance(status, int) else 0)
        except BaseException:  # the parent must hear of it
            traceback.print_exc()
            os._exit(1)
    return children


def wait(children: list[int], limit: float = 120) -> list[int]:
    """Return the exit status of every process, negative for a signal; kill those that hang."""
    end, found = time.monotonic() + limit, {}
    while len(found) < len(children):
        for process in children:
            if process not in found:
                done, status = os.waitpid(process, os.WNOHANG)
                if done:
                    found[process] = os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            for process in set(children) - set(found):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)
    return [found[process] for process in children]


def together(count: int, work: Callable[[int], object]) -> None:
    """Fork processes and wait for all of them; fail if one does."""
    statuses = wait(start(count, work))
    assert not any(statuses), statuses
