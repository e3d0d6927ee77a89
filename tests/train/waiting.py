"""A process with a child that waits for a long time; see test_child.py."""

import multiprocessing
import sys
import time

from mgnni.train.child import begin_child


def wait() -> None:
    begin_child(1)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(600)


if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=wait)
    process.start()
    process.join()
