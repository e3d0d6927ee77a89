from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from mgnni.data.metric_names import OF_CLASSES, default_metric
from mgnni.data.metrics import measure
from mgnni.errors import ArgumentError, DataError


def logits_of(predictions: list[int], classes: int) -> torch.Tensor:
    """Scores whose highest is the prediction."""
    return torch.eye(classes)[predictions]


def test_one_class_a_row_by_hand():
    # class: 0 0 0 1 1 2; predicted: 0 0 1 1 2 2
    found = measure(logits_of([0, 0, 1, 1, 2, 2], 3), torch.tensor([0, 0, 0, 1, 1, 2]), False)
    f1 = (2 * 2 / (2 + 3), 2 * 1 / (2 + 2), 2 * 1 / (2 + 1))
    recall = (2 / 3, 1 / 2, 1)
    assert found == pytest.approx(
        {
            **{"accuracy": 4 / 6, "micro_f1": 4 / 6, "macro_f1": sum(f1) / 3},
            "balanced_accuracy": sum(recall) / 3,
        }
    )


def test_several_labels_a_row_by_hand():
    labels = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    scores = torch.tensor([[0.3, 0.1], [-0.2, 4.0], [-1.0, 0.0]])  # a score of 0 is a no
    found = measure(scores, labels, True)
    # cells: TP 2, FP 1, FN 1, TN 2; by label: TP 1 FN 1, and TP 1 FP 1
    assert found == pytest.approx({"accuracy": 4 / 6, "micro_f1": 4 / 6, "macro_f1": 2 / 3})


def test_roc_auc_counts_the_pairs_in_order():
    labels = torch.tensor([0, 0, 1, 1, 1])
    margin = torch.tensor([0.1, 0.4, 0.4, 0.8, 0.1])
    scores = torch.stack([torch.full((5,), 2.0), 2.0 + margin], dim=1)
    pairs = itertools.product(margin[labels == 1].tolist(), margin[labels == 0].tolist())
    right = [1.0 if yes > no else 0.5 if yes == no else 0.0 for yes, no in pairs]
    assert measure(scores, labels, False)["roc_auc"] == pytest.approx(sum(right) / 6)
    # By the difference of the scores: what both columns share says nothing.
    shifted = scores + torch.tensor([[5.0], [-3.0], [0.0], [1.0], [2.0]])
    assert measure(shifted.double(), labels, False)["roc_auc"] == pytest.approx(sum(right) / 6)


@settings(max_examples=60)
@given(
    rows=st.integers(1, 40),
    classes=st.integers(2, 6),
    levels=st.sampled_from([2, 3, 50]),
    seed=st.integers(0, 10**6),
)
def test_one_class_a_row_is_as_sklearn_says(rows, classes, levels, seed):
    generator = torch.Generator().manual_seed(seed)
    # Few levels make ties; a lopsided draw leaves classes out.
    scores = torch.randint(levels, (rows, classes), generator=generator).float()
    labels = (torch.rand(rows, generator=generator) ** 2 * classes).long()
    found = measure(scores, labels, False)
    predicted = np.argmax(scores.numpy(), axis=1)  # the first of equals
    expected = {
        "accuracy": sklearn_metrics.accuracy_score(labels, predicted),
        "micro_f1": sklearn_metrics.f1_score(labels, predicted, average="micro"),
        "macro_f1": sklearn_metrics.f1_score(labels, predicted, average="macro", zero_division=0),
        # Balanced accuracy, without a warning about classes that are predicted only.
        "balanced_accuracy": sklearn_metrics.recall_score(
            labels, predicted, average="macro", labels=sorted(set(labels.tolist()))
        ),
    }
    if classes == 2 and len(set(labels.tolist())) == 2:
        margin = scores[:, 1] - scores[:, 0]
        expected["roc_auc"] = sklearn_metrics.roc_auc_score(labels, margin)
    assert found == pytest.approx(expected, abs=1e-12)


@settings(max_examples=40)
@given(rows=st.integers(1, 30), columns=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_several_labels_a_row_is_as_sklearn_says(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, columns, generator=generator) - 0.7
    labels = (torch.rand(rows, columns, generator=generator) < 0.2).float()
    said, true = (scores > 0).int().numpy(), labels.int().numpy()
    occurs = ((said + true) > 0).any(axis=0)
    by_label = sklearn_metrics.f1_score(
        true, said, average=None if columns > 1 else "binary", zero_division=0
    )
    assert measure(scores, labels, True) == pytest.approx(
        {
            "accuracy": float((said == true).mean()),
            "micro_f1": sklearn_metrics.f1_score(true.ravel(), said.ravel(), zero_division=0),
            "macro_f1": float(np.atleast_1d(by_label)[occurs].mean()) if occurs.any() else 0.0,
        }
    )


def test_macro_f1_leaves_out_classes_that_occur_nowhere():
    labels = torch.tensor([0, 0, 3])
    assert measure(logits_of([0, 0, 3], 5), labels, False)["macro_f1"] == 1.0
    # Predicted but never true: it occurs, with an F1 of 0. So does one that is true only.
    found = measure(logits_of([0, 0, 1], 5), labels, False)
    assert found["macro_f1"] == pytest.approx((1 + 0 + 0) / 3)


def test_no_yes_anywhere_is_zero_and_not_nan():
    found = measure(torch.full((2, 3), -1.0), torch.zeros(2, 3), True)
    assert found == {"accuracy": 1.0, "micro_f1": 0.0, "macro_f1": 0.0}


@pytest.mark.parametrize("label", [0, 1])
def test_roc_auc_of_one_class_is_left_out(label):
    found = measure(torch.randn(4, 2), torch.full((4,), label), False)
    assert sorted(found) == ["accuracy", "balanced_accuracy", "macro_f1", "micro_f1"]


def test_roc_auc_is_for_two_classes():
    assert "roc_auc" not in measure(torch.randn(6, 3), torch.tensor([0, 1, 0, 1, 0, 1]), False)


def test_roc_auc_sees_differences_smaller_than_float32_keeps():
    scores = torch.tensor([[1.0, 1e8], [-1.0, 1e8]])  # 1e8 ∓ 1 is one number in float32
    assert measure(scores, torch.tensor([0, 1]), False)["roc_auc"] == 1.0


def test_types_and_names():
    scores = torch.randn(8, 2, dtype=torch.bfloat16, requires_grad=True)
    found = measure(scores, torch.arange(8) % 2, False)
    assert set(found) == set(OF_CLASSES)
    assert all(type(value) is float for value in found.values())
    assert default_metric(False) == "accuracy"
    assert default_metric(True) == "micro_f1"
    # Labels of several a row may be of any type.
    for dtype in (torch.bool, torch.int64, torch.float64):
        assert measure(torch.ones(2, 2), torch.ones(2, 2, dtype=dtype), True)["micro_f1"] == 1.0


def test_refusals():
    y = torch.tensor([0, 1])
    with pytest.raises(DataError, match="no labelled rows"):
        measure(torch.zeros(0, 2), y[:0], False)
    with pytest.raises(DataError, match="no labelled rows"):
        measure(torch.zeros(0, 2), torch.zeros(0, 2), True)
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ArgumentError, match=r"finite .* first in row 1"):
            measure(torch.tensor([[0.0, 0.0], [0.0, bad]]), y, False)
    for shape in ((3, 2), (2,), (2, 2, 1)):
        with pytest.raises(ArgumentError, match=r"shape \(2, 'classes'\)"):
            measure(torch.zeros(shape), y, False)
    with pytest.raises(ArgumentError, match=r"shape \(2, 3\)"):
        measure(torch.zeros(2, 2), torch.zeros(2, 3), True)
    for bad in (-1, 2):
        with pytest.raises(DataError, match=f"from 0 to 1 \\(got {bad}\\)"):
            measure(torch.zeros(2, 2), torch.tensor([0, bad]), False)
    for bad in (float("nan"), 0.5, -1.0):
        with pytest.raises(DataError, match=f"0 or 1 \\(got {bad}\\)"):
            measure(torch.zeros(1, 2), torch.tensor([[0.0, bad]]), True)
