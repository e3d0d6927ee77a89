"""Runs the cells of experiments, one after another or several at a time."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mgnni.data.catalog import find_entry
from mgnni.errors import DataError, one_line
from mgnni.reproduce.kinds import KINDS
from mgnni.reproduce.more_runs import add_runs, can_add
from mgnni.reproduce.store import (
    CONFIG,
    DONE,
    MORE_RUNS,
    OTHER,
    BusyError,
    Stored,
    clear,
    copy_of_other,
    forget_failure,
    keep,
    locked,
    record_failure,
    stored,
)
from mgnni.reproduce.study import Cell
from mgnni.reproduce.train_cell import source_of
from mgnni.train.child import begin_child, interrupts_held
from mgnni.train.device import threads_per_process
from mgnni.train.folder import OtherTrainingError
from mgnni.train.runs import Epoch
from mgnni.train.training import OnEpoch

# Called with a cell before it is trained; yields what is called after every epoch.
Follow = Callable[[Cell], AbstractContextManager[OnEpoch]]
_stop: Any = None  # in a process of the pool: the event that ends it


@dataclass(frozen=True)
class Outcome:
    """A cell that was trained, or has failed.

    Attributes:
        cell: The cell.
        report: Its report; ``None`` if it has failed.
        error: Why it has failed.
        seconds: Time it took, here and now.
    """

    cell: Cell
    report: dict[str, Any] | None
    error: str = ""
    seconds: float = 0.0


def run_cell(
    cell: Cell, output: Path, device: str, on_epoch: OnEpoch, replaces: bool = False
) -> Outcome:
    """Train a cell, or continue it, and store its report or why it failed.

    Args:
        cell (Cell): The cell.
        output (Path): Folder of all experiments.
        device (str): ``"auto"``, ``"cpu"`` or ``"cuda"``.
        on_epoch (Callable[[Epoch], None]): Called after every epoch.
        replaces (bool, optional): Whether to start anew if the folder has a report, or an
            interrupted training, with other settings; otherwise the cell fails, and the folder
            stays as it is. Missing runs are added to a report with the same settings in both
            cases, if :func:`can_add` says so. (default: :obj:`False`)
    """
    start = time.perf_counter()
    try:
        with locked(cell, output):
            outcome = _run_locked(cell, output, device, on_epoch, replaces)
    except BusyError as error:  # not stored: the cell is that of the other process
        outcome = Outcome(cell, None, str(error))
    except OSError as error:  # cannot be stored
        reason = (error.strerror or str(error)).lower()
        outcome = Outcome(cell, None, f"{cell.folder(output)}: cannot be written ({reason})")
    return replace(outcome, seconds=time.perf_counter() - start)


def _run_locked(
    cell: Cell, output: Path, device: str, on_epoch: OnEpoch, replaces: bool
) -> Outcome:
    """Do what :func:`run_cell` says, while no other process works on the cell."""
    try:
        there = stored(cell, output)  # another process may have finished it
        if there.state == DONE:
            return Outcome(cell, there.report)
        adds = can_add(cell, there)
        if there.state == OTHER and not adds:
            if not replaces:  # it was stored after the cells to train were selected
                raise DataError(
                    f"{cell.folder(output)}: must hold no report with other settings (got "
                    f"{there.why}); --replace trains it again"
                )
            source_of(cell)  # data that cannot be read must not cost the report
            clear(cell.folder(output))  # only now, so that no report is lost before its turn
        try:
            report = _measure(cell, output, there, device, on_epoch)
        except OtherTrainingError as error:  # interrupted, with other settings or versions
            if not replaces:
                raise DataError(f"{error}; --replace starts it anew") from error
            clear(cell.folder(output) / MORE_RUNS if adds else cell.folder(output))
            report = _measure(cell, output, there, device, on_epoch)
    # One cell that fails, for whatever reason, does not stop the others.
    except Exception as error:
        message = one_line(error)
        record_failure(cell, output, message)
        return Outcome(cell, None, message)
    forget_failure(cell, output)
    return Outcome(cell, report)


def _measure(
    cell: Cell, output: Path, there: Stored, device: str, on_epoch: OnEpoch
) -> dict[str, Any]:
    """Copy the report of a cell, or train the cell or its missing runs; return what was stored."""
    kind = KINDS[cell.study.kind]
    started = there.report is None and (cell.folder(output) / CONFIG).exists()
    report = copy_of_other(cell, output, kind.adds) if kind.shared and not started else None
    if report is not None:
        return report
    if can_add(cell, there):
        return add_runs(cell, output, there, device, on_epoch)
    return keep(cell, output, kind.measure(cell, cell.folder(output), device, on_epoch))


def run_cells(
    cells: Sequence[Cell],
    output: Path,
    *,
    device: str,
    jobs: int | None,
    follow: Follow,
    replaces: bool = False,
) -> Generator[Outcome, None, None]:
    """Yield the outcome of every cell when it is finished.

    Cells that measure time run alone, after the others.

    Args:
        cells (Sequence[Cell]): What to train.
        output (Path): Folder of all experiments.
        device (str): ``"auto"``, ``"cpu"`` or ``"cuda"``.
        jobs (int, optional): Number of trainings at the same time, each in one process;
            :obj:`None` trains one after another, each in as many processes as help.
        follow (Callable): Called with each cell that this process trains; the context manager it
            returns yields what is called after every epoch.
        replaces (bool, optional): See :func:`run_cell`. (default: :obj:`False`)
    """
    alone = [cell for cell in cells if jobs is None or KINDS[cell.study.kind].alone]
    # The largest data first, so that the last training to finish is a short one.
    others = sorted((cell for cell in cells if cell not in alone), key=_size, reverse=True)
    yield from _in_parallel(others, (output, device, replaces), jobs or 1)
    for cell in alone:
        with follow(cell) as on_epoch:
            outcome = run_cell(cell, output, device, on_epoch, replaces)
        yield outcome


def _size(cell: Cell) -> int:
    return cell.number_of_runs * (find_entry(cell.column.dataset).counts.edges or 0)


def _in_parallel(
    cells: Sequence[Cell], options: tuple[Path, str, bool], jobs: int
) -> Generator[Outcome, None, None]:
    if not cells:
        return
    spawn = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    stop, threads = spawn.Event(), threads_per_process(jobs)
    left = list(cells)
    with ProcessPoolExecutor(jobs, spawn, _start, (stop, threads)) as pool:
        try:
            with interrupts_held():
                waiting = {pool.submit(_in_pool, cell, *options): cell for cell in cells}
            for done in as_completed(waiting):
                if not isinstance(done.exception(), BrokenProcessPool):
                    left.remove(waiting[done])
                    yield replace(done.result(), cell=waiting[done])  # not its copy
        finally:  # also if this process is interrupted
            stop.set()
            pool.shutdown(cancel_futures=True)
    # If a process was killed, the pool has ended with it: continue with one process per cell.
    for cell in left:
        yield _in_own_process(cell, options, threads)


def _in_own_process(cell: Cell, options: tuple[Path, str, bool], threads: int) -> Outcome:
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    with ProcessPoolExecutor(1, spawn, _start, (stop, threads)) as pool:
        try:
            with interrupts_held():
                done = pool.submit(_in_pool, cell, *options)
            return replace(done.result(), cell=cell)
        except BrokenProcessPool:
            message = "its process was killed, perhaps for lack of memory; free memory, and repeat"
            record_failure(cell, options[0], message)
            return Outcome(cell, None, message)
        finally:
            stop.set()


def _start(stop: Any, threads: int) -> None:
    """Prepare a process of the pool; the main process decides when it is interrupted."""
    global _stop
    _stop = stop
    begin_child(threads)


def _in_pool(cell: Cell, output: Path, device: str, replaces: bool) -> Outcome:
    def on_epoch(epoch: Epoch | None = None) -> None:
        if _stop.is_set():
            raise KeyboardInterrupt

    on_epoch()  # the interrupt may have come while this process was starting
    return run_cell(cell, output, device, on_epoch, replaces)


class Pace:
    """Estimates the time left from the seconds per run of finished cells.

    Args:
        jobs (int): Number of processes.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._known: dict[tuple[str, str], list[float]] = {}

    def add(self, cell: Cell, report: Mapping[str, Any]) -> None:
        """Record a finished cell."""
        pace = report["seconds"] / len(report["runs"])
        for key in self._keys(cell):
            self._known.setdefault(key, []).append(pace)

    def of(self, cell: Cell) -> float | None:
        """Return the expected seconds of a cell: those of its dataset, or of any other."""
        for key in self._keys(cell):
            if key in self._known:
                return statistics.fmean(self._known[key]) * cell.number_of_runs
        return None

    def left(self, cells: Sequence[Cell]) -> float | None:
        """Return the expected seconds of the cells that are left; ``None`` if nothing is known."""
        known = [found for found in map(self.of, cells) if found is not None]
        return sum(known) / self.jobs if known else None

    def _keys(self, cell: Cell) -> list[tuple[str, str]]:
        return [(cell.row.name, cell.column.name), ("", cell.column.name), ("", "")]
