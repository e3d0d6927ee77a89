"""The processes of a search: each claims trials until all are done."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from optuna.trial import Trial

from mgnni.train.child import begin_child, interrupts_held
from mgnni.train.device import threads_per_process
from mgnni.train.runs import Epoch
from mgnni.train.search import OnProgress, Progress, Search
from mgnni.train.trial import run_trial
from mgnni.train.trial_queue import TrialQueue

POLL = 0.5  # seconds between looks for trials that other processes leave
REFRESH = 2.0  # seconds between looks at their results


class Worker:
    """Claims trials of a search and trains them.

    Args:
        queue (TrialQueue): The trials.
        on_progress (Callable[[Progress], None], optional): Called after every epoch and trial.
            (default: :obj:`None`)
    """

    def __init__(self, queue: TrialQueue, on_progress: OnProgress | None = None) -> None:
        self.queue, self.on_progress = queue, on_progress
        self._next = 0.0
        self._look()

    def run(self) -> None:
        """Work until all trials are done, also those that other processes have begun."""
        while not self.queue.complete:
            trial = self.queue.claim()
            if trial is None:
                self._show({}, None)
                time.sleep(POLL)
                continue
            self._train(trial)

    def _train(self, trial: Trial) -> None:
        search, number = self.queue.search, trial.user_attrs["point"]
        params = search.point(number)

        def at_rung(step: int, value: float) -> bool:
            trial.report(value, step)
            return trial.should_prune()

        def on_epoch(epoch: Epoch) -> None:
            self._show(params, epoch)

        one = search.of_point(number)
        outcome = run_trial(one, search.unit, search.rungs, at_rung, on_epoch)
        self.queue.settle(trial, outcome)
        self._look()
        self._show(params, None)

    def _show(self, params: dict[str, Any], epoch: Epoch | None) -> None:
        if self.on_progress is not None:
            self._look(REFRESH)
            done = self._done
            best = done[0] if done and done[0]["state"] == "complete" else None
            metric = self.queue.search.experiment.task.metric
            self.on_progress(Progress(len(done), self._count, best, params, epoch, metric))

    def _look(self, every: float = 0.0) -> None:
        """Read the journal, unless that was done a moment ago."""
        now = time.monotonic()
        if every == 0 or now > self._next:
            self._done, self._count = self.queue.done(), self.queue.count
            self._next = now + every


def work_together(
    queue: TrialQueue, header: dict[str, Any], jobs: int, on_progress: OnProgress | None
) -> None:
    """Work on the trials in this process and in ``jobs - 1`` others.

    Args:
        queue (TrialQueue): The trials.
        header (dict[str, Any]): What it is compared with by the other processes.
        jobs (int): Number of processes.
        on_progress (Callable[[Progress], None], optional): Called after every epoch and trial.
    """
    threads = torch.get_num_threads()
    each = threads_per_process(jobs)
    arguments = (queue.folder, queue.search, header, each)
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    others = [context.Process(target=_help, args=arguments, daemon=True) for _ in range(jobs - 1)]
    try:
        with interrupts_held():
            for process in others:
                process.start()
        torch.set_num_threads(each)
        Worker(queue, on_progress).run()
        for process in others:
            process.join()
    finally:
        torch.set_num_threads(threads)
        for process in others:
            if process.pid is not None:  # it was started
                process.terminate()
    failed = sum(process.exitcode != 0 for process in others)
    if failed:
        warnings.warn(
            f"{failed} of {jobs} processes ended early; their trials were repeated", stacklevel=2
        )


def _help(folder: Path, search: Search, header: dict[str, Any], threads: int) -> None:
    """Work on the trials in another process."""
    begin_child(threads)
    try:
        Worker(TrialQueue(folder, search, header, resume=True)).run()
    except Exception as error:  # exit with a message in place of a traceback
        raise SystemExit(f"a process of the search ended early: {error}") from None
