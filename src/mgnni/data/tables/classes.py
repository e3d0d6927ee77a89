"""When labels are classes that can be learnt; the same for tables, arrays and PyG objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mgnni.data.split import Split
from mgnni.data.tables.direction import Integers
from mgnni.data.tables.wording import counted, listed, show
from mgnni.errors import DataError

FEW = 20


def known_rows(labels: Tensor) -> Tensor:
    """Return which rows have a label."""
    return labels >= 0 if labels.dim() == 1 else ~torch.isnan(labels[:, 0])


def check_classes(where: str, classes: Sequence[str], labelled: int) -> None:
    """Refuse labels that are none, all the same, measurements, or names of the rows.

    Args:
        where: the labels, for the message.
        classes: the distinct labels.
        labelled: how many rows have one.
    """
    if not labelled:
        raise DataError(
            f"{where}: some rows must have a label (got only empty ones); label the training rows"
        )
    fraction = _fraction(classes)
    if fraction is not None and len(classes) > min(FEW, max(2, labelled / 2)):
        raise DataError(
            f"{where}: labels must be classes (got {len(classes)} different numbers such as "
            f"{fraction}); only classification is supported, so put them into a few classes first"
        )
    if len(classes) > max(FEW, labelled / 2):
        raise DataError(
            f"{where}: labels must be classes (got {len(classes)} different ones in {labelled} "
            f"labelled rows, such as {listed(classes[:3])}); name the label column with --label"
        )
    if len(classes) == 1:
        raise DataError(
            f"{where}: labels must be of two classes at least (got {show(classes[0])} only); there "
            "is nothing to tell apart, so check the label column"
        )


def check_matrix(where: str, labels: Tensor, names: Sequence[str]) -> list[str]:
    """Refuse a 0/1 matrix without a label; note how many rows have none, and what never varies."""
    known = known_rows(labels)
    if not bool(known.any()):
        check_classes(where, (), 0)
    rows = labels[known]
    same = [name for name, column in zip(names, rows.T, strict=True) if (column == column[0]).all()]
    notes = [f"{counted(len(names), 'label')} a row: {listed(names)}"]
    if not bool(known.all()):
        notes.append(f"{counted(int((~known).sum()), 'row')} without labels")
    return [*notes, f"the same for every row: {listed(same)}"] if same else notes


def check_split(
    where: str,
    split: Split,
    labels: Tensor,
    classes: Sequence[str],
    allow_unseen: bool,
) -> None:
    """Refuse a split that has nothing to train on, or is asked about what it never saw.

    Args:
        where: the split, for the message.
        split: of the rows of ``labels``.
        labels: classes, -1 for none; or a 0/1 matrix, nan for none.
        classes: their names.
        allow_unseen: whether classes without training rows pass.
    """
    split.check(labels.size(0), where)
    if not bool(known_rows(labels)[split.train].any()):
        raise DataError(f"{where}: the training part has no label; label some of its rows")
    trained = _present(labels, split.train)
    for part in ("val", "test"):
        unseen = _present(labels, split.part(part)) & ~trained
        if bool(unseen.any()) and not allow_unseen:
            name = classes[int(unseen.nonzero()[0])]
            raise DataError(
                f"{where}: a class must be trained on to be tested on (got {show(name)} in {part}, "
                "not in train); move a row of it to train, drop the class, or pass --allow-unseen"
            )


def training_nodes(
    splits: Sequence[Split], graph: Integers | None, num_nodes: int
) -> npt.NDArray[np.bool_]:
    """Return the nodes that some split trains on; all of them if there is no split."""
    if not splits:
        return np.ones(num_nodes, dtype=bool)
    units = np.concatenate([split.train.numpy() for split in splits])
    return np.isin(np.arange(num_nodes) if graph is None else graph, units)


def _present(labels: Tensor, rows: Tensor) -> Tensor:
    """Which classes occur in the rows."""
    kept = labels[rows][known_rows(labels[rows])]
    if labels.dim() == 2:
        return (kept == 1).any(dim=0)
    present = torch.zeros(int(labels.max()) + 1, dtype=torch.bool)
    present[kept] = True
    return present


def _fraction(classes: Sequence[str]) -> str | None:
    """Return a class that is no whole number, if all of them are numbers."""
    try:
        fractions = [value for value in classes if not float(value).is_integer()]
    except ValueError:
        return None
    return fractions[0] if fractions else None
