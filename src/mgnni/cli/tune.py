"""``mgnni tune``: search the hyperparameters of a model on validation data."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from mgnni.cli.arguments import UsageError
from mgnni.cli.data import benchmark_options, split_numbers
from mgnni.cli.folders import default_folder, writable_folder
from mgnni.cli.train import Train
from mgnni.data.tables.schema import TableOptions
from mgnni.files import to_json
from mgnni.models.catalog import MGNNI
from mgnni.train.option_words import option_words

# Of the command.
NOT_REPEATED = ("data", "output", "resume", "jobs", "json", "debug")
# What a training with the result must read and measure alike.
OF_DATA = (*(one.name for one in fields(TableOptions)), "option", "metric", "num_splits", "folds")


@dataclass(frozen=True, kw_only=True)
class Tune(Train):
    """Search hyperparameters on validation data.

    Every trial trains all splits and seeds with one choice of hyperparameters. The choice with the
    best mean validation metric is written to preset.json in the output folder; train with it by
    mgnni train DATA --preset FOLDER/preset.json. Each split is searched without its own test
    labels.

    The values to choose from are those that mgnni models NAME lists, or those in --space.
    Hyperparameters that are given as options are not searched. All combinations are tried if there
    are at most --trials, otherwise as many at random. Trials that are behind at a rung of
    successive halving are stopped.

    To use several machines or GPUs, start the command on each with the same --output and --resume.

    Example: mgnni tune texas
    Example: mgnni tune texas --model gcnii --trials 30 --split 0 1 2
    Example: mgnni tune my-graph/ --label topic --space space.json --jobs 4
    """

    no_options: ClassVar[Sequence[str]] = (
        *("changes", "tables", "config"),
        *("rule", "checkpoint_every", "given", "budget", "mesh", "partition", "log", "no_report"),
    )
    may_choose: ClassVar[bool] = False

    architecture: str = field(default=MGNNI, metadata={"names": ("--model",)})
    """Model, see mgnni models. Its options are listed below."""
    output: Path | None = field(
        default=None, metadata={"metavar": "FOLDER", "unset": "runs/tune-DATA"}
    )
    """Folder for the study; existing files are not overwritten."""
    resume: bool = False
    """Continue an interrupted study in that folder, or join other processes that work there."""
    trials: int = 50
    """Number of trials."""
    space: Path | None = field(
        default=None, metadata={"metavar": "FILE", "unset": "that of mgnni models NAME"}
    )
    """JSON file with the values of each hyperparameter: {"lr": [0.01, 0.1]}."""
    jobs: int = 1
    """Number of processes."""
    no_pruning: bool = False
    """Train every trial to its end."""
    first_rung: int | None = field(
        default=None, metadata={"unset": "half of the patience, at most a quarter of the epochs"}
    )
    """Epochs after which trials are first compared; runs, if they are trained one by one."""
    reduction: int = 2
    """Factor between rungs; a trial goes on if it is among the best 1/INT of a rung."""
    search_seed: int = 0
    """Seed of the order of the trials."""
    given: dict[str, Any] = field(default_factory=dict)  # options as they were given

    @classmethod
    def create(cls, values: Mapping[str, Any]) -> Tune:
        """Return the command, which remembers the options that were given."""
        made = super().create(values)
        object.__setattr__(made, "given", dict(values))
        return made  # type: ignore[return-value]

    def run(self) -> None:
        """Search, print and save."""
        # Imported late because they are slow to import.
        from mgnni.cli.tune_output import follow_search, show_search
        from mgnni.train.search import read_space
        from mgnni.train.tune import check_optuna, make_search, run_search

        check_optuna()
        for name in ("trials", "jobs"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name} must be at least 1 (got {getattr(self, name)})")
        source, config = self.find()
        search = make_search(
            source,
            config,
            None if self.space is None else read_space(self.space),
            self.changes,
            split=split_numbers(self.split),
            seed=self.seeds,
            trials=self.trials,
            search_seed=self.search_seed,
            prune=not self.no_pruning,
            first_rung=self.first_rung,
            reduction=self.reduction,
            together=not self.one_by_one,
            device=self.device,
            deterministic=self.deterministic,
        )
        model = config.architecture
        name = f"tune-{source.task.name}" + ("" if model == MGNNI else f"-{model}")
        output = self.output or default_folder(name)
        writable_folder(output)
        about = {
            "preset": self.preset,
            "options": benchmark_options(self.option),
            "changes": self.changes,
            "repeat": repeat(self.data, self.given),
        }
        try:
            with follow_search() as follow:
                result = run_search(search, source, output, about, self.jobs, self.resume, follow)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"{output} keeps what was done; repeat the command with --resume to continue"
            ) from None
        if self.json:
            sys.stdout.write(to_json(result))
        else:
            of_data = {name: value for name, value in self.given.items() if name in OF_DATA}
            show_search(result, output, [self.data, *_words(of_data)])


def repeat(data: str, given: Mapping[str, Any]) -> str:
    """Return the command that repeats a search.

    Args:
        data (str): The data.
        given (Mapping[str, Any]): Options by field name.
    """
    kept = {name: value for name, value in given.items() if name not in NOT_REPEATED}
    return shlex.join(["mgnni", "tune", data, *_words(kept)])


def _words(given: Mapping[str, Any]) -> list[str]:
    """Return options as words of a command line.

    Args:
        given (Mapping[str, Any]): Options by field name.
    """
    named = {"model" if name == "architecture" else name: value for name, value in given.items()}
    return [word for name, value in named.items() for word in option_words(name, value)]
