"""Checks of labels and splits, and labels given as arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mgnni.data.metric_names import readable
from mgnni.data.split import Split
from mgnni.data.tables.graph_file import Integers
from mgnni.data.tables.messages import alike, counted, listed, show
from mgnni.data.targets import is_labeled
from mgnni.errors import DataError

FEW = 20
# Labels, names of the classes, and notes.
Labels = tuple[Tensor, tuple[str, ...], list[str]]


def check_classes(
    where: str, classes: Sequence[str], labelled: int, *, amounts: bool = False
) -> None:
    """Checks that labels are classes: at least two, and not measurements or names of the rows.

    Args:
        where (str): The labels, for messages.
        classes (list of str): The distinct labels.
        labelled (int): Number of rows with a label.
        amounts (bool, optional): Whether they are numbers with a currency sign or percent sign.
            (default: :obj:`False`)
    """
    if not labelled:
        raise DataError(
            f"{where}: some rows must have a label (got only empty ones); label the training rows"
        )
    fraction = _fraction(classes)
    if fraction is not None and len(classes) > min(FEW, max(2, labelled / 2)):
        raise DataError(
            f"{where}: labels must be classes (got {len(classes)} different numbers such as "
            f"{fraction}); pass --task regression to predict numbers, or group them into a few "
            "classes"
        )
    if len(classes) > max(FEW, labelled / 2):
        numeric = amounts or all_numbers(classes)
        remedy = "pass --task regression to predict numbers, or " if numeric else ""
        raise DataError(
            f"{where}: labels must be classes (got {len(classes)} different ones in {labelled} "
            f"labelled rows, such as {listed(classes[:3])}); {remedy}name the label column with "
            "--label"
        )
    if len(classes) == 1:
        raise DataError(
            f"{where}: there must be at least two classes (got {show(classes[0])} only); check the "
            "label column"
        )


def check_targets(
    where: str, targets: Tensor, names: Sequence[str], seen: npt.NDArray[np.bool_]
) -> list[str]:
    """Checks that numbers to predict are known for some rows and differ; returns notes on them.

    Args:
        where (str): The file, for messages.
        targets (Tensor): Numbers, with rows of nan where they are unknown.
        names (Sequence[str]): Names of the targets.
        seen (numpy.ndarray): Mask of the training and validation rows. Their numbers must differ;
            the numbers of the test rows are not looked at.

    Shapes:
        - **targets:** ``(rows, targets)``
    """
    labelled = is_labeled(targets)
    if not bool(labelled.any()):
        check_classes(where, (), 0)
    notes = []
    known = targets[labelled & torch.from_numpy(seen)]
    for name, column in zip(names if len(known) else (), known.T, strict=False):
        low, high = float(column.min()), float(column.max())
        if low == high:
            raise DataError(
                f"{where}: numbers to predict must differ (got {low:g} only for {show(name)}); "
                "check the label column"
            )
        notes.append(f"target {show(name)}: numbers from {readable(low, 6)} to {readable(high, 6)}")
    if not bool(labelled.all()):
        notes.append(f"{counted(int((~labelled).sum()), 'row')} without a number to predict")
    return notes


def check_matrix(where: str, labels: Tensor, names: Sequence[str]) -> list[str]:
    """Checks that a 0/1 matrix has a label, and returns notes on it.

    Args:
        where (str): The file, for messages.
        labels (Tensor): Matrix of 0 and 1, with rows of nan where there are no labels.
        names (Sequence[str]): Names of the labels.

    Shapes:
        - **labels:** ``(rows, labels)``
    """
    labelled = is_labeled(labels)
    if not bool(labelled.any()):
        check_classes(where, (), 0)
    rows = labels[labelled]
    same = [name for name, column in zip(names, rows.T, strict=True) if (column == column[0]).all()]
    notes = [f"{counted(len(names), 'label')} per row: {listed(names)}"]
    if not bool(labelled.all()):
        notes.append(f"{counted(int((~labelled).sum()), 'row')} without labels")
    return [*notes, f"the same for every row: {listed(same)}"] if same else notes


def check_split(
    where: str, split: Split, labels: Tensor, classes: Sequence[str], allow_unseen: bool
) -> None:
    """Checks that a split has labelled training rows of all classes it evaluates.

    Args:
        where (str): The split, for messages.
        split (Split): A split of the rows of ``labels``.
        labels (Tensor): Classes with -1 for unlabelled rows, or a 0/1 matrix with nan.
        classes (list of str): Names of the classes.
        allow_unseen (bool): Whether classes without training rows are accepted.

    Shapes:
        - **labels:** ``(rows,)``, or ``(rows, labels)`` for several labels per row
    """
    split.check(labels.size(0), where)
    if not bool(is_labeled(labels)[split.train].any()):
        raise DataError(f"{where}: the training set has no label; label some of its rows")
    trained = _present(labels, split.train)
    for part in ("val", "test"):
        unseen = _present(labels, split.part(part)) & ~trained
        if bool(unseen.any()) and not allow_unseen:
            name = classes[int(unseen.nonzero()[0])]
            raise DataError(
                f"{where}: every class in {part} must also be in train (got {show(name)} in {part} "
                "only); move a row of it to train, drop the class, or pass --allow-unseen"
            )


def training_nodes(
    splits: Sequence[Split], graph: Integers | None, num_nodes: int
) -> npt.NDArray[np.bool_]:
    """Returns a mask of the nodes that some split trains on; all nodes without splits."""
    if not splits:
        return np.ones(num_nodes, dtype=bool)
    units = np.concatenate([split.train.numpy() for split in splits])
    return np.isin(np.arange(num_nodes) if graph is None else graph, units)


def seen_rows(splits: Sequence[Split], num_rows: int) -> npt.NDArray[np.bool_]:
    """Returns a mask of the rows that some split trains or validates on; all without splits."""
    if not splits:
        return np.ones(num_rows, dtype=bool)
    rows = [rows.numpy() for split in splits for rows in (split.train, split.val)]
    return np.isin(np.arange(num_rows), np.concatenate(rows))


def _present(labels: Tensor, rows: Tensor) -> Tensor:
    """Returns a mask of the classes that occur in the rows."""
    known = labels[rows][is_labeled(labels[rows])]
    if labels.dim() == 2:
        return (known == 1).any(dim=0)
    present = torch.zeros(int(labels.max()) + 1, dtype=torch.bool)
    present[known] = True
    return present


def all_numbers(classes: Sequence[str]) -> bool:
    """Returns whether all classes are numbers."""
    try:
        return all(math.isfinite(float(value)) for value in classes)
    except ValueError:
        return False


def _fraction(classes: Sequence[str]) -> str | None:
    """Returns a class that is not an integer, if all classes are numbers."""
    try:
        fractions = [value for value in classes if not float(value).is_integer()]
    except (ValueError, OverflowError):
        return None
    return fractions[0] if fractions else None


def array_labels(where: str, y: npt.NDArray[Any], known: Sequence[str] | None) -> Labels:
    """Reads labels from an array of classes, or from a 0/1 matrix.

    Args:
        where (str): The file, for messages.
        y (numpy.ndarray): Integers, or text, of shape ``(rows,)``, or 0 and 1 of shape
            ``(rows, labels)``. Negative numbers, nan and empty text mean unlabelled.
        known (list of str, optional): The classes of the training file.
    """
    if y.ndim == 2:
        return _matrix_labels(where, y, known)
    if y.dtype.kind == "U":
        labelled = y != ""
    else:
        labelled = ~np.isnan(y) & (y >= 0) if y.dtype.kind == "f" else y >= 0
    found, code = np.unique(y[labelled], return_inverse=True)
    if y.dtype.kind == "f" and bool((found == np.floor(found)).all()):
        found = found.astype(np.int64)
    names = [str(int(v) if y.dtype.kind == "b" else v) for v in found]
    if known is None:
        check_classes(where, names, int(labelled.sum()))
        known = names
    unknown = [name for name in names if name not in known]
    if unknown:
        raise DataError(
            f"{where}: y must hold classes of the training file (got {show(unknown[0])}); the "
            f"classes are {listed(known)}; remove y to predict without labels"
        )
    place = np.array([known.index(name) for name in names], dtype=np.int64)
    labels = torch.full((len(y),), -1)
    labels[torch.from_numpy(labelled)] = torch.from_numpy(place[code])
    missing = len(y) - int(labelled.sum())
    notes = [f"{counted(missing, 'row')} without a label"] if missing else []
    notes += alike("label y", "classes", known)
    return labels, tuple(known), [f"label y: {len(known)} classes", *notes]


def array_targets(
    where: str,
    y: npt.NDArray[Any],
    names: Sequence[str] | None,
    seen: npt.NDArray[np.bool_],
) -> Labels:
    """Reads numbers to predict from an array; nan means unlabelled.

    Args:
        where (str): The file, for messages.
        y (numpy.ndarray): Numbers of shape ``(rows,)`` or ``(rows, targets)``.
        names (list of str, optional): Names of the targets of the training file.
        seen (numpy.ndarray): Mask of the training and validation rows.
    """
    if y.dtype.kind == "U":
        raise DataError(
            f"{where}: regression needs numbers in y (got text such as {show(str(y.flat[0]))}); "
            f"convert it, or {'remove y' if names else 'leave out --task regression'} to predict "
            f"{'without numbers' if names else 'classes'}"
        )
    found = torch.from_numpy((y[:, None] if y.ndim == 1 else y).astype(np.float64))
    usual = ["y"] if y.ndim == 1 else [f"y_{place}" for place in range(y.shape[1])]
    partly = found.isnan().any(1) & ~found.isnan().all(1)
    if found.size(1) != len(names or usual) or bool(partly.any()):
        raise DataError(
            f"{where}: y must hold {counted(len(names or usual), 'number')} per row, or nan in the "
            f"whole row (got shape {y.shape}, and {int(partly.sum())} rows that are nan in part); "
            "complete it"
        )
    notes = check_targets(where, found, usual, seen) if names is None else []
    return found, tuple(names or usual), notes


def _matrix_labels(where: str, y: npt.NDArray[Any], known: Sequence[str] | None) -> Labels:
    names = tuple(str(column) for column in range(y.shape[1])) if known is None else tuple(known)
    if y.dtype.kind == "U" or y.shape[1] != len(names) or not names:
        raise DataError(
            f"{where}: y must hold 0 and 1 for {counted(len(names), 'label')} (got {y.dtype} of "
            f"shape {y.shape}); convert it"
        )
    labels = torch.from_numpy(y.astype(np.float32))
    missing = labels.isnan()
    wrong = ~((labels == 0) | (labels == 1) | missing)
    wrong |= missing & ~missing.all(dim=1, keepdim=True)
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        raise DataError(
            f"{where}, row {row} (from 0): y must be 0 or 1, or nan in the whole row (got "
            f"{float(labels[row, column]):g} for label {column}); correct it"
        )
    return labels, names, check_matrix(where, labels, names) if known is None else []
