"""Evaluation rules: which epoch of a run is reported, and on what data it was selected."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mgnni.errors import ArgumentError, check_choice

DEFAULT_RULE = "validation"


@dataclass(frozen=True)
class RunHistory:
    """The results of one run that a rule needs.

    Args:
        split (int): Index of the split or fold.
        seed (int): Seed of the run.
        selected_epoch (int): The epoch selected without test data; the first one is 1.
        test (float, optional): Test metric at this epoch.
        test_curve (tuple of float, optional): Test metric after each epoch.
        validated (bool, optional): Whether this epoch was selected on a validation set.
            (default: :obj:`True`)
    """

    split: int
    seed: int
    selected_epoch: int
    test: float | None = None
    test_curve: tuple[float, ...] | None = None
    validated: bool = True

    def __post_init__(self) -> None:
        if self.selected_epoch < 1:
            raise ArgumentError(
                f"'selected_epoch' must be at least 1, the first epoch (got {self.selected_epoch})"
            )
        values = (*(() if self.test is None else (self.test,)), *(self.test_curve or ()))
        if not all(math.isfinite(value) for value in values):
            raise ArgumentError(
                f"'test' and 'test_curve' must be finite (got nan or inf in {self.label}); pass "
                "None for values that were not measured"
            )

    @property
    def label(self) -> str:
        """Name of the run in messages."""
        return f"the run on split {self.split} with seed {self.seed}"


@dataclass(frozen=True)
class Score:
    """The result of a rule.

    Attributes:
        rule: Name of the rule.
        mark: Printed after the mean; empty if no test data were used for the selection.
        n: Number of runs.
        mean: Mean of the values.
        std: Sample standard deviation of the values (divisor n - 1), None for a single run.
        values: Test metric of each run.
        epochs: Epoch of each value.
    """

    rule: str
    mark: str
    n: int
    mean: float
    std: float | None
    values: tuple[float, ...]
    epochs: tuple[int, ...]


@dataclass(frozen=True)
class Rule:
    """Selects the epoch of each run whose test metric is reported.

    Args:
        name (str): Name of the rule.
        description (str): One line, printed next to each number of this rule.
        mark (str): Printed after each number of this rule; empty if no test data are used for the
            selection.
        choose (callable): Returns the epoch and the value of each run.
    """

    name: str
    description: str
    mark: str
    choose: Callable[[Sequence[RunHistory]], list[tuple[int, float]]]

    @property
    def honest(self) -> bool:
        """Whether no test data are used for the selection."""
        return not self.mark

    @property
    def needs_validation(self) -> bool:
        """Whether epochs are selected on validation sets; if not, all of it can be trained on."""
        return self.honest

    @property
    def needs_test_curve(self) -> bool:
        """Whether the test metric is needed after each epoch."""
        return not self.honest

    def score(self, runs: Sequence[RunHistory]) -> Score:
        """Applies the rule to runs with different splits or seeds."""
        if not runs:
            raise ArgumentError(f"rule '{self.name}' needs at least one run (got none)")
        labels = [run.label for run in runs]
        for label in labels:
            if labels.count(label) > 1:
                raise ArgumentError(f"'runs' must not repeat a run (got {label} twice)")
        epochs, values = zip(*self.choose(runs), strict=True)
        return Score(
            rule=self.name,
            mark=self.mark,
            n=len(values),
            mean=statistics.fmean(values),
            std=statistics.stdev(values) if len(values) > 1 else None,
            values=values,
            epochs=epochs,
        )


class _NotRecorded(ArgumentError):
    """The runs do not hold what a rule needs."""


def _selected(runs: Sequence[RunHistory]) -> list[tuple[int, float]]:
    chosen = []
    for run in runs:
        if not run.validated:
            raise _NotRecorded(
                f"this rule needs an epoch selected on a validation set (got none in {run.label}); "
                "hold one out"
            )
        if run.test is None:
            raise _NotRecorded(
                f"this rule needs the test value at the selected epoch (got None in {run.label}); "
                "evaluate the selected model on the test set"
            )
        chosen.append((run.selected_epoch, run.test))
    return chosen


def _best_of_each(runs: Sequence[RunHistory]) -> list[tuple[int, float]]:
    return [(_first_best(curve) + 1, max(curve)) for curve in map(_curve, runs)]


def _best_in_common(runs: Sequence[RunHistory]) -> list[tuple[int, float]]:
    curves = [_curve(run) for run in runs]
    lengths = sorted({len(curve) for curve in curves})
    if len(lengths) > 1:
        raise _NotRecorded(
            f"a common epoch needs test curves of one length (got from {lengths[0]} to "
            f"{lengths[-1]} epochs); train all runs for the same number of epochs"
        )
    # Rounded, so that means which differ by rounding errors only are ties, in any order of runs.
    mean = [round(math.fsum(values) / len(curves), 12) for values in zip(*curves, strict=True)]
    epoch = _first_best(mean)
    return [(epoch + 1, curve[epoch]) for curve in curves]


def _curve(run: RunHistory) -> tuple[float, ...]:
    if not run.test_curve:
        raise _NotRecorded(
            f"this rule needs the test metric after every epoch (got none in {run.label}); record "
            "the test curve, or use the rule 'validation'"
        )
    return run.test_curve


def _first_best(values: Sequence[float]) -> int:
    return values.index(max(values))


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("validation", "test metric at the epoch chosen on validation data", "", _selected),
        Rule(
            "gin",
            "one epoch for all folds, the best of their mean TEST metric: optimistic",
            "‡",
            _best_in_common,
        ),
        Rule(
            "fold-max",
            "each fold at its own best TEST epoch, then the mean: very optimistic",
            "†",
            _best_of_each,
        ),
        Rule(
            "test-max",
            "each run at its own best TEST epoch: very optimistic",
            "†",
            _best_of_each,
        ),
    )
}


def get_rule(name: str) -> Rule:
    """Returns the rule with exactly this name; rules that use test data have no other access."""
    return RULES[check_choice("rule", name, RULES)]


def scores_of(runs: Sequence[RunHistory]) -> dict[str, Score]:
    """Applies every rule to the same runs, and leaves out those that need what was not recorded.

    Args:
        runs (Sequence[RunHistory]): Runs with different splits or seeds.
    """
    found = {}
    for rule in RULES.values():
        with suppress(_NotRecorded):
            found[rule.name] = rule.score(runs)
    return found
