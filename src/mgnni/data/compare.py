"""Paired comparison of two models on the same splits."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from mgnni.errors import ArgumentError, check_number


@dataclass(frozen=True)
class Comparison:
    """The result of a paired t-test of two models ``a`` and ``b``.

    Attributes:
        difference: Mean of a - b.
        low: Lower end of the confidence interval of the difference.
        high: Upper end of the confidence interval.
        confidence: Confidence level of the interval.
        p_value: Two-sided p-value.
        n: Number of pairs.
        wins: Number of pairs with a above b.
        ties: Number of pairs with equal values.
        losses: Number of pairs with a below b.
        test_train_ratio: Ratio of the variance correction, None for the plain paired t-test.
    """

    difference: float
    low: float
    high: float
    confidence: float
    p_value: float
    n: int
    wins: int
    ties: int
    losses: int
    test_train_ratio: float | None

    def describe(self, a: str = "A", b: str = "B") -> str:
        """Returns the result in one sentence, with the names of the two models."""
        test = "paired t" if self.test_train_ratio is None else "corrected resampled t"
        if self.low == self.high:
            verdict = "the same on every split, so a test is not possible"
        elif self.low <= 0 <= self.high:
            verdict = "not significant at this level"
        else:
            verdict = "significant at this level"
        return (
            f"{a} - {b} = {self.difference:+.4g} over {self.n} splits, "
            f"{100 * self.confidence:g} % interval {self.low:+.4g} to {self.high:+.4g}, "
            f"p = {self.p_value:.2g} ({test}; {self.wins} wins, {self.ties} ties, "
            f"{self.losses} losses): {verdict}"
        )


def compare(
    a: Sequence[float],
    b: Sequence[float],
    *,
    confidence: float = 0.95,
    test_train_ratio: float | None = None,
) -> Comparison:
    r"""Compares two models by a paired t-test of their values on the same splits.

    Random splits and folds share training data, so their values are not independent and the plain
    paired t-test reports too many differences. Given the ratio
    :math:`\rho = n_\text{test} / n_\text{train}`, the variance of the mean of :math:`n`
    differences is estimated by :math:`(1/n + \rho)\,s^2` instead of :math:`s^2/n` (Nadeau and
    Bengio, Inference for the Generalization Error, Machine Learning, 2003), in both cases with
    :math:`n - 1` degrees of freedom.

    If all differences are equal, the interval has width 0, and p is 0, or 1 if they are 0.
    Differences are rounded to 12 decimals.

    Args:
        a (list of float): Values of the first model, one per split.
        b (list of float): Values of the second model, in the same order.
        confidence (float, optional): Confidence level of the interval. (default: :obj:`0.95`)
        test_train_ratio (float, optional): Test units divided by training units of a split, such
            as 0.2 / 0.6, or 1 / 9 for ten folds. :obj:`None` is for independent values.
            (default: :obj:`None`)
    """
    if len(a) != len(b):
        raise ArgumentError(
            f"'a' and 'b' must have the same length (got {len(a)} and {len(b)} values); pass the "
            "values of both models on the same splits"
        )
    n = len(a)
    if n < 2:
        raise ArgumentError(f"'a' and 'b' must have at least two values (got {n}); run more splits")
    if not all(math.isfinite(value) for value in (*a, *b)):
        raise ArgumentError("'a' and 'b' must be finite (got nan or inf); leave out failed runs")
    check_number("confidence", confidence, "(0, 1)", "0.95 is usual")
    if test_train_ratio is not None:
        hint = "divide the number of test units by the number of training units"
        check_number("test_train_ratio", test_train_ratio, "(0, inf)", hint)
    differences = [round(x - y, 12) for x, y in zip(a, b, strict=True)]
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) * math.sqrt(1 / n + (test_train_ratio or 0.0))
    if error > 0:
        p_value = 2 * float(stdtr(n - 1, -abs(mean) / error))
    else:
        p_value = float(mean == 0)
    reach = float(stdtrit(n - 1, (1 + confidence) / 2)) * error
    return Comparison(
        difference=mean,
        low=mean - reach,
        high=mean + reach,
        confidence=confidence,
        p_value=p_value,
        n=n,
        wins=sum(value > 0 for value in differences),
        ties=sum(value == 0 for value in differences),
        losses=sum(value < 0 for value in differences),
        test_train_ratio=test_train_ratio,
    )
