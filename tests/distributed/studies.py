"""Four processes search in one folder, and one of them is killed; see test_studies.py."""

import json
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch

from distributed.several import start, wait
from mgnni.train.device import make_fabric
from mgnni.train.search import Progress
from mgnni.train.tune import tune
from train.cases import node_task

SPACE = {"lr": [0.01, 0.1], "gamma": [0.3, 0.5, 0.7], "dropout": [0.0, 0.5]}
OPTIONS: dict[str, Any] = {
    **{"hidden_channels": 4, "attention_channels": 2, "epochs": 6, "patience": 6},
    **{"device": "cpu", "space": SPACE, "prune": False},
}


def search(folder: Path, victim: int | None, rank: int) -> None:
    """Join the study; one process dies in the middle of its first trial."""
    seen: list[str] = []

    def follow(progress: Progress) -> None:
        name = json.dumps(progress.params)
        if progress.epoch is not None and name not in seen:
            seen.append(name)
        if rank == victim and progress.epoch is not None and progress.epoch.epoch == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    torch.set_num_threads(1)
    tune(node_task(1), output=folder, resume=True, on_progress=follow, **OPTIONS)
    (folder / f"seen-{rank}.json").write_text(json.dumps(seen))


def main(folder: Path) -> None:
    make_fabric("cpu", "32")  # loads what it needs before the first child, not in every one
    found = [wait(start(1, partial(search, folder / "alone", None)))]
    found.append(wait(start(4, partial(search, folder / "four", 2))))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
