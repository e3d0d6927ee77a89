"""The processes of a search: each claims trials until the study is complete."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mgnni.train.config import Config
from mgnni.train.experiment import Experiment
from mgnni.train.runs import Epoch
from mgnni.train.search import Search
from mgnni.train.study import Study
from mgnni.train.trial import run_trial

POLL = 0.5  # seconds between looks for trials that other processes leave
REFRESH = 2.0  # seconds between looks at their results


@dataclass(frozen=True)
class Progress:
    """Where a search stands, for progress bars.

    Attributes:
        done: Number of trials that are done, by all processes.
        trials: Number of all trials.
        best: The best trial so far, as in ``trials`` of ``preset.json``.
        params: Hyperparameters of the current trial; empty while waiting for other processes.
        epoch: The last epoch of the current trial; ``None`` between trials.
    """

    done: int
    trials: int
    best: dict[str, Any] | None
    params: dict[str, Any]
    epoch: Epoch | None


OnProgress = Callable[[Progress], None]


class Worker:
    """Claims trials of a study and trains them.

    Args:
        study (Study): The study.
        on_progress (Callable[[Progress], None], optional): Called after every epoch and trial.
            (default: :obj:`None`)
    """

    def __init__(self, study: Study, on_progress: OnProgress | None = None) -> None:
        self.study, self.on_progress = study, on_progress
        self._look()

    def run(self) -> None:
        """Work until all trials are done, also those that other processes have begun."""
        while not self.study.complete:
            trial = self.study.claim()
            if trial is None:
                self._show({}, None)
                time.sleep(POLL)
                continue
            search, number = self.study.search, trial.user_attrs["point"]
            params = search.point(number)

            def at_rung(step: int, value: float) -> bool:
                trial.report(value, step)
                return trial.should_prune()

            outcome = run_trial(
                search.of_point(number),
                search.unit,
                search.rungs,
                at_rung,
                lambda epoch: self._show(params, epoch),
            )
            self.study.settle(trial, outcome)
            self._look()
            self._show(params, None)

    def _show(self, params: dict[str, Any], epoch: Epoch | None) -> None:
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            raise SystemExit(1)  # nobody waits for the result
        if self.on_progress is not None:
            self._look(REFRESH)
            done = self._done
            best = done[0] if done and done[0]["state"] == "complete" else None
            self.on_progress(Progress(len(done), self._count, best, params, epoch))

    def _look(self, every: float = 0.0) -> None:
        """Read the journal, unless that was done a moment ago."""
        now = time.monotonic()
        if every == 0 or now > self._next:
            self._done, self._count = self.study.done(), self.study.count
            self._next = now + every


def work_together(
    study: Study, header: dict[str, Any], jobs: int, on_progress: OnProgress | None
) -> None:
    """Work on a study in this process and in ``jobs - 1`` others.

    Args:
        study (Study): The study.
        header (dict[str, Any]): What it is compared with by the other processes.
        jobs (int): Number of processes.
        on_progress (Callable[[Progress], None], optional): Called after every epoch and trial.
    """
    threads = torch.get_num_threads()
    each = max((os.cpu_count() or 1) // jobs, 1) if jobs > 1 else threads
    search = study.search
    one = search.experiment
    experiment = (one.source, one.config.to_dict(), one.runs, one.together, one.device)
    limits = (search.space, search.trials, search.seed, search.prune, search.first)
    arguments = (
        *(study.folder, header, each, experiment, one.deterministic),
        *(limits, search.reduction),
    )
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    others = [context.Process(target=_help, args=arguments, daemon=True) for _ in range(jobs - 1)]
    for process in others:
        process.start()
    try:
        torch.set_num_threads(min(each, threads))
        Worker(study, on_progress).run()
        for process in others:
            process.join()
    finally:
        torch.set_num_threads(threads)
        for process in others:
            process.terminate()
    failed = sum(process.exitcode != 0 for process in others)
    if failed:
        warnings.warn(
            f"{failed} of {jobs} processes ended early; their trials were repeated", stacklevel=2
        )


def _help(
    folder: Path,
    header: dict[str, Any],
    threads: int,
    experiment: tuple[Any, ...],
    deterministic: bool,
    limits: tuple[Any, ...],
    reduction: int,
) -> None:
    """Work on a study in another process."""
    source, config, runs, together, device = experiment
    torch.set_num_threads(threads)
    with contextlib.suppress(KeyboardInterrupt):  # the first process says so
        what = Experiment(
            source,
            Config.from_dict(config),
            runs,
            together=together,
            device=device,
            deterministic=deterministic,
            test=False,
        )
        search = Search(what, *limits, reduction)
        Worker(Study(folder, search, header, resume=True)).run()
