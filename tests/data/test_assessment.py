"""What a classification is worth, against scikit-learn, closed forms and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn import metrics as sklearn_metrics
from torch_geometric.data import Data

from mgnni.data.assessment.assess import assess, constant_scores
from mgnni.data.assessment.bootstrap import SEED, bootstrap, draw, interval
from mgnni.data.assessment.calibration import calibration, reliability_sums
from mgnni.data.assessment.curves import POINTS, binary_curves
from mgnni.data.assessment.summary import class_table, summarize
from mgnni.data.assessment.threshold import best_threshold, positive_probability
from mgnni.data.metric_names import OF_CLASSES
from mgnni.data.metrics import confusion_counts
from mgnni.data.split import fold_splits
from mgnni.data.task import Task


def scored(rows: int, classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that know something about the labels, rounded so that some are equal."""
    g = torch.Generator().manual_seed(seed)
    labels = (torch.rand(rows, generator=g) ** 2 * classes).long()
    scores = torch.randn(rows, classes, generator=g) + torch.eye(classes)[labels]
    return (4 * scores).round() / 4, labels


def test_precision_recall_f1_and_support_are_those_of_scikit_learn():
    counts, expected_scores, expected_labels = [], [], []
    for seed in range(2):  # two runs, whose rows are pooled
        scores, labels = scored(80, 4, seed)
        matrix = confusion_counts(scores, labels)
        counts.append([one.tolist() for one in (matrix.diag(), matrix.sum(0), matrix.sum(1))])
        expected_scores += scores.argmax(1).tolist()
        expected_labels += labels.tolist()
    found = class_table("abcd", counts)
    wanted = sklearn_metrics.precision_recall_fscore_support(expected_labels, expected_scores)
    for name, values in zip(("precision", "recall", "f1", "support"), wanted, strict=True):
        assert [one[name] for one in found] == pytest.approx(values.tolist())


def test_a_class_that_is_never_predicted_has_no_precision():
    (one,) = class_table(["a"], [[[0], [0], [5]]])
    assert one == {"name": "a", "precision": None, "recall": 0.0, "f1": 0.0, "support": 5}


@pytest.mark.parametrize("rows", [12, 3000])
def test_curves_are_those_of_scikit_learn_with_fewer_points(rows):
    scores, labels = scored(rows, 2)
    found = binary_curves(scores, labels)
    assert found is not None
    value = positive_probability(scores).numpy()
    roc, other = found["roc"], found["precision_recall"]
    assert roc["area"] == pytest.approx(sklearn_metrics.roc_auc_score(labels, value))
    average = sklearn_metrics.average_precision_score(labels, value)
    assert other["area"] == pytest.approx(average)
    fallout, recall, _ = sklearn_metrics.roc_curve(labels, value, drop_intermediate=False)
    every = {(round(a, 6), round(b, 6)) for a, b in zip(fallout, recall, strict=True)}
    kept = list(zip(roc["false_positive_rate"], roc["true_positive_rate"], strict=True))
    assert set(kept) <= every
    assert (kept[0], kept[-1]) == ((0, 0), (1, 1))
    precision, recall, _ = sklearn_metrics.precision_recall_curve(labels, value)
    every = {(round(a, 6), round(b, 6)) for a, b in zip(recall, precision, strict=True)}
    assert set(zip(other["recall"], other["precision"], strict=True)) <= every
    assert len(other["recall"]) <= POINTS
    assert len(kept) <= POINTS
    # A curve of the points that are left has nearly the same area.
    assert np.trapezoid(roc["true_positive_rate"], roc["false_positive_rate"]) == pytest.approx(
        roc["area"], abs=0.01
    )


def test_there_is_no_curve_for_one_class():
    assert binary_curves(torch.randn(5, 2), torch.ones(5, dtype=torch.long)) is None


def test_calibration_by_hand():
    # (0.6, 0.7]: two rows of mean 0.65, one right; (0.9, 1.0]: three of mean 0.96, all right.
    first = reliability_sums(torch.tensor([0.62, 0.68]), torch.tensor([True, False]))
    second = reliability_sums(torch.tensor([0.92, 0.96, 1.0]), torch.tensor([True] * 3))
    found = calibration([first, second])
    assert found["expected_error"] == pytest.approx(0.4 * 0.15 + 0.6 * 0.04)
    assert [(one["from"], one["rows"], one["accuracy"]) for one in found["bins"]] == [
        (0.6, 2, 0.5),
        (0.9, 3, 1.0),
    ]
    # A confidence on the border belongs to the lower bin.
    assert calibration([reliability_sums(torch.tensor([0.7]), torch.tensor([True]))])["bins"][0][
        "to"
    ] == pytest.approx(0.7)


@pytest.mark.parametrize("seed", range(3))
def test_the_threshold_has_the_best_balanced_accuracy_of_all(seed):
    scores, labels = scored(60, 2, seed)
    threshold = best_threshold(scores, labels)
    assert threshold is not None
    value = positive_probability(scores)

    def quality(border: float) -> float:
        hits = (value > border) == (labels == 1)
        return float(hits[labels == 1].double().mean() + hits[labels == 0].double().mean())

    assert quality(threshold) == pytest.approx(max(quality(i / 500) for i in range(501)))


def test_the_threshold_is_one_half_if_nothing_is_gained():
    scores = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 3.0]])
    assert best_threshold(scores, torch.tensor([0, 0, 1])) == 0.5
    assert best_threshold(scores, torch.tensor([0, 0, 0])) is None


def test_draws_are_poisson_numbers():
    found = draw(np.random.default_rng(1), 10**6)
    shares = np.bincount(found, minlength=6) / 10**6
    wanted = [math.exp(-1) / math.factorial(k) for k in range(6)]
    assert shares[:6].tolist() == pytest.approx(wanted, abs=0.002)
    assert (found.mean(), found.var()) == pytest.approx((1, 1), abs=0.01)


@pytest.mark.parametrize("metric", OF_CLASSES)
def test_a_resample_is_a_weighted_score_of_scikit_learn(metric):
    scores, labels = scored(40, 2)
    rows = torch.arange(5, 45)
    found = bootstrap(scores, labels, rows, 60, metric, False)
    assert len(found) == 1000
    generator = np.random.default_rng(SEED)
    predicted, value = scores.argmax(1), positive_probability(scores)
    for place in range(5):
        weight = draw(generator, 60)[5:45]
        wanted = {
            "accuracy": lambda w: sklearn_metrics.accuracy_score(
                labels, predicted, sample_weight=w
            ),
            "micro_f1": lambda w: sklearn_metrics.accuracy_score(
                labels, predicted, sample_weight=w
            ),
            "macro_f1": lambda w: sklearn_metrics.f1_score(
                labels, predicted, average="macro", sample_weight=w
            ),
            "balanced_accuracy": lambda w: sklearn_metrics.balanced_accuracy_score(
                labels, predicted, sample_weight=w
            ),
            "roc_auc": lambda w: sklearn_metrics.roc_auc_score(labels, value, sample_weight=w),
        }[metric](weight)
        assert found[place] == pytest.approx(wanted)


@pytest.mark.parametrize("metric", ["accuracy", "micro_f1", "macro_f1"])
def test_rows_with_several_labels_are_resampled_as_a_whole(metric):
    g = torch.Generator().manual_seed(1)
    scores, labels = torch.randn(30, 3, generator=g), (torch.rand(30, 3, generator=g) > 0.5).float()
    found = bootstrap(scores, labels, torch.arange(30), 30, metric, True)
    weight = draw(np.random.default_rng(SEED), 30)
    true, predicted = labels.numpy(), (scores > 0).numpy()
    wanted = (
        np.average((true == predicted).mean(1), weights=weight)
        if metric == "accuracy"
        else sklearn_metrics.f1_score(
            true, predicted, average=metric.removesuffix("_f1"), sample_weight=weight
        )
    )
    assert found[0] == pytest.approx(wanted)


def test_the_interval_is_as_wide_as_that_of_a_proportion():
    rows, right = 400, 300
    labels = torch.zeros(rows, dtype=torch.long)
    scores = torch.eye(2)[(torch.arange(rows) >= right).long()]
    found = bootstrap(scores, labels, torch.arange(rows), rows, "accuracy", False)
    ends, reason = interval([found], rows)
    assert ends is not None
    assert reason is None
    half = 1.96 * math.sqrt(0.75 * 0.25 / rows)
    assert ends["low"] == pytest.approx(0.75 - half, abs=0.006)
    assert ends["high"] == pytest.approx(0.75 + half, abs=0.006)
    # Seeds that share their test rows do not make the interval narrower, other rows do.
    assert interval([found, found], rows) == (ends, None)
    other = bootstrap(scores, labels, torch.arange(rows, 2 * rows), 2 * rows, "accuracy", False)
    same = bootstrap(scores, labels, torch.arange(rows), 2 * rows, "accuracy", False)
    both, _ = interval([same, other], 2 * rows)
    assert both is not None
    assert both["high"] - both["low"] == pytest.approx(2 * half / math.sqrt(2), abs=0.01)


@pytest.mark.parametrize(
    ("replicates", "rows", "smallest", "reason"),
    [
        ([0.1, 0.9] * 100, 9, None, "9 test rows, fewer than 10"),
        ([0.1, 0.9] * 100, 50, 1, "the smallest class has 1 test row, fewer than 5"),
        ([1.0] * 200, 50, None, "all have the same score"),
        ([0.1, 0.9] * 20 + [math.nan] * 160, 50, None, "defined for 40 resamples"),
    ],
)
def test_too_few_rows_have_no_interval_and_the_reason_is_given(replicates, rows, smallest, reason):
    ends, found = interval([replicates], rows, smallest)
    assert ends is None
    assert found is not None
    assert reason in found


def test_a_class_with_few_test_rows_in_one_fold_has_no_interval():
    # 40 rows, 8 of them positive, in 4 folds: pooled there are 8, but 2 in each fold.
    labels = (torch.arange(40) % 5 == 0).long()
    graph = Data(x=torch.ones(40, 1), edge_index=torch.empty(2, 0, dtype=torch.long))
    folds = fold_splits(labels, 4, 0.25, 0)
    scores = torch.stack([torch.zeros(40), torch.arange(40.0) % 7 - 3], 1)
    found = {}
    for metric in ("roc_auc", "accuracy"):
        task = Task("folds", [graph], labels, folds, "ab", metric=metric)
        assessed = [task.assess(scores[task.rows(fold, "test")], fold) for fold in range(4)]
        found[metric] = summarize(task, range(4), assessed, [None] * 4, 0)
    assert found["accuracy"]["interval"] is not None
    assert found["roc_auc"]["interval"] is None
    assert found["roc_auc"]["no_interval"] == "the smallest class has 2 test rows, fewer than 5"


def test_large_data_are_resampled_less_often_and_in_blocks(monkeypatch):
    scores, labels = scored(50, 3)
    whole = bootstrap(scores, labels, torch.arange(50), 50, "macro_f1", False)
    monkeypatch.setattr("mgnni.data.assessment.bootstrap.BLOCK", 120)
    assert bootstrap(scores, labels, torch.arange(50), 50, "macro_f1", False) == whole
    monkeypatch.setattr("mgnni.data.assessment.bootstrap.DRAWS", 50 * 200)
    assert len(bootstrap(scores, labels, torch.arange(50), 50, "macro_f1", False)) == 200


def test_the_baseline_predicts_what_is_frequent_in_training():
    assert constant_scores(torch.tensor([2, 2, 0, 1]), 4, False).argmax() == 2
    several = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert (constant_scores(several, 2, True) > 0).tolist() == [True, False]
    # Test rows have another majority: the baseline does not know it.
    scores, labels = scored(50, 3)
    found = assess(scores, labels, torch.tensor([2, 2, 0]), torch.arange(50), 50, "accuracy", None)
    assert found["baseline"]["accuracy"] == pytest.approx(float((labels == 2).float().mean()))
    assert found["baseline"]["balanced_accuracy"] == pytest.approx(1 / 3)


def test_several_labels_per_row_have_no_threshold_and_no_curves():
    g = torch.Generator().manual_seed(1)
    scores, labels = torch.randn(30, 2, generator=g), (torch.rand(30, 2, generator=g) > 0.5).float()
    found = assess(scores, labels, labels, torch.arange(30), 30, "micro_f1", 0.3)
    assert found["curves"] is None
    assert found["at_threshold"] is None
    assert found["confusion"] is None
    assert sum(found["reliability"]["rows"]) == 60  # every cell is a prediction
    right = ((scores > 0) == (labels > 0.5)).sum()
    assert sum(found["reliability"]["right"]) == int(right)
