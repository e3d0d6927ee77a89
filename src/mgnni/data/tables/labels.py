"""The label of each row of a table: a class, or several columns of 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mgnni.data.tables.arrow import pa, pc
from mgnni.data.tables.classes import check_classes, check_matrix
from mgnni.data.tables.options import LABEL_NAMES
from mgnni.data.tables.table import Table, all_found, delimiter_hint, known
from mgnni.data.tables.values import first, in_order, text, truths
from mgnni.data.tables.wording import counted, listed, show
from mgnni.errors import DataError


def label_columns(table: Table, given: Sequence[str]) -> tuple[str, ...]:
    """Return the columns given, or the one that is called like a label."""
    if given:
        return tuple(known(table, name, "label") for name in given)
    matches = all_found(table, LABEL_NAMES)
    if len(matches) > 1:
        raise DataError(
            f"{table.path}: one column must be the label (got {listed(matches)}); name it with "
            "--label, and pass --ignore for what gives it away"
        )
    if not matches:
        raise DataError(
            f"{table.path}: a column must be the label, by default one of {listed(LABEL_NAMES)} "
            f"(got {listed(table.names)}); name it with --label{delimiter_hint(table)}"
        )
    return (matches[0],)


def read_labels(
    table: Table,
    names: Sequence[str],
    data: Mapping[str, Any],
    classes: Sequence[str] | None = None,
) -> tuple[Tensor, tuple[str, ...], list[str]]:
    """Return labels, the names of the classes, and what to note.

    Args:
        table: for messages.
        names: the label columns.
        data: their cells.
        classes: the classes if they are known already; any other label is refused then.
    """
    if len(names) > 1:
        labels = _several(table, names, data)
        notes = [] if classes else check_matrix(str(table.path), labels, names)
        return labels, tuple(names), notes
    name = names[0]
    column = text(data[name])
    fitted = tuple(in_order(pc.unique(column).drop_null().to_pylist()))
    where = f"{table.path}, column {show(name)}"
    if classes is None:
        nan = first(pc.equal(pc.utf8_lower(column), "nan"))
        if nan is not None:
            raise DataError(
                f"{table.row(nan)}: column {show(name)} must hold a class (got "
                f"{show(column[nan].as_py())}); leave the cell empty if the class is not known"
            )
        check_classes(where, fitted, len(column) - column.null_count)
        classes = fitted
    codes = pc.fill_null(pc.index_in(column, value_set=pa.array(classes, pa.string())), -1)
    labels = torch.from_numpy(codes.to_numpy().astype(np.int64))
    strange = first(pc.and_(pc.is_valid(column), pc.less(codes, 0)))
    if strange is not None:
        raise DataError(
            f"{table.row(strange)}: column {show(name)} must hold a class that was trained on (got "
            f"{show(column[strange].as_py())}); the classes are {listed(classes)}; empty the cell, "
            "or leave the column out, to predict without it"
        )
    notes = [f"label {show(name)}: {len(classes)} classes"]
    if column.null_count:
        notes.append(f"{counted(column.null_count, 'row')} without a label")
    if len({value.strip() for value in classes}) < len(classes):
        notes.append(f"label {show(name)}: some classes differ only in blanks")
    return labels, tuple(classes), notes


def _several(table: Table, names: Sequence[str], data: Mapping[str, Any]) -> Tensor:
    cells = np.stack([truths(table, name, data[name]) for name in names], axis=1)
    gone = np.isnan(cells)
    partly = np.flatnonzero(gone.any(axis=1) & ~gone.all(axis=1))
    if partly.size:
        row = int(partly[0])
        empty = names[int(np.flatnonzero(gone[row])[0])]
        raise DataError(
            f"{table.row(row)}: a row must have all labels or none (got none for {show(empty)}); "
            "write 0 or 1 there, or empty the others"
        )
    return torch.from_numpy(cells.astype(np.float32))
