"""Evaluation rules: which epoch of a run is reported, and who chose it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mgnni.errors import ArgumentError, check_choice

DEFAULT_RULE = "validation"


@dataclass(frozen=True)
class RunHistory:
    """One training, on one split with one seed, as far as a rule needs to know it.

    Args:
        split: number of the split or fold.
        seed: of the training.
        selected_epoch: the epoch chosen without a look at test data; the first is 1.
        test: the metric on the test part at that epoch, if it was measured.
        test_curve: the metric on the test part after each epoch, if it was measured.
    """

    split: int
    seed: int
    selected_epoch: int
    test: float | None = None
    test_curve: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.selected_epoch < 1:
            raise ArgumentError(
                f"'selected_epoch' must be at least 1, the first epoch (got {self.selected_epoch})"
            )
        values = (*(() if self.test is None else (self.test,)), *(self.test_curve or ()))
        if not all(math.isfinite(value) for value in values):
            raise ArgumentError(
                f"'test' and 'test_curve' must be finite (got nan or inf in {self.label}); give "
                "None for what was not measured"
            )

    @property
    def label(self) -> str:
        """How messages call this run."""
        return f"the run on split {self.split} with seed {self.seed}"


@dataclass(frozen=True)
class Score:
    """What a rule makes of some runs.

    Attributes:
        rule: name of the rule.
        mark: to print behind the mean; empty if no test data took part in a choice.
        n: number of runs.
        mean: of the values.
        std: their sample standard deviation (divisor n - 1), or None for a single run.
        values: the test metric of each run, in the order of the runs.
        epochs: the epoch each value is from.
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
    """How the number to report is chosen from the epochs of every run.

    Attributes:
        name: what to ask for.
        description: one line, to print beside every number made by this rule.
        mark: to print behind every such number; empty if the rule is honest.
        honest: whether test data took no part in the choice of the epoch.
        needs_test_curve: whether the test part must be measured after every epoch.
        choose: gives the epoch and the value of each run; called by :meth:`score`.
    """

    name: str
    description: str
    mark: str
    honest: bool
    needs_test_curve: bool
    choose: Callable[[Sequence[RunHistory]], list[tuple[int, float]]]

    def score(self, runs: Sequence[RunHistory]) -> Score:
        """Apply the rule to runs, each of another split or seed."""
        if not runs:
            raise ArgumentError(f"rule '{self.name}' needs at least one run (got none)")
        seen: set[tuple[int, int]] = set()
        for run in runs:
            if (run.split, run.seed) in seen:
                raise ArgumentError(f"'runs' must not repeat a run (got {run.label} twice)")
            seen.add((run.split, run.seed))
        chosen = self.choose(runs)
        values = tuple(value for _, value in chosen)
        return Score(
            rule=self.name,
            mark=self.mark,
            n=len(values),
            mean=statistics.fmean(values),
            std=statistics.stdev(values) if len(values) > 1 else None,
            values=values,
            epochs=tuple(epoch for epoch, _ in chosen),
        )


def _selected(runs: Sequence[RunHistory]) -> list[tuple[int, float]]:
    chosen = []
    for run in runs:
        if run.test is None:
            raise ArgumentError(
                f"this rule needs the test value at the selected epoch (got None in {run.label}); "
                "evaluate the selected model on the test part"
            )
        chosen.append((run.selected_epoch, run.test))
    return chosen


def _best_of_each(runs: Sequence[RunHistory]) -> list[tuple[int, float]]:
    return [(_first_best(curve) + 1, max(curve)) for curve in map(_curve, runs)]


def _best_in_common(runs: Sequence[RunHistory]) -> list[tuple[int, float]]:
    curves = [_curve(run) for run in runs]
    lengths = sorted({len(curve) for curve in curves})
    if len(lengths) > 1:
        raise ArgumentError(
            f"a common epoch needs test curves of one length (got from {lengths[0]} to "
            f"{lengths[-1]} epochs); train every run for as many epochs, without early stopping"
        )
    # Rounded, so that runs in another order, or equal counts of other folds, tie as they should.
    mean = [round(math.fsum(values) / len(curves), 12) for values in zip(*curves, strict=True)]
    epoch = _first_best(mean)
    return [(epoch + 1, curve[epoch]) for curve in curves]


def _curve(run: RunHistory) -> tuple[float, ...]:
    if not run.test_curve:
        raise ArgumentError(
            f"this rule needs the test metric after every epoch (got none in {run.label}); record "
            "the test curve, or use the rule 'validation'"
        )
    return run.test_curve


def _first_best(values: Sequence[float]) -> int:
    return values.index(max(values))


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            name="validation",
            description="test metric at the epoch chosen on validation data",
            mark="",
            honest=True,
            needs_test_curve=False,
            choose=_selected,
        ),
        Rule(
            name="gin",
            description="one epoch for all folds, the best of their mean TEST metric: optimistic",
            mark="‡",
            honest=False,
            needs_test_curve=True,
            choose=_best_in_common,
        ),
        Rule(
            name="fold-max",
            description="each fold at its own best TEST epoch, then the mean: very optimistic",
            mark="†",
            honest=False,
            needs_test_curve=True,
            choose=_best_of_each,
        ),
        Rule(
            name="test-max",
            description="each run at its own best TEST epoch: very optimistic",
            mark="†",
            honest=False,
            needs_test_curve=True,
            choose=_best_of_each,
        ),
    )
}


def get_rule(name: str) -> Rule:
    """Return the rule of exactly this name: nothing else leads to one that looks at test data."""
    return RULES[check_choice("rule", name, RULES)]
