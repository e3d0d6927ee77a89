"""Groups of runs trained in several processes, with the results of one.

A training on small graphs keeps one core busy, and even a GPU waits for it. Groups of runs are
independent of each other, so other cores can train other groups.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import pickle
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from mgnni.errors import MgnniError
from mgnni.train.child import begin_child, interrupts_held
from mgnni.train.device import make_fabric, threads_per_process
from mgnni.train.experiment import MAX_GROUP, Experiment
from mgnni.train.folder import packed
from mgnni.train.runs import Epoch
from mgnni.train.training import OnEpoch, Training

WORTH = 3000  # fewer training steps are done in one process, as starting others takes seconds
ROOM = 2**31  # bytes that a process may need: on a GPU for its CUDA context, on a CPU for torch
GRACE = 5.0  # seconds that a process has to end by itself


def count_jobs(experiment: Experiment, device: torch.device) -> int:
    """Return the number of processes to train in.

    Several are started for many steps, not more than torch has CPU threads, and as many as the
    memory has room for. On a GPU, or with ``together=False``, the runs on one graph are trained by
    one process.

    Args:
        experiment (Experiment): What to train; its ``jobs`` is the number, if it is given.
        device (torch.device): Where to train.
    """
    groups = experiment.groups(small=device.type == "cpu")
    if experiment.jobs is not None:
        return min(experiment.jobs, len(groups))
    task, config = experiment.task, experiment.config
    one_graph = task.unit == "node"
    graphs = sum(task.splits[run.split].train.numel() for run in experiment.runs)
    batches = len(groups) if one_graph else -(-graphs // config.batch_size)
    if config.epochs * batches < WORTH or (one_graph and not experiment.together):
        return 1
    most = torch.get_num_threads()
    if device.type == "cpu":
        within = MAX_GROUP // (experiment.size * len(groups[0]))
        most = min(most, within, _host_memory() // ROOM)
    elif device.type == "cuda" and not one_graph:
        most = min(most, torch.cuda.mem_get_info(device)[0] // ROOM)
    else:
        return 1
    return max(min(most, len(groups)), 1)


def _host_memory() -> int:
    """Return the bytes of the machine's memory; without a way to know, enough for all cores."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return ROOM * (os.cpu_count() or 1)


def run_in_processes(
    training: Training,
    jobs: int,
    on_epoch: OnEpoch | None = None,
    save: Callable[[], None] | None = None,
) -> None:
    """Train until all runs are finished, in several processes.

    Args:
        training (Training): The training; it may have begun.
        jobs (int): Number of processes.
        on_epoch (Callable[[Epoch], None], optional): Called once for about an epoch of every group
            in training, with the latest epochs of all of them. (default: :obj:`None`)
        save (Callable[[], None], optional): Called when ``training.state()`` may be saved.
            (default: :obj:`None`)
    """
    training.release_group()
    training.collect_groups()
    pending = training.pending
    waiting = [
        group
        for group in range(training.group, len(training.groups))
        if not (group in pending and pending[group]["group"])
    ]
    progress = _Progress(training, on_epoch)
    with _started(training.experiment, min(jobs, len(waiting))) as workers:
        idle = list(workers)
        while waiting or len(idle) < len(workers):
            while waiting and idle:
                worker, worker.group = idle.pop(), waiting.pop(0)
                state = pending.get(worker.group)
                runs = training.groups[worker.group]
                worker.send((runs, None if state is None else packed(state)))
            busy = [one for one in workers if one not in idle]
            ready = wait([one.connection for one in busy])
            for worker in (one for one in busy if one.connection in ready):
                kind, content = worker.receive()
                if kind == "error":
                    error, text = content
                    raise error from RuntimeError(f"in a process of the training:\n{text}")
                if kind == "epoch":
                    progress.add(worker.group, content)
                    continue
                pending[worker.group] = unpacked(content)
                if pending[worker.group]["group"]:  # complete
                    progress.end(worker.group)
                    counts = worker.receive()[1]
                    for split, count in enumerate(counts):
                        training.task.test_evaluations[split] += count
                    training.collect_groups()
                    idle.append(worker)
                if save is not None:
                    save()


@dataclass
class _Progress:
    """Joins the epochs of all groups in training to one."""

    training: Training
    on_epoch: OnEpoch | None
    latest: dict[int, Epoch] = field(default_factory=dict)
    heard: list[Epoch] = field(default_factory=list)  # since the last call

    def add(self, group: int, epoch: Epoch) -> None:
        self.latest[group] = epoch
        self.heard.append(epoch)
        if len(self.heard) >= len(self.latest):
            self.show()

    def end(self, group: int) -> None:
        if self.heard:
            self.show()
        self.latest.pop(group, None)

    def show(self) -> None:
        heard, self.heard = self.heard, []
        if self.on_epoch is None:
            return
        parts = [epoch for _, epoch in sorted(self.latest.items())]
        others = [s for group, s in self.training.pending.items() if group not in self.latest]
        finished = len(self.training.finished) + sum(len(state["finished"]) for state in others)
        lists = {
            name: [value for part in parts for value in getattr(part, name)]
            for name in ("runs", "loss", "val_loss", "val_metric", "best_metric", "improved")
        }
        self.on_epoch(
            Epoch(
                group=min(self.latest),
                groups=len(self.training.groups),
                epoch=min(part.epoch for part in parts),
                epochs=parts[0].epochs,
                metric=parts[0].metric,
                waited=min(part.waited for part in parts),
                finished=finished + sum(part.finished for part in parts),
                parts=heard,
                **lists,
            )
        )


@dataclass(eq=False)
class _Worker:
    """A process, and the group it trains."""

    process: BaseProcess
    connection: Connection[Any, Any]
    group: int = -1

    def send(self, message: Any) -> None:
        with contextlib.suppress(BrokenPipeError):  # the next receive reports it
            self.connection.send(message)

    def receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, ConnectionError):
            self.process.join(GRACE)
            raise MgnniError(
                f"a process of the training ended early (exit status {self.process.exitcode}), "
                "perhaps for lack of memory; train with fewer jobs, and resume"
            ) from None


@contextlib.contextmanager
def _started(experiment: Experiment, jobs: int) -> Iterator[list[_Worker]]:
    """Start processes, and end them."""
    # Not forked: CUDA and thread pools do not survive a fork.
    context = multiprocessing.get_context("spawn")
    threads = threads_per_process(jobs)
    # As bytes, since sharing every tensor would need a file for each.
    content = packed({"experiment": experiment})
    workers = []
    try:
        for _ in range(jobs):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, threads), daemon=True)
            with interrupts_held():
                process.start()
            theirs.close()  # so that the end of the process closes the connection
            workers.append(_Worker(process, ours))
        for worker in workers:
            worker.send(content)
        yield workers
        for worker in workers:
            worker.send(None)
            worker.process.join(GRACE)
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.connection.close()


def _work(connection: Connection[Any, Any], threads: int) -> None:
    """Train the groups that come over a connection, until it ends."""
    begin_child(threads)
    try:
        experiment: Experiment = unpacked(connection.recv())["experiment"]
        config, deterministic = experiment.config, experiment.deterministic
        fabric = make_fabric(experiment.device, config.precision, deterministic)
        while (message := connection.recv()) is not None:
            runs, state = message
            training = Training(experiment, fabric)
            training.groups = [runs]
            if state is not None:
                training.load_state(unpacked(state))
            _train(training, connection)
    except (EOFError, ConnectionError):  # the parent is gone
        return
    except Exception as error:
        connection.send(("error", _sendable(error)))


def _train(training: Training, connection: Connection[Any, Any]) -> None:
    """Train, and send epochs, states, and at the end how often the test sets were evaluated."""
    counts = training.task.test_evaluations
    before, due = list(counts), 0.0
    for epoch in training.epochs():
        connection.send(("epoch", epoch))
        now = time.monotonic()
        if now >= due or training.group:
            connection.send(("state", packed(training.state())))
            taken = time.monotonic() - now
            due = now + max(training.experiment.checkpoint_every, 20 * taken)
    connection.send(("counts", [now - then for now, then in zip(counts, before, strict=True)]))


def _sendable(error: Exception) -> tuple[Exception, str]:
    """Return an error that survives the way to another process, and its traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    # Classes of errors may refuse in any way.
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return error, text


def unpacked(content: bytes) -> dict[str, Any]:
    """Return the inverse of :func:`~mgnni.train.folder.packed`, on the CPU."""
    found: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
    return found
