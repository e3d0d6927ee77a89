"""Train in one process and in several, and lose one of them; see test_trainings.py."""

import contextlib
import io
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch

from distributed.several import start, together, wait
from mgnni.cli import main as command
from mgnni.disk.generate import generate_graph
from mgnni.disk.precompute import precompute
from mgnni.distributed.mesh import start_mesh
from mgnni.errors import LostProcessError
from mgnni.train import fit, minibatch
from mgnni.train.device import make_fabric
from mgnni.train.experiment import Experiment
from mgnni.train.minibatch import train_rows
from mgnni.train.row_training import RowOptions
from mgnni.train.runs import Epoch
from mgnni.train.source import Source
from train.cases import config, graph_task, node_task, runs

LOST, EPOCHS = 7, 8
TERMS = RowOptions(hidden_channels=4, epochs=4, batch_size=79, dropout=0.3, lr=0.03)


def experiment(kind: str) -> Experiment:
    """Words at the nodes of a directed graph, in two runs at once; or many graphs. With dropout.

    Batches have two or three graphs, so of four processes at least one has none.
    """
    if kind == "node":
        task = node_task(2, directed=True, features="sparse")
        chosen = config(epochs=EPOCHS, gamma=0.4, skip=True, clip=1.0, batch_norm=True)
        which = runs(2)
    else:
        task = graph_task()
        head = {"head": "linear", "batch_norm": True} if kind == "norm" else {"head": "graph"}
        chosen, which = config(epochs=EPOCHS, gamma=0.4, batch_size=3, **head), runs(1)
    source = Source(task, None, "here")
    return Experiment(source, chosen, which, device="cpu", checkpoint_every=0.0)


def train(folder: Path, mesh: dict[str, Any] | None, rank: int, *, kind: str = "node") -> None:
    torch.set_num_threads(1)
    processes = None if mesh is None else start_mesh(**mesh, device="cpu")
    resume = (folder / "config.json").exists()
    fit.train(experiment(kind), folder, resume=resume, mesh=processes)


def lose(folder: Path, way: signal.Signals, silence: float, rank: int) -> int:
    """Train in three processes; the second one is killed or stopped in epoch 4."""

    def after(epoch: Epoch) -> None:
        if rank == 1 and epoch.epoch == 4:
            (folder / "lost").write_text(str(time.time()))
            os.kill(os.getpid(), way)

    torch.set_num_threads(1)
    try:
        mesh = start_mesh(rows=3, device="cpu", silence=silence)
        fit.train(experiment("node"), folder, on_epoch=after, mesh=mesh)
    except LostProcessError as error:
        told = {"after": time.time() - float((folder / "lost").read_text()), "said": str(error)}
        (folder / f"told-{rank}.json").write_text(json.dumps(told))
        return LOST
    return 0


def train_on_terms(folder: Path, output: Path, mesh: bool, stop: int | None, rank: int) -> None:
    """Train on stored terms, the last batch of which has fewer nodes than there are processes."""
    torch.set_num_threads(1)
    size = int(os.environ["WORLD_SIZE"])
    processes = start_mesh(batch=size, device="cpu") if mesh else None
    calls = 0

    def follow(epoch: int, part: float, best: float | None) -> None:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt

    try:
        train_rows(folder, output, TERMS, follow, processes)
    except KeyboardInterrupt:
        if stop is None:
            raise


def commands(folder: Path, rank: int) -> None:
    """The command line in two processes, right and wrong."""
    options = "--model mgnni --hidden-channels 6 --epochs 5 --device cpu --no-report --json"
    for name, mesh in (("right", "--mesh rows=2"), ("wrong", "--mesh rows=3"), ("none", "")):
        words = ["train", str(folder / "data"), *options.split(), *mesh.split()]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command([*words, "--output", str(folder / name)])
        found = {"status": status, "out": out.getvalue(), "err": err.getvalue()}
        (folder / f"{name}-{rank}.json").write_text(json.dumps(found))


def main(folder: Path) -> None:
    make_fabric("cpu", "32")  # loads what it needs before the first child, not in every one
    together(1, partial(train, folder / "alone", None))
    together(4, partial(train, folder / "four", {"rows": 2, "columns": 2}))
    for name, kind in (("batch", "graph"), ("norm", "norm")):
        together(1, partial(train, folder / f"{name}-alone", None, kind=kind))
        together(4, partial(train, folder / f"{name}-four", {"batch": 4}, kind=kind))

    graph = generate_graph(folder / "graph", 400, 1600, features=5, classes=3)
    terms = precompute(graph, folder / "terms", tol=1e-3)
    together(1, partial(train_on_terms, terms, folder / "terms-alone", False, None))
    together(4, partial(train_on_terms, terms, folder / "terms-four", True, None))
    minibatch.SAVE_EVERY = 0.0  # stopped by two processes in the second epoch, continued by one
    together(2, partial(train_on_terms, terms, folder / "terms-fewer", True, 6))
    together(1, partial(train_on_terms, terms, folder / "terms-fewer", False, None))

    (folder / "killed").mkdir()
    statuses = [wait(start(3, partial(lose, folder / "killed", signal.SIGKILL, 25.0)))]
    together(2, partial(train, folder / "killed", {"columns": 2}))
    (folder / "stopped").mkdir()
    children = start(3, partial(lose, folder / "stopped", signal.SIGSTOP, 2.0))
    survivors = [children[0], children[2]]
    found = wait(survivors)
    os.kill(children[1], signal.SIGKILL)
    statuses.append([found[0], *wait(children[1:2]), found[1]])
    together(1, partial(train, folder / "stopped", None))

    data = folder / "data"
    data.mkdir()
    nodes = [f"{i},{(i * 7) % 5},{i % 3 + i % 2 / 3},{'ab'[i % 2]}" for i in range(30)]
    (data / "nodes.csv").write_text("\n".join(["id,p,q,label", *nodes]))
    edges = [f"{i},{(i * i + 2) % 30}" for i in range(30)]
    (data / "edges.csv").write_text("\n".join(["source,target", *edges]))
    together(2, partial(commands, folder))
    sys.stdout.write(json.dumps(statuses))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
