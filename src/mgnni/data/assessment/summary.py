"""The assessment of all runs of a training together, for its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from mgnni.data.assessment.assess import DECIDED
from mgnni.data.assessment.bootstrap import interval
from mgnni.data.assessment.calibration import calibration
from mgnni.data.assessment.threshold import CRITERION
from mgnni.data.inspection.description import describe_classes
from mgnni.data.task import Task, all_labels

Found = Mapping[str, Any]


def summarize(
    task: Task,
    splits: Sequence[int],
    assessed: Sequence[Found],
    thresholds: Sequence[float | None],
    best: int,
) -> dict[str, Any]:
    """Returns the assessment of all runs as plain data.

    Counts of rows are summed over runs; metrics are means over runs. Curves are those of one run.

    Args:
        task (Task): The task.
        splits (Sequence[int]): The split of each run.
        assessed (Sequence[Mapping[str, Any]]): Results of
            :func:`~mgnni.data.assessment.assess.assess`.
        thresholds (Sequence[float or None]): Threshold of each run.
        best (int): The run whose curves are kept.

    Returns:
        dict: ``interval`` (or ``None``, and the reason in ``no_interval``), ``baseline``, ``rare``,
        ``classes``, ``calibration``, and for two classes ``threshold`` and ``curves``; ``runs`` has
        the interval, calibration error and threshold of each.
    """
    described, majority = describe_classes(task, splits[0])
    runs = [
        {
            "interval": _ends(interval([one["replicates"]], *_sizes(task, [split]))[0]),
            "baseline": one["baseline"][task.metric],
            "expected_calibration_error": calibration([one["reliability"]])["expected_error"],
            "threshold": threshold,
        }
        for one, split, threshold in zip(assessed, splits, thresholds, strict=True)
    ]
    ends, reason = interval([one["replicates"] for one in assessed], *_sizes(task, splits))
    baseline = {
        name: fmean(one["baseline"][name] for one in assessed) for name in _shared(assessed)
    }
    found: dict[str, Any] = {
        "epoch": "chosen without test labels",
        "interval": ends,
        **({} if reason is None else {"no_interval": reason}),
        "baseline": {"class": None if majority is None else majority["class"], **baseline},
        "rare": [{"class": one["name"], "share": one["share"]} for one in described if one["rare"]],
        "classes": class_table(task.classes, [one["counts"] for one in assessed]),
        "calibration": calibration([one["reliability"] for one in assessed]),
        "runs": runs,
    }
    decided = [one["at_threshold"] for one in assessed if one["at_threshold"] is not None]
    if decided:
        found["threshold"] = {
            "class": task.classes[1],
            "chosen_by": f"{CRITERION} on validation rows",
            "test": {name: fmean(one[name] for one in decided) for name in DECIDED},
            "applied_to": ["classes", "confusion"],
        }
    if assessed[best]["curves"] is not None:
        found["curves"] = {"run": best, **assessed[best]["curves"]}
    return found


def class_table(
    classes: Sequence[str], counts: Sequence[Sequence[Sequence[int]]]
) -> list[dict[str, Any]]:
    r"""Returns precision, recall, F1 and support of each class, over all runs.

    With :math:`t` right predictions of a class, :math:`p` predictions and :math:`n` rows,
    precision is :math:`t / p`, recall :math:`t / n` and F1 :math:`2t / (p + n)`; ``None`` where
    the divisor is 0.

    Args:
        classes (Sequence[str]): Names of the classes.
        counts (Sequence): For each run the numbers :math:`t`, :math:`p` and :math:`n` of all
            classes.
    """
    correct, claimed, present = torch.tensor(counts).sum(0).tolist()
    return [
        {
            "name": name,
            "precision": t / p if p else None,
            "recall": t / n if n else None,
            "f1": 2 * t / (p + n) if p + n else None,
            "support": n,
        }
        for name, t, p, n in zip(classes, correct, claimed, present, strict=True)
    ]


def _sizes(task: Task, splits: Sequence[int]) -> tuple[int, int | None]:
    """Returns the number of different test rows of some splits, and that of the smallest class.

    The latter is the smallest one in the test set of any split, since the metric is computed for
    each split. It is ``None`` if the metric does not weight all classes equally.
    """
    tests = [task.rows(split, "test") for split in sorted(set(splits))]
    total = torch.unique(torch.cat(tests)).numel()
    if task.metric in ("accuracy", "micro_f1"):
        return total, None
    return total, min(_smallest_class(task, rows) for rows in tests)


def _smallest_class(task: Task, rows: Tensor) -> int:
    """Returns the number of rows of the smallest class that occurs among some rows."""
    labels = all_labels(task)[rows]
    counts = labels.sum(0) if task.multilabel else torch.bincount(labels)
    return int(counts[counts > 0].min()) if bool((counts > 0).any()) else 0


def _shared(assessed: Sequence[Found]) -> list[str]:
    """Returns the metrics that are defined for all runs."""
    every = [set(one["baseline"]) for one in assessed]
    return [name for name in assessed[0]["baseline"] if all(name in one for one in every)]


def _ends(found: Mapping[str, Any] | None) -> list[float] | None:
    return None if found is None else [found["low"], found["high"]]
