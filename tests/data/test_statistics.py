"""Intervals and differences, against scipy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from mgnni.data.statistics import difference, scores, summarize

RUNS = {
    (split, seed): 80.0 + 3 * split * (-1) ** split + seed for split in range(5) for seed in (0, 4)
}
REPORT = {
    "metric": "accuracy",
    "protocol": {"rule": "fold-max"},
    "runs": [
        {
            "split": split,
            "seed": 0,
            "val": {"accuracy": 0.9},
            "test": {"accuracy": 0.5 + split / 10},
            "reported": {"epoch": 3, "accuracy": 0.75},
        }
        for split in (0, 1)
    ],
}


def test_the_interval_is_that_of_scipy_over_splits():
    found = summarize(RUNS)
    table = np.array([[RUNS[split, seed] for seed in (0, 4)] for split in range(5)])
    means = table.mean(axis=1)
    low, high = stats.t.interval(0.95, df=4, loc=means.mean(), scale=stats.sem(means))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.mean == pytest.approx(table.mean())
    assert found.std == pytest.approx(table.std(ddof=1))
    assert found.seeds == pytest.approx({0: table[:, 0].mean(), 4: table[:, 1].mean()})
    assert found.values == pytest.approx(dict(enumerate(means)))
    assert [found.place(x) for x in (low - 0.1, found.mean, high + 0.1)] == [
        "below",
        "inside",
        "above",
    ]


def test_one_split_has_no_interval():
    found = summarize({(0, 0): 70.0, (0, 1): 72.0})
    assert (found.low, found.high, found.splits) == (None, None, 1)
    assert [found.place(x) for x in (69.0, 71.0, 73.0)] == ["", "", ""]
    assert summarize({(0, 0): 70.0}).std is None


def test_differences_are_paired_over_common_splits():
    other = {(split, 7): value for (split, seed), value in RUNS.items() if seed == 0}
    other[0, 7] -= 5
    found = difference(RUNS, {**other, (9, 7): 1.0})
    a = np.array([81.0 + 1 + 3 * s * (-1) ** s for s in range(5)])
    b = np.array([other[s, 7] for s in range(5)])
    test = stats.ttest_rel(a, b)
    assert found.p_value == pytest.approx(test.pvalue)
    interval = test.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert difference(RUNS, {(0, 0): 1.0}) is None


def test_a_report_has_the_scores_of_its_rule_and_of_validation():
    assert scores(REPORT, "fold-max") == {(0, 0): 75.0, (1, 0): 75.0}
    assert scores(REPORT, "validation") == {(0, 0): 50.0, (1, 0): 60.0}
    assert scores(REPORT, "gin") is None
    runs = [{**run, "val": {}} for run in REPORT["runs"]]
    assert scores({**REPORT, "runs": runs}, "validation") is None
