from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mgnni.data.compare import compare
from mgnni.errors import ArgumentError


@pytest.mark.parametrize("n", [2, 3, 10, 40])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_plain_test_is_the_paired_t_test(n, confidence):
    random = np.random.default_rng(n)
    for shift in (0.0, 0.02, -0.3):
        a, b = random.normal(0.7 + shift, 0.05, n), random.normal(0.7, 0.1, n)
        found = compare(a.tolist(), b.tolist(), confidence=confidence)
        expected = stats.ttest_rel(a, b)
        interval = expected.confidence_interval(confidence)
        assert found.p_value == pytest.approx(expected.pvalue, rel=1e-8)
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-8)
        assert found.difference == pytest.approx(float(np.mean(a - b)), abs=1e-12)
        assert (found.n, found.confidence, found.test_train_ratio) == (n, confidence, None)


def test_the_corrected_test_by_hand():
    # Differences 1, 2, 3, 6: mean 3, s² = (4 + 1 + 0 + 9) / 3 = 14/3; error² = (1/4 + 1/2) s² = 3.5
    found = compare([2, 4, 6, 10], [1, 2, 3, 4], test_train_ratio=0.5)
    t = 3 / math.sqrt(3.5)
    # Student's t with three degrees of freedom has a distribution function in closed form.
    x = t / math.sqrt(3)
    cdf = 0.5 + (x / (1 + x**2) + math.atan(x)) / math.pi
    assert found.p_value == pytest.approx(2 * (1 - cdf))
    assert found.high - found.low == pytest.approx(2 * 3.182446305284263 * math.sqrt(3.5))
    assert found.low + found.high == pytest.approx(2 * 3)
    assert found.test_train_ratio == 0.5


def test_wins_ties_and_losses():
    found = compare([0.5, 0.1 + 0.2, 0.4, 0.2], [0.4, 0.3, 0.5, 0.1])
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)  # rounding is no win
    turned = compare([0.4, 0.3, 0.5, 0.1], [0.5, 0.1 + 0.2, 0.4, 0.2])
    assert (turned.wins, turned.ties, turned.losses) == (1, 1, 2)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))
    assert turned.p_value == pytest.approx(found.p_value)


@pytest.mark.parametrize("ratio", [None, 0.25])
def test_equal_models_and_equal_differences(ratio):
    values = [0.7, 0.8, 0.65]
    same = compare(values, values, test_train_ratio=ratio)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    assert (same.wins, same.ties, same.losses) == (0, 3, 0)
    # 0.1 more everywhere, which floats do not quite say.
    above = compare([value + 0.1 for value in values], values, test_train_ratio=ratio)
    assert above.low == above.high == above.difference == pytest.approx(0.1)
    assert above.p_value == 0
    for found in (same, above):
        assert "a test is not possible" in found.describe()


def coverage(differences: np.ndarray, truth: float, ratio: float | None) -> float:
    """Part of the rows whose interval holds the truth."""
    zero = [0.0] * differences.shape[1]
    found = [compare(row, zero, test_train_ratio=ratio) for row in differences.tolist()]
    return sum(one.low <= truth <= one.high for one in found) / len(found)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    differences = random.normal(0.03, 0.1, (2000, 10))
    # Binomial deviation 0.005.
    assert coverage(differences, 0.03, None) == pytest.approx(0.95, abs=0.015)


def test_overlapping_splits_need_the_correction():
    # Nadeau and Bengio take the values of two splits to correlate by n_test / (n_test + n_train).
    # Under that model the corrected statistic has Student's distribution exactly.
    ratio = 0.2 / 0.6
    shared = ratio / (1 + ratio)
    random = np.random.default_rng(1)
    common, own = random.normal(size=(2000, 1)), random.normal(size=(2000, 10))
    differences = 0.03 + 0.1 * (math.sqrt(shared) * common + math.sqrt(1 - shared) * own)
    assert coverage(differences, 0.03, ratio) == pytest.approx(0.95, abs=0.015)
    # Without it: the true error of the mean is √(1 + n · ratio) times the one taken, here 2.08.
    expected = 1 - 2 * stats.t.sf(stats.t.ppf(0.975, 9) / math.sqrt(1 + 10 * ratio), 9)
    assert expected < 0.75
    assert coverage(differences, 0.03, None) == pytest.approx(expected, abs=0.03)


def test_it_says_what_it_found():
    clear = compare([0.9, 0.92, 0.94, 0.9], [0.5, 0.55, 0.6, 0.45])
    assert clear.describe("MGNNI", "GCN").startswith(
        "MGNNI - GCN = +0.39 over 4 splits, 95 % interval"
    )
    assert clear.describe().endswith(
        "(paired t; 4 wins, 0 ties, 0 losses): significant at this level"
    )
    unclear = compare([0.5, 0.6], [0.6, 0.4], confidence=0.9, test_train_ratio=0.5)
    assert "90 % interval" in unclear.describe()
    assert "corrected resampled t; 1 wins" in unclear.describe()
    assert unclear.describe().endswith("not significant at this level")


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        ([1, 2], [1, 2, 3], {}, "the same length .got 2 and 3 values"),
        ([], [], {}, "at least two values .got 0"),
        ([1], [2], {}, "at least two values .got 1"),
        ([1, math.nan], [1, 2], {}, "must be finite"),
        ([1, 2], [1, math.inf], {}, "must be finite"),
        ([1, 2], [2, 2], {"confidence": 1.0}, "'confidence' must lie in \\(0, 1\\)"),
        ([1, 2], [2, 2], {"confidence": 95}, "'confidence' must lie in \\(0, 1\\)"),
        ([1, 2], [2, 2], {"test_train_ratio": 0.0}, "'test_train_ratio' must lie in"),
        ([1, 2], [2, 2], {"test_train_ratio": -0.2}, "'test_train_ratio' must lie in"),
    ],
)
def test_refusals(a, b, options, message):
    with pytest.raises(ArgumentError, match=message):
        compare(a, b, **options)
