"""Bootstrap of a test score over test rows, with the same draws for all runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from mgnni.errors import check_choice

RESAMPLES = 1000
FEWEST = 100
BLOCK = 10**6  # draws of test rows that are held at a time
DRAWS = 5 * 10**7  # of all resamples together, so that large data take about a second
FEWEST_ROWS = 10  # test rows that an interval needs
FEWEST_OF_CLASS = 5  # of each class, if the metric weights all classes equally
LEVEL = 0.95
SEED = 0

Floats = npt.NDArray[np.float64]
_CUMULATIVE = np.cumsum([math.exp(-1) / math.factorial(k) for k in range(12)])
_POISSON = np.searchsorted(_CUMULATIVE, (np.arange(2**16) + 0.5) / 2**16)


def bootstrap(
    scores: Tensor, labels: Tensor, rows: Tensor, num_rows: int, metric: str, multilabel: bool
) -> list[float]:
    """Returns the metric of a run on resampled test rows.

    Every row of the task is drawn a Poisson number of times with mean 1, independently, and with
    the same draws for every run, so runs that share test rows are resampled together. The seed is
    fixed, and all sums are of whole numbers, so results do not depend on the machine. A resample
    for which the metric is undefined gives nan.

    Args:
        scores (Tensor): Logits of the test rows.
        labels (Tensor): Their classes, or a 0/1 matrix if ``multilabel``.
        rows (Tensor): Their indices among all rows of the task.
        num_rows (int): Number of rows of the task.
        metric (str): Name of the metric, see :data:`mgnni.data.metrics.METRICS`.
        multilabel (bool): Whether a row may have several labels.

    Shapes:
        - **scores:** :math:`(N, C)` for :math:`N` rows and :math:`C` classes
        - **labels:** :math:`(N)`, or :math:`(N, C)` if ``multilabel``
        - **rows:** :math:`(N)`
    """
    check_choice("metric", metric, _ONE_LABEL)
    exact, truth = scores.detach().cpu().double().numpy(), labels.cpu().numpy()

    def resampled(weights: Any) -> Floats:
        if multilabel:
            return _several_labels(weights, exact > 0, truth > 0.5, metric)
        return _ONE_LABEL[metric](weights, exact, truth)

    return bootstrap_rows(rows, num_rows, resampled)


def bootstrap_rows(rows: Tensor, num_rows: int, resampled: Callable[[Any], Floats]) -> list[float]:
    """Returns a metric on resampled test rows; see :func:`bootstrap`.

    Args:
        rows (Tensor): Indices of the test rows among all rows of the task.
        num_rows (int): Number of rows of the task.
        resampled (Callable): Returns the metric of each resample, from how often each test row is
            drawn, of shape ``(resamples, test rows)``.

    Shapes:
        - **rows:** :math:`(N)`
    """
    resamples = max(FEWEST, min(RESAMPLES, DRAWS // num_rows))
    generator, chosen = np.random.default_rng(SEED), rows.numpy()
    values: list[float] = []
    block = max(BLOCK // len(chosen), 1)
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        weights = np.stack([draw(generator, num_rows)[chosen] for _ in range(size)])
        with np.errstate(invalid="ignore", divide="ignore"):
            values += resampled(weights).tolist()
    return values


def draw(generator: np.random.Generator, num_rows: int) -> npt.NDArray[np.int64]:
    """Returns how often each row is drawn: Poisson numbers with mean 1.

    They are looked up by 16 random bits each, twenty times faster than ``Generator.poisson``.

    Args:
        generator (numpy.random.Generator): Source of random numbers.
        num_rows (int): Number of rows.
    """
    return _POISSON[generator.integers(2**16, size=num_rows, dtype=np.uint16)]


def interval(
    replicates: Sequence[Sequence[float]], rows: int, smallest: int | None = None
) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the 95 % interval of the mean over runs, by percentiles, or why there is none.

    It covers the choice of test rows. It does not cover that of the training data, nor the seed.
    Resampling a few rows says little about other rows, and nothing if all of them are right, so
    there is no interval for fewer than 10 test rows, for fewer than 5 rows of a class if the metric
    weights all classes equally, and if its ends are equal.

    Args:
        replicates (Sequence[Sequence[float]]): Results of :func:`bootstrap`, one row per run.
        rows (int): Number of different test rows of all runs.
        smallest (int, optional): Number of test rows of the smallest class of any run, for a metric
            that weights all classes equally. (default: :obj:`None`)

    Returns:
        tuple: A dictionary with ``low``, ``high``, ``level`` and the number of ``resamples``, and
        ``None``; or ``None`` and the reason why there is no interval.
    """
    if rows < FEWEST_ROWS:
        return None, f"{rows} test row{'s' * (rows != 1)}, fewer than {FEWEST_ROWS}"
    if smallest is not None and smallest < FEWEST_OF_CLASS:
        of = f"{smallest} test row{'s' * (smallest != 1)}"
        return None, f"the smallest class has {of}, fewer than {FEWEST_OF_CLASS}"
    mean = np.mean(np.array(replicates, dtype=float), axis=0)
    mean = mean[~np.isnan(mean)]
    if len(mean) < FEWEST:
        return None, f"the metric is defined for {len(mean)} resamples, fewer than {FEWEST}"
    low, high = np.quantile(mean, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    if low == high:
        return None, "resamples of the test rows all have the same score"
    return {"low": low, "high": high, "level": LEVEL, "resamples": len(mean)}, None


def _accuracy(weights: Any, scores: Any, labels: Any) -> Floats:
    right: Any = scores.argmax(1) == labels
    return np.asarray(weights[:, right].sum(1) / weights.sum(1))


def _counts(weights: Any, scores: Any, labels: Any) -> tuple[Floats, Floats, Floats]:
    """Returns right predictions, predictions and rows of each class, per resample."""
    predicted = scores.argmax(1)
    right = predicted == labels

    def by_class(rows: Any) -> Floats:
        return np.stack([weights[:, rows == one].sum(1) for one in range(scores.shape[1])], 1)

    return by_class(np.where(right, labels, -1)), by_class(predicted), by_class(labels)


def _macro_f1(weights: Any, scores: Any, labels: Any) -> Floats:
    return _mean_f1(*_counts(weights, scores, labels))


def _mean_f1(correct: Floats, claimed: Floats, present: Floats) -> Floats:
    """Returns the mean F1 over the classes that occur in a resample; nan if none does."""
    both = claimed + present
    f1 = np.where(both > 0, 2 * correct / np.maximum(both, 1), 0.0)
    return np.asarray(f1.sum(1) / (both > 0).sum(1))


def _balanced_accuracy(weights: Any, scores: Any, labels: Any) -> Floats:
    correct, _, present = _counts(weights, scores, labels)
    recall = np.where(present > 0, correct / np.maximum(present, 1), 0.0)
    return np.asarray(recall.sum(1) / (present > 0).sum(1))


def _roc_auc(weights: Any, scores: Any, labels: Any) -> Floats:
    """Returns the weighted fraction of pairs in order; ties count half."""
    margin = scores[:, 1] - scores[:, 0]
    order = np.argsort(margin, kind="stable")
    first = np.flatnonzero(np.diff(margin[order], prepend=-np.inf))  # of equal margins
    ordered, positive = weights[:, order], labels[order] == 1
    high = np.add.reduceat(ordered * positive, first, axis=1)
    low = np.add.reduceat(ordered * ~positive, first, axis=1)
    below = 2 * np.cumsum(low, axis=1) - low
    return np.asarray((high * below).sum(1) / (2 * high.sum(1) * low.sum(1)))


def _several_labels(weights: Any, predicted: Any, true: Any, metric: str) -> Floats:
    if metric == "accuracy":
        right = (predicted == true).sum(1)
        return np.asarray(weights @ right / (weights.sum(1) * true.shape[1]))
    cells = (predicted & true, predicted, true)
    if metric == "micro_f1":
        return _mean_f1(*((weights @ one.sum(1))[:, None] for one in cells))
    return _mean_f1(*(weights @ one.astype(np.int64) for one in cells))


_ONE_LABEL: dict[str, Callable[[Any, Any, Any], Floats]] = {
    "accuracy": _accuracy,
    "micro_f1": _accuracy,
    "macro_f1": _macro_f1,
    "balanced_accuracy": _balanced_accuracy,
    "roc_auc": _roc_auc,
}
