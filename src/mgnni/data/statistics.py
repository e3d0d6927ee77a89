"""Means and intervals over splits and seeds, and how published numbers compare with them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from mgnni.data.compare import Comparison, compare
from mgnni.data.metric_names import OF_NUMBERS
from mgnni.data.rules import DEFAULT_RULE

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    r"""Scores of all runs of a cell, in percent.

    Splits are the units of the interval: the scores of one split with several seeds are averaged
    first. With :math:`n` splits, mean :math:`m` and standard deviation :math:`s` of these averages,
    the interval is :math:`m \pm t_{n-1} s / \sqrt{n}`.

    Attributes:
        mean: Mean over all runs; splits have the same number of seeds.
        std: Standard deviation over all runs, as papers report it; None for one run.
        low: Lower end of the 95 % interval of the mean over splits; None for one split.
        high: Upper end of the interval.
        splits: Number of splits.
        seeds: Mean over splits, by seed.
        values: Mean over seeds, by split.
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    splits: int
    seeds: dict[int, float]
    values: dict[int, float]

    def place(self, published: float) -> str:
        """Return where a published number lies: ``inside``, ``above`` or ``below`` the interval.

        Args:
            published (float): The number, in percent.

        Returns:
            str: Empty if there is no interval.
        """
        if self.low is None or self.high is None:
            return ""
        return "below" if published < self.low else "above" if published > self.high else "inside"


def scores(report: Mapping[str, Any], rule: str) -> dict[tuple[int, int], float] | None:
    """Return the score of each run, in percent, by split and seed; None if the rule was not used.

    Metrics of numbers are not percentages and keep their own units.

    Args:
        report (Mapping[str, Any]): A report. It has the scores of its own rule, and those of
            ``validation`` if there was a validation set.
        rule (str): Name of the rule.
    """
    metric, runs = report["metric"], report["runs"]
    scale = 1 if metric in OF_NUMBERS else 100
    if rule == report["protocol"]["rule"]:
        return {(run["split"], run["seed"]): scale * run["reported"][metric] for run in runs}
    if rule == DEFAULT_RULE and all(run["val"] for run in runs):
        return {(run["split"], run["seed"]): scale * run["test"][metric] for run in runs}
    return None


def summarize(found: Mapping[tuple[int, int], float]) -> Summary:
    """Summarise the scores of runs.

    Args:
        found (Mapping): Score of each run, by split and seed.
    """
    values, seeds = (
        by_split(found),
        _means({(seed, split): v for (split, seed), v in found.items()}),
    )
    mean, n = statistics.fmean(found.values()), len(values)
    reach = None
    if n > 1:
        error = statistics.stdev(values.values()) / math.sqrt(n)
        reach = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * error
    return Summary(
        mean=mean,
        std=statistics.stdev(found.values()) if len(found) > 1 else None,
        low=None if reach is None else mean - reach,
        high=None if reach is None else mean + reach,
        splits=n,
        seeds=seeds,
        values=values,
    )


def by_split(found: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Return the mean over seeds of each split.

    Args:
        found (Mapping): Score of each run, by split and seed.
    """
    return _means(found)


def ratio_of_rows(
    reports: Sequence[Mapping[str, Any]], common: Collection[tuple[int, int]]
) -> float | None:
    """Return the size of the test set over that of the training set, as a mean over runs.

    Args:
        reports (Sequence[Mapping[str, Any]]): Reports of trainings on the same splits. The first
            one with numbers of rows counts; reports of early versions do not have them.
        common (Collection[tuple[int, int]]): Splits and seeds of the runs.

    Returns:
        The ratio; None if no report has numbers of rows.
    """
    for report in reports:
        runs = (run for run in report["runs"] if (run["split"], run["seed"]) in common)
        rows = [run["rows"] for run in runs if "rows" in run]
        if rows:
            return statistics.fmean(one["test"] / one["train"] for one in rows)
    return None


def difference(
    ours: Mapping[tuple[int, int], float],
    other: Mapping[tuple[int, int], float],
    test_train_ratio: float | None = None,
) -> Comparison | None:
    """Compare two models on the splits that both have, averaged over seeds.

    Args:
        ours (Mapping): Score of each run of the first model, by split and seed.
        other (Mapping): The same for the second model.
        test_train_ratio (float, optional): See :func:`mgnni.compare`. (default: :obj:`None`)

    Returns:
        The paired comparison; None if there are fewer than two common splits.
    """
    a, b = by_split(ours), by_split(other)
    common = sorted(a.keys() & b.keys())
    if len(common) < 2:
        return None
    pairs: Sequence[Sequence[float]] = [[one[split] for split in common] for one in (a, b)]
    return compare(*pairs, test_train_ratio=test_train_ratio, confidence=CONFIDENCE)


def _means(found: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """Return the mean by the first of two keys."""
    groups: dict[int, list[float]] = {}
    for (key, _), value in sorted(found.items()):
        groups.setdefault(key, []).append(value)
    return {key: statistics.fmean(values) for key, values in groups.items()}
