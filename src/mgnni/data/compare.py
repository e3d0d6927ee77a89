"""Two models on the same splits: is the difference more than chance?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtr, stdtrit

from mgnni.errors import ArgumentError


@dataclass(frozen=True)
class Comparison:
    """What paired values of two models, ``a`` and ``b``, say about their difference.

    Attributes:
        difference: mean of a - b.
        low: lower end of the interval for the expected difference.
        high: upper end of it.
        confidence: of the interval.
        p_value: chance of a difference as large in size if there were none; two-sided.
        n: number of pairs.
        wins: pairs in which a is above b.
        ties: pairs in which both are equal.
        losses: pairs in which a is below b.
        test_train_ratio: what the variance was corrected with, or None for the plain paired t.
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
        """Say it in one sentence, with the names of the two models."""
        test = "paired t" if self.test_train_ratio is None else "corrected resampled t"
        if self.low == self.high:
            verdict = "the same on every split, so there is no spread to judge it by"
        elif self.low <= 0 <= self.high:
            verdict = "chance may explain it"
        else:
            verdict = "more than chance explains"
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
    r"""Compare two models by their values on the same splits, in the same order.

    Random splits and folds share training data, so that their values are not independent and the
    plain paired t-test finds differences that are not there. Given the ratio of sizes
    :math:`\rho = n_\text{test} / n_\text{train}`, the variance of the mean of :math:`n`
    differences is taken to be :math:`(1/n + \rho)\,s^2` instead of :math:`s^2/n` (Nadeau and
    Bengio, 2003); either way with :math:`n - 1` degrees of freedom.

    If all differences are equal, the interval has no width, and p is 0, or 1 if they are 0.
    Differences below 1e-12 are rounding, not differences.

    Args:
        a: values of the one model, one a split.
        b: values of the other.
        confidence: of the interval, between 0 and 1.
        test_train_ratio: test units divided by training units of a split, such as 0.2 / 0.6; 1 / 9
            for ten folds. None: the values are independent, as with new data for each.
    """
    if len(a) != len(b):
        raise ArgumentError(
            f"'a' and 'b' must be as long (got {len(a)} and {len(b)} values); give both models' "
            "values on the same splits, in the same order"
        )
    n = len(a)
    if n < 2:
        raise ArgumentError(f"'a' and 'b' must have at least two values (got {n}); run more splits")
    if not all(math.isfinite(value) for value in (*a, *b)):
        raise ArgumentError("'a' and 'b' must be finite (got nan or inf); leave failed runs out")
    if not 0 < confidence < 1:
        raise ArgumentError(
            f"'confidence' must be between 0 and 1 (got {confidence}); 0.95 is usual"
        )
    if test_train_ratio is not None and not 0 < test_train_ratio < math.inf:
        raise ArgumentError(
            f"'test_train_ratio' must be above 0 (got {test_train_ratio}); divide the number of "
            "test units by that of training units"
        )
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
