"""Trainings compared on common splits, against scipy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mgnni.errors import ArgumentError, DataError
from mgnni.train.comparison import compare_runs


def report(values: dict[tuple[int, int], float], **changes: Any) -> dict[str, Any]:
    """A report with these test accuracies by split and seed; 60 training and 20 test rows."""
    return {
        "model": "gcn",
        "dataset": "mine",
        "metric": "accuracy",
        "protocol": {"rule": "validation"},
        "data": {
            "level": "node",
            "nodes": 100,
            "fingerprint": "f",
            "split_fingerprints": ["s0", "s1", "s2", "s3"],
        },
        "runs": [
            {
                "split": split,
                "seed": seed,
                "rows": {"train": 60, "val": 20, "test": 20},
                "val": {"accuracy": 0.5},
                "test": {"accuracy": value},
                "reported": {"epoch": 1, "accuracy": value},
            }
            for (split, seed), value in values.items()
        ],
        **changes,
    }


def grid(values: list[float], seeds: int = 1) -> dict[tuple[int, int], float]:
    return {(s, seed): v + 0.01 * seed for s, v in enumerate(values) for seed in range(seeds)}


A, B = [0.80, 0.70, 0.90, 0.75], [0.75, 0.71, 0.80, 0.70]


def test_the_interval_of_a_difference_has_the_variance_of_nadeau_and_bengio():
    found = compare_runs({"a": report(grid(A, seeds=2)), "b": report(grid(B))})
    (pair,) = found.pairs
    assert (pair.a, pair.b, pair.runs, pair.over) == ("a", "b", 4, "splits")
    gaps = 100 * (np.array(A) - np.array(B))
    error = gaps.std(ddof=1) * np.sqrt(1 / 4 + 20 / 60)
    low, high = stats.t.interval(0.95, df=3, loc=gaps.mean(), scale=error)
    assert pair.difference is not None
    assert (pair.difference.low, pair.difference.high) == pytest.approx((low, high))
    assert found.summaries["b"].mean == pytest.approx(74.0)
    assert found.summaries["b"].std == pytest.approx(100 * np.std(B, ddof=1))
    assert found.notes == (
        "means are over all runs of a training, differences over common runs only",
    )


def test_trainings_with_one_common_split_are_paired_by_seed():
    one = {(0, seed): value for seed, value in enumerate(A)}
    other = {(0, seed): value for seed, value in enumerate(B)}
    found = compare_runs({"a": report(one), "b": report(other)})
    difference = found.pairs[0].difference
    assert found.pairs[0].over == "seeds"
    assert difference is not None
    assert difference.p_value == pytest.approx(stats.ttest_rel(A, B).pvalue)
    assert "only one split in common" in found.notes[0]
    single = compare_runs({"a": report({(0, 0): 0.5}), "b": report({(0, 0): 0.6})})
    assert single.pairs[0].difference is None


def test_every_pair_is_compared_and_the_number_of_differences_is_mentioned():
    found = compare_runs({name: report(grid(A)) for name in "abc"})
    assert [(pair.a, pair.b) for pair in found.pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert "3 differences" in found.notes[0]
    assert "0.017" in found.notes[0]


def changed(path: str, value: Any) -> dict[str, Any]:
    """A report that differs in one entry, and in the fingerprint of its data."""
    made = copy.deepcopy(report(grid(B)))
    made["data"]["fingerprint"] = "other"
    *parts, last = path.split(".")
    place: Any = made
    for part in parts:
        place = place[part]
    place[last] = value
    return made


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (changed("dataset", "yours"), "must be on the same data .got mine in a and yours in b"),
        (changed("data.nodes", 99), "must be on the same data .*nodes 100 and 99"),
        (changed("data.split_fingerprints", ["s0", "t1", "s2", "s3"]), "the same splits .*split 1"),
        (changed("data.split_fingerprints", []), "same data and splits .*fingerprints f in a and"),
        (changed("metric", "macro_f1"), "must have the same metric .got accuracy in a and macro"),
        (report({(9, 0): 0.5}), "must have a split and seed in common .*splits .9., seeds .0."),
    ],
)
def test_trainings_that_cannot_be_compared_are_refused(other: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        compare_runs({"a": report(grid(A)), "b": other})


def test_other_features_on_the_same_splits_are_compared_with_a_note():
    found = compare_runs({"a": report(grid(A)), "b": changed("data.edges", 7)})
    assert found.notes == ("features or edges of a and b were read with different options",)


def test_a_win_is_a_better_score_also_if_lower_is_better():
    found = []
    for metric in ("r2", "mae"):
        reports = {"a": report(grid(A), metric=metric), "b": report(grid(B), metric=metric)}
        for run in (run for one in reports.values() for run in one["runs"]):
            run["reported"][metric] = run["test"][metric] = run["test"]["accuracy"]
        (pair,) = compare_runs(reports).pairs
        assert pair.difference is not None
        found.append((pair.difference.wins, pair.difference.losses))
    assert found == [(3, 1), (1, 3)]


def test_rules_that_differ_are_mentioned_and_a_rule_that_was_not_used_is_refused():
    marked = report(grid(B), protocol={"rule": "fold-max"})
    found = compare_runs({"a": report(grid(A)), "b": marked})
    assert found.notes[0].startswith("warning: trained for different rules (validation: a; fold")
    with pytest.raises(DataError, match=r"a: must have scores by rule fold-max .*rule validation"):
        compare_runs({"a": report(grid(A)), "b": marked}, "fold-max")
    with pytest.raises(ArgumentError, match="'rule' must be one of"):
        compare_runs({"a": marked, "b": marked}, "best")
    with pytest.raises(ArgumentError, match=r"at least two trainings are needed .got 1"):
        compare_runs({"a": marked})


def test_rows_are_those_of_the_training_that_has_them():
    """Early versions stored no numbers of rows."""
    values = {(split, 0): 0.5 + 0.1 * split for split in range(4)}
    old, new = report(values), report({key: 1.02 * value for key, value in values.items()})
    expected = compare_runs({"old": copy.deepcopy(old), "new": new}).pairs[0]
    for run in old["runs"]:
        del run["rows"]
    assert compare_runs({"old": old, "new": new}).pairs[0] == expected
    with pytest.raises(DataError, match="how many rows"):
        compare_runs({"a": old, "b": copy.deepcopy(old)})


def test_splits_are_compared_for_every_pair():
    short = report({(0, 0): 0.5})
    full, other = report(grid(A)), report(grid(B))
    full["data"]["fingerprint"], other["data"]["fingerprint"] = "g", "h"
    other["data"]["split_fingerprints"] = ["s0", "s1", "x2", "s3"]  # not a split of the first
    with pytest.raises(DataError, match="split 2 in full and other"):
        compare_runs({"short": short, "full": full, "other": other})
