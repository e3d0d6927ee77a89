"""``model="auto"``: compares the candidates of a portfolio on validation data and chooses one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from mgnni.data.rules import get_rule
from mgnni.errors import DataError, MgnniError
from mgnni.files import read_object, write_object
from mgnni.train.candidate import CandidateTraining
from mgnni.train.config import Config
from mgnni.train.device import find_device, settings_restored
from mgnni.train.experiment import Experiment
from mgnni.train.folder import PORTFOLIO, Folder, check_same
from mgnni.train.portfolio import (
    OPTIONS,
    Budget,
    compared_runs,
    find_candidates,
    notes_on,
    rank,
    survivors,
)
from mgnni.train.report import FORMAT, describe, versions
from mgnni.train.runs import Epoch
from mgnni.train.schedule import depends_on_epochs
from mgnni.train.source import Source

PACED = 5  # epochs in which the pace of a candidate is measured
OnStart = Callable[[Mapping[str, Any]], None]
OnCandidateEpoch = Callable[[str, Epoch], None]


@dataclass(frozen=True)
class Chosen:
    """What a portfolio has chosen.

    Attributes:
        experiment: The training of the chosen candidate, with the record of the comparison.
        state: State of that training; ``None`` to start from the beginning.
    """

    experiment: Experiment
    state: dict[str, Any] | None


@settings_restored()
def choose(
    experiment: Experiment,
    changes: Mapping[str, Any],
    output: Path | None = None,
    resume: bool = False,
    minutes: float | None = None,
    on_start: OnStart | None = None,
    on_epoch: OnCandidateEpoch | None = None,
) -> Chosen:
    """Compare the candidates of a portfolio, and return the training of the best one.

    The comparison is written to ``portfolio.json`` after every candidate and rung, so that it can
    be continued. If the data have a single run, the training goes on where the comparison ended;
    as all random numbers depend on split, seed and epoch only, this changes no result.

    Args:
        experiment (Experiment): All runs, with any configuration.
        changes (Mapping[str, Any]): Options that were given; they hold for all candidates.
        output (Path, optional): Folder of the training. (default: :obj:`None`)
        resume (bool, optional): Continue the comparison in the folder. (default: :obj:`False`)
        minutes (float, optional): Time for comparison and training together.
            (default: four, and one more per run)
        on_start (Callable[[Mapping], None], optional): Called with the plan before the first
            candidate is trained. (default: :obj:`None`)
        on_epoch (Callable[[str, Epoch], None], optional): Called after every epoch with the name of
            the candidate. (default: :obj:`None`)
    """
    portfolio = PortfolioRun(experiment, changes, minutes)
    with nullcontext() if output is None else Folder(output):
        if output is not None:
            portfolio.open(output, resume)
        if portfolio.record["chosen"] is None:
            if on_start is not None:
                on_start(portfolio.record)
            portfolio.run(on_epoch)
    return portfolio.chosen()


class PortfolioRun:
    """The candidates of a portfolio, their trainings, and the record of their results.

    Args:
        experiment (Experiment): All runs, with any configuration.
        changes (Mapping[str, Any]): Options that were given; they hold for all candidates.
        minutes (float, optional): Time for comparison and training together.
    """

    def __init__(
        self, experiment: Experiment, changes: Mapping[str, Any], minutes: float | None
    ) -> None:
        self.experiment, self.changes = experiment, changes
        self.budget = Budget.of(experiment, minutes)
        source = experiment.source
        task, found = source.task, find_candidates(source, changes)
        runs = compared_runs(task, experiment.runs)
        splits = sorted({run.split for run in runs})
        self.rows = sum(task.rows(run.split, "val").numel() for run in runs)
        for split in splits:
            if task.rows(split, "val").numel() == 0:
                raise DataError(
                    f"{task.name}, split {split}: the choice of a model needs labelled validation "
                    "rows (got none); move some from the training set, or choose a --model"
                )
        untested = Source(task.without_test(splits), source.schema, source.origin)
        self.untested = replace(experiment, source=untested, runs=runs, test=False, jobs=1)
        self.configs = {name: self._with(config).config for name, config in found.configs.items()}
        self.trainings: dict[str, CandidateTraining] = {}
        self.file: Path | None = None
        self.header: dict[str, Any] = {}
        self.record: dict[str, Any] = {
            "chosen": None,
            "epochs": None,
            "metric": task.metric,
            "splits": splits,
            "seed": runs[0].seed,
            "budget": {"minutes": self.budget.minutes, "comparing": self.budget.comparing},
            "rungs": [],
            "candidates": [_unknown(name, config) for name, config in self.configs.items()],
            "left_out": dict(found.left_out),
            "notes": [],
            "seconds": 0.0,
        }

    def _with(self, config: Config) -> Experiment:
        return replace(self.untested, config=config)

    def open(self, folder: Path, resume: bool) -> None:
        """Start a comparison in a folder, or load the one that it holds."""
        self.file = folder / PORTFOLIO
        self.header = self._header()
        if not self.file.exists():
            if (folder / "config.json").exists():
                raise DataError(
                    f"{folder}: holds the training of one model, not a choice among several; "
                    "repeat its --model to continue it, or choose another --output"
                )
            self._save()
            return
        if not resume:
            raise DataError(
                f"{folder}: already holds a training; continue it with --resume, or choose "
                "another folder with --output"
            )
        there = read_object(self.file, "delete it to compare again")
        check_same(folder, there.get("header", {}), self.header, "comparison")
        self.record = {key: there[key] for key in self.record}

    def _header(self) -> dict[str, Any]:
        """Return everything that decides the outcome."""
        experiment = self.experiment
        return {
            "format": FORMAT,
            "data": {"origin": experiment.source.origin, **describe(experiment.task)},
            "metric": experiment.task.metric,
            "candidates": {name: config.to_dict() for name, config in self.configs.items()},
            "runs": [vars(run) for run in self.untested.runs],
            "trained": len(experiment.runs),
            "budget": asdict(self.budget),
            "device": find_device(experiment.device),
            "versions": versions(),
        }

    def _save(self) -> None:
        if self.file is not None:
            write_object(self.file, {"header": self.header, **self.record})

    def run(self, on_epoch: OnCandidateEpoch | None) -> None:
        """Train the candidates from rung to rung, and choose the best."""
        start, record = time.perf_counter(), self.record
        before = record["seconds"]

        def spent() -> float:
            record["seconds"] = before + time.perf_counter() - start
            return float(record["seconds"])

        most = max(config.epochs for config in self.configs.values())
        if not record["rungs"]:
            paces = []
            for one in record["candidates"] if self.budget.limited else []:
                self._advance(one, min(PACED, most), on_epoch)
                if one["error"] is None:
                    paces.append(self._pace(one))
            record["rungs"] = self.budget.rungs(most, paces, spent())
        alive = list(record["candidates"])
        for rung in record["rungs"]:
            for one in alive:
                if str(rung) not in one["rungs"] and one["error"] is None:
                    self._advance(one, rung, on_epoch)
                    self._note(one, rung)
                    spent()
                    self._save()
            alive = survivors(alive, record["metric"], rung)
            for one in record["candidates"]:
                if one not in alive:  # free its memory
                    self.trainings.pop(one["name"], None)
        self._choose(spent())
        self._save()

    def _advance(self, one: dict[str, Any], epochs: int, on_epoch: OnCandidateEpoch | None) -> None:
        name = one["name"]
        if name not in self.trainings:
            self.trainings[name] = CandidateTraining(self._with(self.configs[name]))
        training = self.trainings[name]
        training.advance(epochs, None if on_epoch is None else partial(on_epoch, name))
        one["error"] = training.error

    def _note(self, one: dict[str, Any], rung: int) -> None:
        if one["error"] is not None:
            one |= {"validation": None, "loss": None}
            return
        training = self.trainings[one["name"]]
        one |= {"validation": training.value, "loss": training.loss, "epochs": training.epochs}
        one["seconds_per_epoch"] = training.pace
        one["rungs"][str(rung)], one["losses"][str(rung)] = training.value, training.loss

    def _pace(self, one: dict[str, Any]) -> float:
        training = self.trainings[one["name"]]
        return training.pace * len(training.experiment.runs)

    def _choose(self, spent: float) -> None:
        record = self.record
        record["candidates"].sort(key=lambda one: rank(one, record["metric"]))
        best = record["candidates"][0]
        if best["validation"] is None:
            raise MgnniError(
                f"no model could be trained; {best['name']} says: {best['error']}; choose a "
                "--model and its options"
            )
        config = self.configs[best["name"]]
        record["chosen"], record["epochs"] = best["name"], config.epochs
        if "epochs" not in self.changes:
            pace = best["seconds_per_epoch"] * len(self.experiment.runs)
            reached = 0 if self._state() is None else best["epochs"]
            found = self.budget.epochs(config.epochs, pace, spent, reached)
            cosine = depends_on_epochs(config.schedule, config.lr_period)
            if found < config.epochs and cosine:  # all epochs are repeated
                found = self.budget.epochs(config.epochs, pace, spent, 0)
            record["epochs"] = found
        schema = self.experiment.source.schema
        degree = schema is not None and any(one.kind == "degree" for one in schema.columns)
        record["notes"] = notes_on(record, self.rows, degree)

    def _state(self) -> dict[str, Any] | None:
        """Return the state that the training of the chosen candidate can start from."""
        training = self.trainings.get(self.record["chosen"])
        experiment = self.experiment
        if training is None or len(experiment.runs) > 1:
            return None
        config = training.experiment.config
        cosine = depends_on_epochs(config.schedule, config.lr_period)
        if cosine and self.record["epochs"] < config.epochs:
            return None
        if get_rule(experiment.rule).needs_test_curve:
            return None
        return training.state()

    def chosen(self) -> Chosen:
        """Return the training of the chosen candidate."""
        state, record = self._state(), self.record
        config = replace(self.configs[record["chosen"]], epochs=record["epochs"])
        return Chosen(replace(self.experiment, config=config, portfolio=record), state)


def _unknown(name: str, config: Config) -> dict[str, Any]:
    """Return the result of a candidate that was not trained yet."""
    return {
        "name": name,
        "model": config.architecture,
        "options": dict(OPTIONS.get(name, {})),
        "validation": None,
        "loss": None,
        "epochs": 0,
        "rungs": {},
        "losses": {},
        "seconds_per_epoch": None,
        "error": None,
    }
