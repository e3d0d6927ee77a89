"""Labels that come as arrays: classes as integers or text, or a 0/1 matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mgnni.data.tables.classes import check_classes, check_matrix
from mgnni.data.tables.wording import counted, listed, show
from mgnni.errors import DataError


def array_labels(
    places: Sequence[str],
    graphs: Sequence[Mapping[str, npt.NDArray[Any]]],
    rows: Sequence[int],
    known: Sequence[str] | None,
) -> tuple[Tensor | None, tuple[str, ...], list[str]]:
    """Return labels, the names of the classes, and what to note.

    Args:
        places: of the graphs, for messages.
        graphs: their arrays; the labels are ``y``.
        rows: how many labels each must have.
        known: the classes of training; labels may be missing then.
    """
    lacking = [where for where, arrays in zip(places, graphs, strict=True) if "y" not in arrays]
    if lacking and known is not None:
        return None, tuple(known), []
    if lacking:
        raise DataError(f"{lacking[0]}: must hold labels, as y or node_labels; add them")
    parts: list[npt.NDArray[Any]] = []
    for where, arrays, count in zip(places, graphs, rows, strict=True):
        y = np.atleast_1d(arrays["y"])
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        shapes_differ = parts and y.shape[1:] != parts[0].shape[1:]
        if y.shape[0] != count or y.ndim > 2 or y.dtype.kind not in "fiubU" or shapes_differ:
            raise DataError(
                f"{where}: y must have {counted(count, 'label')}, integers or text, or rows of 0 "
                f"and 1 (got {y.dtype} of shape {y.shape}); make all alike"
            )
        parts.append(y)
    y = np.concatenate(parts)
    where = places[0].split(", graph ")[0]
    return _matrix(where, y, known) if y.ndim == 2 else _classes(where, y, known)


def _matrix(
    where: str, y: npt.NDArray[Any], known: Sequence[str] | None
) -> tuple[Tensor, tuple[str, ...], list[str]]:
    names = tuple(str(column) for column in range(y.shape[1])) if known is None else tuple(known)
    labels = torch.from_numpy(y.astype(np.float32))
    if y.dtype.kind == "U" or y.shape[1] != len(names):
        raise DataError(
            f"{where}: y must be 0 and 1 for {counted(len(names), 'label')} (got {y.dtype} of "
            f"shape {y.shape}); convert it"
        )
    gone = labels.isnan()
    wrong = ~((labels == 0) | (labels == 1) | gone) | (gone & ~gone.all(dim=1, keepdim=True))
    if bool(wrong.any()):
        row, column = wrong.nonzero()[0].tolist()
        raise DataError(
            f"{where}, row {row} (from 0): y must be 0 or 1, or nan in the whole row (got "
            f"{float(labels[row, column]):g} for label {column}); correct it"
        )
    return labels, names, check_matrix(where, labels, names) if known is None else []


def _classes(
    where: str, y: npt.NDArray[Any], known: Sequence[str] | None
) -> tuple[Tensor, tuple[str, ...], list[str]]:
    if y.dtype.kind == "U":
        labelled = y != ""
    else:
        labelled = ~np.isnan(y) & (y >= 0) if y.dtype.kind == "f" else y >= 0
    found, code = np.unique(y[labelled], return_inverse=True)
    whole = y.dtype.kind != "f" or bool((found == np.floor(found)).all())
    names = [str(v) for v in (found.astype(np.int64) if whole and y.dtype.kind != "U" else found)]
    if known is None:
        check_classes(where, names, int(labelled.sum()))
        known = names
    strange = [name for name in names if name not in known]
    if strange:
        raise DataError(
            f"{where}: y must hold classes that were trained on (got {show(strange[0])}); the "
            f"classes are {listed(known)}; drop y to predict without it"
        )
    place = np.array([known.index(name) for name in names], dtype=np.int64)
    labels = torch.full((len(y),), -1)
    labels[torch.from_numpy(labelled)] = torch.from_numpy(place[code])
    gone = len(y) - int(labelled.sum())
    notes = [f"{counted(gone, 'row')} without a label"] if gone else []
    return labels, tuple(known), [f"label y: {len(known)} classes", *notes]
