"""Columns that look like ids, and columns that tell the label almost alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mgnni.data.tables.schema import Column
from mgnni.data.task import Task

FEWEST_ROWS = 30  # below, too little is known to suspect a column
MOST_ROWS = 5000  # of the training set that are looked at
MOST_COLUMNS = 3000
LARGEST_ID = 2.0**64
DISTINCT = 0.95  # share of distinct values from which whole numbers look like ids
SKILL = 0.9  # of a column that tells the label almost alone
SKILL_OF_NUMBERS = 0.98

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def id_columns(task: Task, columns: Sequence[Column]) -> list[str]:
    """Returns the number columns with a different whole number in nearly every row.

    Numbers with a currency sign or percent sign are amounts, not ids.

    Args:
        task (Task): The task.
        columns (Sequence[Column]): Columns of its features, in order.
    """
    x = torch.cat([graph.x for graph in task.graphs])
    if x.size(0) < FEWEST_ROWS:
        return []
    found, start = [], 0
    for column in columns:
        if column.kind == "number" and not column.symbol:
            raw = x[:, start].double().numpy() * column.deviation + column.mean
            largest = float(np.abs(raw).max())
            rounding = 1e-6 * largest  # of single precision
            whole = bool((np.abs(raw - np.round(raw)) <= rounding).all()) and largest < LARGEST_ID
            if whole and len(np.unique(x[:, start].numpy())) >= DISTINCT * len(raw):
                found.append(column.name)
        start += len(column.feature_names)
    return found


def label_columns(task: Task, split: int, columns: Sequence[Column]) -> list[dict[str, Any]]:
    r"""Returns the columns that tell the label of the training rows almost alone.

    Half of the training rows predict the other half by the nearest value of a single column. Its
    skill is :math:`(a - m) / (1 - m)` for an accuracy :math:`a` and a share :math:`m` of the
    majority class: 0 for a column without information, 1 for the label itself. For graphs, the
    value is the mean over the nodes. For numbers to predict, the skill is :math:`R^2` instead.

    Args:
        task (Task): A task; none is found for several labels or numbers per row.
        split (int): Index of the split; only labels of its training rows are used.
        columns (Sequence[Column]): Columns of its features, in order.

    Returns:
        list of dict: ``column``, ``accuracy`` (``None`` for numbers) and ``skill``, the most
        telling first.
    """
    rows = task.rows(split, "train")
    several = task.multilabel or (task.regression and len(task.classes) > 1)
    if several or rows.numel() < FEWEST_ROWS:
        return []
    order = np.random.default_rng(0).permutation(rows.numel())[:MOST_ROWS]
    labels = task.targets(split, "train").numpy()[order]
    labels = labels[:, 0] if task.regression else labels
    if bool((labels == labels[0]).all()):
        return []
    x = _row_features(task)[rows[torch.from_numpy(order)]].double().numpy()
    found, start = [], 0
    for column in columns[:MOST_COLUMNS]:
        width = len(column.feature_names)
        own = x[:, start : start + width]
        # A category is the place of its 1; of a number only the value counts, not its flag.
        value = own.argmax(1).astype(float) if column.kind == "category" else own[:, 0]
        start += width
        # A degree is that of the graph, not a column that may be ignored.
        if column.kind != "degree" and value.min() < value.max():
            accuracy, skill = _skill(value, labels, task.regression)
            if skill >= (SKILL_OF_NUMBERS if task.regression else SKILL):
                found.append({"column": column.name, "accuracy": accuracy, "skill": skill})
    return sorted(found, key=lambda one: -one["skill"])


def _skill(value: Floats, labels: Any, regression: bool) -> tuple[float | None, float]:
    if regression:
        return None, nearest_value_r2(value, labels)
    majority = np.bincount(labels).max() / len(labels)
    accuracy = nearest_value_accuracy(value, labels)
    return accuracy, float((accuracy - majority) / (1 - majority))


def nearest_value_r2(value: Floats, numbers: Floats) -> float:
    """Returns how well each half of the rows is predicted by the nearest values of the other half.

    Args:
        value (numpy.ndarray): A number per row, in random order.
        numbers (numpy.ndarray): Number to predict of each row.
    """
    numbers = numbers / np.abs(numbers).max()  # so that no square underflows
    left = 0.0
    for first in (0, 1):
        known, asked = slice(first, None, 2), slice(1 - first, None, 2)
        distinct, place = np.unique(value[known], return_inverse=True)
        mean = np.bincount(place, numbers[known]) / np.bincount(place)
        nearest = np.searchsorted((distinct[1:] + distinct[:-1]) / 2, value[asked])
        left += float(((mean[nearest] - numbers[asked]) ** 2).sum())
    return 1 - left / float(((numbers - numbers.mean()) ** 2).sum())


def nearest_value_accuracy(value: Floats, labels: Integers) -> float:
    """Returns how well each half of the rows is predicted by the nearest values of the other half.

    Args:
        value (numpy.ndarray): A number per row, in random order.
        labels (numpy.ndarray): Classes of the rows.
    """
    right, classes = 0, int(labels.max()) + 1
    for first in (0, 1):
        known, asked = slice(first, None, 2), slice(1 - first, None, 2)
        distinct, place = np.unique(value[known], return_inverse=True)
        counts = np.bincount(place * classes + labels[known], minlength=len(distinct) * classes)
        usual = counts.reshape(-1, classes).argmax(1)  # class of each value
        nearest = np.searchsorted((distinct[1:] + distinct[:-1]) / 2, value[asked])
        right += int((usual[nearest] == labels[asked]).sum())
    return right / len(labels)


def _row_features(task: Task) -> Tensor:
    """Returns the features of every row; means over the nodes if a row is a graph."""
    if task.level == "node":
        return torch.cat([graph.x for graph in task.graphs])
    return torch.stack([graph.x.mean(0) for graph in task.graphs])
