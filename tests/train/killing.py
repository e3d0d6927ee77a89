"""Train in children of this process, and kill them; see test_kill.py.

They are forked, so that torch is loaded once.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from mgnni.train import fit
from mgnni.train.device import make_fabric
from mgnni.train.experiment import Experiment
from mgnni.train.folder import Folder
from mgnni.train.source import Source
from train.cases import config, node_task, runs


def train(folder: Path, always_save: bool) -> None:
    """Train, or go on; perhaps with a checkpoint after every epoch, to be killed in one."""
    if always_save:
        honest = Folder.save

        def save(self: Folder, *args: object) -> None:
            self._next = 0.0
            honest(self, *args)  # type: ignore[arg-type]

        Folder.save = save  # type: ignore[method-assign]
    torch.set_num_threads(1)
    task = node_task(2)
    chosen = config(epochs=60, patience=25, batch_norm=True, lr=0.05)
    source = Source(task, None, "here")
    experiment = Experiment(source, chosen, runs(2, 2), together=False, device="cpu")
    fit.train(experiment, folder, resume=True)


def child(folder: Path, always_save: bool) -> int:
    """Start a training; return its process."""
    process = os.fork()
    if process:
        return process
    try:
        train(folder, always_save)
        os._exit(0)
    except BaseException as error:  # the parent must hear of it
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)


def state_of(folder: Path) -> dict[str, object]:
    """Read whatever is there: all of it is whole, or this fails."""
    found: dict[str, object] = {}
    for file in folder.glob("[!.]*.json*"):
        rows = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        found[file.name] = len([json.loads(row) for row in rows])
    if (folder / "state.pt").exists():
        state = torch.load(folder / "state.pt", weights_only=True)
        found["at"] = [state["group"], state["epoch"]]
    found["drafts"] = len(list(folder.glob(".*.part")))
    return found


def main(whole: Path, killed: Path, kills: int) -> None:
    """Train once in peace and once not, and say what was found after every kill."""
    make_fabric("cpu", "32")  # loads what it needs before the first child, not in every one
    start = time.monotonic()
    assert os.waitpid(child(whole, False), 0)[1] == 0
    span = time.monotonic() - start
    moments = random.Random(20)
    found = []
    for _ in range(kills):
        process = child(killed, True)
        time.sleep(moments.uniform(0.02, 0.2) * span)
        os.kill(process, signal.SIGKILL)
        status = os.waitpid(process, 0)[1]
        found.append({**state_of(killed), "killed": os.WIFSIGNALED(status)})
    assert os.waitpid(child(killed, True), 0)[1] == 0
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
