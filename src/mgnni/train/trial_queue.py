"""The trials of a search, in an Optuna journal that several processes share and can continue.

All trials are enqueued beforehand, so their parameters depend neither on the number of processes
nor on interruptions. A process claims a trial under the lock of the folder, and keeps the lock of
the trial until it is done. A trial that runs without its lock belongs to a process that died; it is
enqueued again.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
from filelock import FileLock, Timeout
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.pruners import BasePruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import RandomSampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from mgnni.data.metric_names import LOWER_IS_BETTER, gain
from mgnni.errors import ArgumentError, DataError
from mgnni.files import to_json
from mgnni.train.folder import FILES, JOURNAL, PORTFOLIO, check_same
from mgnni.train.search import Search
from mgnni.train.trial import Outcome

NAME = "mgnni"
# Trials are independent, so machines with other versions of these may share a study.
VERSIONS = tuple(f"versions.{name}" for name in ("python", "torch", "torch_geometric", "numpy"))
STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}


class _Lock(JournalFileOpenLock):
    """The lock of the journal; the system releases it if its process is killed."""

    def __init__(self, path: Path) -> None:
        self.lock = FileLock(path)

    def acquire(self) -> bool:
        self.lock.acquire()
        return True

    def release(self) -> None:
        self.lock.release()


class TrialQueue:
    """The trials of a search in a folder.

    Args:
        folder (Path): The folder, which must exist.
        search (Search): What is searched.
        header (dict[str, Any]): Everything that decides the outcome, apart from the number of
            trials.
        resume (bool): Whether to continue a study in the folder; without, there must be none.
    """

    def __init__(self, folder: Path, search: Search, header: dict[str, Any], resume: bool) -> None:
        self.folder, self.search = folder, search
        if any((folder / name).exists() for name in (*FILES, PORTFOLIO)):
            raise ArgumentError(
                f"'output' must not be the folder of a training (got {folder}); choose another one"
            )
        self.lock = FileLock(folder / ".study.lock")  # not that which a training holds to its end
        with self.lock, _quiet():
            self.new = not (folder / JOURNAL).exists()
            if not (self.new or resume):
                raise DataError(
                    f"{folder}: already holds a study; continue or join it with --resume, or "
                    "choose another folder with --output"
                )
            self.study = self._open()
            self._check(header)
            self._enqueue()

    def _open(self) -> optuna.Study:
        path = self.folder / JOURNAL
        backend = JournalFileBackend(str(path), _Lock(self.folder / ".journal.lock"))
        pruner: BasePruner = NopPruner()
        if self.search.rungs:
            pruner = SuccessiveHalvingPruner(self.search.rungs[0], self.search.reduction)
        self._drop_half_a_line()
        try:
            storage, sampler = JournalStorage(backend), RandomSampler(seed=self.search.seed)
            if not storage.get_all_studies():
                lower = self.search.experiment.task.metric in LOWER_IS_BETTER
                optuna.create_study(
                    storage=storage,
                    study_name=NAME,
                    direction="minimize" if lower else "maximize",
                )
            return optuna.load_study(
                study_name=NAME, storage=storage, sampler=sampler, pruner=pruner
            )
        except OSError:
            raise
        # A damaged journal: Optuna promises no kind of error.
        except Exception as error:
            raise DataError(
                f"{path}: is not a journal of mgnni tune, or it is damaged; choose another --output"
            ) from error

    def _drop_half_a_line(self) -> None:
        """Remove the end of the journal if a process died, or had no space, while writing it."""
        path = self.folder / JOURNAL
        with FileLock(self.folder / ".journal.lock"):
            content = path.read_bytes() if path.exists() else b""
            # Not of another file, which is refused below and must stay as it is.
            if content.startswith(b'{"op_code"') and not content.endswith(b"\n"):
                with path.open("r+b") as file:
                    file.truncate(content.rfind(b"\n") + 1)

    def _check(self, header: dict[str, Any]) -> None:
        there = self.study.user_attrs.get("header")
        if there is None:
            self.study.set_user_attr("header", json.loads(to_json(header)))
        else:
            check_same(self.folder, there, header, "study", VERSIONS)

    def _enqueue(self) -> None:
        """Enqueue all points that have no trial, or one whose process died."""
        for trial in self.trials(TrialState.RUNNING):
            if self._abandoned(trial.number):
                self.study.tell(trial.number, state=TrialState.FAIL)
        # A process can also die after it has recorded an outcome, and before it removes its lock.
        for path in self.folder.glob(".trial-*.lock"):
            self._abandoned(int(path.stem.removeprefix(".trial-")))
        there = {trial.user_attrs["point"] for trial in self.trials() if not _interrupted(trial)}
        for number, point in self.search.points.items():
            if number not in there:
                texts = {name: _text(value) for name, value in point.items()}
                self.study.enqueue_trial(texts, user_attrs={"point": number})

    def trials(self, *states: TrialState) -> list[FrozenTrial]:
        """Return the trials in these states, or all."""
        return self.study.get_trials(deepcopy=False, states=states or None)

    def claim(self) -> Trial | None:
        """Return a trial that no other process has, or ``None`` if there is none at the moment."""
        with self.lock, _quiet():
            self._enqueue()
            if not self.trials(TrialState.WAITING):
                return None
            space: dict[str, BaseDistribution] = {
                name: CategoricalDistribution([_text(value) for value in values])
                for name, values in self.search.space.items()
            }
            trial = self.study.ask(space)
            self._held = self._lock_of(trial.number)
            self._held.acquire(timeout=0)
            return trial

    def settle(self, trial: Trial, outcome: Outcome) -> None:
        """Record the outcome of a claimed trial."""
        for name, value in outcome.to_dict().items():
            trial.set_user_attr(name, value)
        if outcome.error is not None:
            self.study.tell(trial, state=TrialState.FAIL)
        elif outcome.value is None:
            self.study.tell(trial, state=TrialState.PRUNED)
        else:
            # Its value counts at all later rungs, which it need not reach.
            trial.report(outcome.value, self.search.most)
            trial.should_prune()
            self.study.tell(trial, outcome.value)
        with self.lock:
            self._held.release()
            Path(self._held.lock_file).unlink(missing_ok=True)

    @property
    def count(self) -> int:
        """Number of trials, without those that are repeated."""
        # An interrupted trial is repeated only if it is among the trials that are asked for.
        points = self.search.points
        every = ((trial.user_attrs["point"], trial) for trial in self.trials())
        return len({point for point, one in every if point in points or not _interrupted(one)})

    @property
    def complete(self) -> bool:
        """Whether all trials are done."""
        return sum(map(_done, self.trials())) == self.count

    def done(self) -> list[dict[str, Any]]:
        """Return the trials that are done, as plain data; the best first."""
        found = [self._plain(trial) for trial in self.trials() if _done(trial)]
        metric = self.search.experiment.task.metric
        return sorted(found, key=lambda one: _rank(one, metric))

    def seconds(self) -> float:
        """Return the time of all trials together."""
        spans = (trial.duration for trial in self.trials() if _done(trial))
        return sum(one.total_seconds() for one in spans if one is not None)

    def _plain(self, trial: FrozenTrial) -> dict[str, Any]:
        about = trial.user_attrs
        found = {
            "trial": trial.number,
            "params": self.search.point(about["point"]),
            "state": STATES[trial.state],
            "value": trial.value,
            **{name: about[name] for name in ("loss", "epochs", "runs")},
            "rungs": {
                str(step): trial.intermediate_values[step]
                for step in self.search.rungs
                if step in trial.intermediate_values
            },
        }
        return {**found, "error": about["error"]} if "error" in about else found

    def _lock_of(self, number: int) -> FileLock:
        return FileLock(self.folder / f".trial-{number}.lock")

    def _abandoned(self, number: int) -> bool:
        """Return whether no process works on a trial, and remove its lock then."""
        lock = self._lock_of(number)
        try:
            with lock.acquire(timeout=0):
                pass
        except Timeout:
            return False
        Path(lock.lock_file).unlink(missing_ok=True)
        return True


def _done(trial: FrozenTrial) -> bool:
    return trial.state in STATES and not _interrupted(trial)


def _interrupted(trial: FrozenTrial) -> bool:
    return trial.state is TrialState.FAIL and "error" not in trial.user_attrs


def _rank(trial: dict[str, Any], metric: str) -> tuple[Any, ...]:
    """Order trials: complete ones by metric, then by loss; then pruned ones by how far they got."""
    if trial["state"] == "failed":
        return 2, trial["trial"]
    if trial["state"] == "pruned":
        return 1, -trial["epochs"], -gain(metric, trial["value"]), trial["trial"]
    return 0, -gain(metric, trial["value"]), trial["loss"], trial["trial"]


def _text(value: Any) -> Any:
    """Return a value as Optuna can store it: a list becomes its JSON text."""
    return json.dumps(value) if isinstance(value, (list, tuple)) else value


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence Optuna's messages about new studies and trials."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
