"""A search for hyperparameters: its space, its trials, and the rungs of successive halving."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mgnni.errors import ArgumentError, DataError, check_int
from mgnni.train.config import changed
from mgnni.train.experiment import Experiment
from mgnni.train.runs import Epoch

Space = Mapping[str, Sequence[Any]]
MAX_POINTS = 10**6


def read_space(path: Path) -> dict[str, list[Any]]:
    """Read a space from a JSON file.

    Args:
        path (Path): The file, with the values of each hyperparameter: ``{"lr": [0.01, 0.1]}``.
    """
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: must hold a space as JSON ({error}); check the file") from error
    if not isinstance(found, dict) or not all(isinstance(one, list) for one in found.values()):
        raise DataError(
            f'{path}: must hold lists by name, as in {{"lr": [0.01, 0.1]}} (got something else)'
        )
    return found


@dataclass(frozen=True)
class Progress:
    """Progress of a search, for progress bars.

    Attributes:
        done: Number of trials that are done, by all processes.
        trials: Number of all trials.
        best: The best trial so far, as in ``trials`` of ``preset.json``.
        params: Hyperparameters of the current trial; empty while waiting for other processes.
        epoch: The last epoch of the current trial; ``None`` between trials.
        metric: Name of the metric.
    """

    done: int
    trials: int
    best: dict[str, Any] | None
    params: dict[str, Any]
    epoch: Epoch | None
    metric: str = "accuracy"


OnProgress = Callable[[Progress], None]


@dataclass(frozen=True)
class Search:
    """What to search, and with which budget; errors are raised on construction.

    A trial trains all runs of the experiment with one point of the space. Its value is the mean
    validation metric of the runs at their best epochs. The points are distinct and in random
    order, so a search with more trials contains those of a search with fewer.

    With successive halving, trials are compared at rungs: after ``first_rung``, then ``reduction``
    times as many ... epochs, if all runs are trained side by side, or else after so
    many runs. Those below the best ``1 / reduction`` at a rung are pruned.

    Args:
        experiment (Experiment): Data, runs and the configuration to start from, without test sets.
        space (Mapping[str, Sequence[Any]]): Values of each hyperparameter.
        trials (int): Number of points; all, if the space has fewer.
        seed (int, optional): Seed of the order of the points. (default: :obj:`0`)
        prune (bool, optional): Prune by successive halving. (default: :obj:`True`)
        first_rung (int, optional): Epochs or runs before the first rung. (default: half of the
            patience but at most a quarter of the epochs, or one run)
        reduction (int, optional): Factor between rungs. (default: :obj:`2`)
    """

    experiment: Experiment
    space: Space
    trials: int
    seed: int = 0
    prune: bool = True
    first_rung: int | None = None
    reduction: int = 2

    def __post_init__(self) -> None:
        if self.experiment.test:
            raise ArgumentError("'experiment' must have test=False: a search uses no test data")
        check_int("trials", self.trials)
        check_int("reduction", self.reduction, 2)
        if self.first_rung is not None:
            check_int("first_rung", self.first_rung)
        if not self.space:
            raise ArgumentError("'space' must have a hyperparameter (got none); leave one open")
        for name, values in self.space.items():
            texts = [json.dumps(value) for value in values]
            if not texts or len(set(texts)) < len(texts):
                raise ArgumentError(
                    f"'space' must have distinct values for {name} (got {list(values)}); list at "
                    "least one, each once"
                )
        if self.size > MAX_POINTS:
            raise ArgumentError(
                f"'space' must have at most {MAX_POINTS} points (got {self.size}); leave out values"
            )
        _ = self.unit  # checks all points

    @property
    def size(self) -> int:
        """Number of points of the space."""
        return math.prod(len(values) for values in self.space.values())

    @cached_property
    def points(self) -> dict[int, dict[str, Any]]:
        """The points to try, by their number in the grid."""
        order = list(range(self.size))
        random.Random(self.seed).shuffle(order)
        return {number: self.point(number) for number in order[: self.trials]}

    def point(self, number: int) -> dict[str, Any]:
        """Return a point of the grid; the last hyperparameter changes fastest."""
        found = {}
        for name, values in reversed(list(self.space.items())):
            number, place = divmod(number, len(values))
            found[name] = values[place]
        return {name: found[name] for name in self.space}

    def of_point(self, number: int) -> Experiment:
        """Return the experiment of a point, which may be one of a search with more trials."""
        base = self.experiment
        return replace(base, config=changed(base.config, self.point(number)))

    @cached_property
    def unit(self) -> str:
        """What rungs count: ``"epochs"`` or ``"runs"``."""
        groups = [len(self.of_point(number).groups()) for number in self.points]
        return "epochs" if max(groups) == 1 else "runs"

    @cached_property
    def most(self) -> int:
        """Epochs or runs of a trial that is not pruned."""
        if self.unit == "runs":
            return len(self.experiment.runs)
        epochs: int = max(self.space.get("epochs", [self.experiment.config.epochs]))
        return epochs

    @cached_property
    def rungs(self) -> tuple[int, ...]:
        """Epochs or runs after which trials are compared; none without pruning."""
        if not self.prune:
            return ()
        least = 1
        if self.unit == "epochs":
            patience = self.experiment.config.patience or self.most
            least = max(min(patience // 2, self.most // 4), 1)
        found = [self.first_rung or least]
        while found[-1] < self.most:
            found.append(found[-1] * self.reduction)
        return tuple(found[:-1])
