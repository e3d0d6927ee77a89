"""A process with a child that waits for a long time; see test_child.py."""

import multiprocessing
import sys
import time

from mgnni.train.child import begin_child, interrupts_held


def wait() -> None:
    begin_child(1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)


if __name__ == "__mp_main__":  # the child imports this file before it calls wait
    sys.stdout.write("importing\n")
    sys.stdout.flush()
    time.sleep(1)

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=wait, daemon=True)
    with interrupts_held():
        process.start()
    process.join()
