"""Label and split columns of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mgnni.data.split import PARTS, Split
from mgnni.data.tables.amounts import plain_cells, symbols_of
from mgnni.data.tables.column_names import LABEL_NAMES, MASK_NAMES
from mgnni.data.tables.labels import Labels, check_classes, check_matrix, check_targets
from mgnni.data.tables.messages import alike, counted, did_you_mean, listed, show
from mgnni.data.tables.table import Cells, Table, pa, pc
from mgnni.data.tables.values import (
    as_text,
    booleans,
    has_number,
    means_missing,
    numbers,
    sorted_values,
)
from mgnni.errors import DataError

PART_NAMES = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
NUMBERED = re.compile(r"split_?(\d+)", re.IGNORECASE)


def label_columns(
    table: Table, given: Sequence[str], ignored: Sequence[str] = ()
) -> tuple[str, ...]:
    """Returns the given columns, or else the one that is not ignored with a default name."""
    if given:
        return tuple(table.column(name, "label") for name in given)
    matches = [name for name in table.find_all(LABEL_NAMES) if name not in ignored]
    if len(matches) > 1:
        raise DataError(
            f"{table.path}: only one column may be the label (got {listed(matches)}); name it with "
            "--label, and pass --ignore for columns that reveal it"
        )
    if not matches:
        raise DataError(
            f"{table.path}: there must be a label column, by default one of {listed(LABEL_NAMES)} "
            f"(got {listed(table.names)}); name it with --label{table.likely('label', LABEL_NAMES)}"
        )
    return (matches[0],)


def read_labels(
    table: Table,
    names: Sequence[str],
    cells: Mapping[str, Cells],
    known: Sequence[str] | None = None,
) -> Labels:
    """Reads the labels.

    An empty cell means unlabelled. Other spellings of a missing value, such as ``NA``, are neither
    dropped nor made a class but refused; only ``None`` is a class, as it is an ordinary word.

    Args:
        table (Table): The table, for messages.
        names (list of str): The label columns.
        cells (dict): Their cells.
        known (list of str, optional): The classes of the training file; other labels are refused.
    """
    if len(names) > 1:
        labels = _multilabels(table, names, cells)
        notes = [] if known else check_matrix(str(table.path), labels, names)
        return labels, tuple(names), notes
    name = names[0]
    column = as_text(cells[name])
    if known is None:
        is_none = pc.equal(pc.utf8_lower(pc.utf8_trim_whitespace(column)), "none")
        valid = pc.or_(is_none, pc.invert(means_missing(column)))
        remedy = "leave the cell empty if the class is unknown, or rename the class"
        table.check(name, column, valid, "hold a class", remedy)
        known = sorted_values(pc.unique(column).drop_null().to_pylist())
        where, labelled = f"{table.path}, column {show(name)}", len(column) - column.null_count
        check_classes(where, known, labelled, amounts=bool(symbols_of(table, names, cells)))
    codes = pc.fill_null(pc.index_in(column, value_set=pa.array(known, pa.string())), -1)
    labels = torch.from_numpy(codes.to_numpy().astype(np.int64))
    valid = pc.or_(pc.is_null(column), pc.greater_equal(codes, 0))
    remedy = (
        f"the classes are {listed(known)}; empty the cell, or drop the column, to predict without "
        "labels"
    )
    table.check(name, column, valid, "hold a class of the training file", remedy)
    notes = [f"label {show(name)}: {len(known)} classes"]
    if column.null_count:
        notes.append(f"{counted(column.null_count, 'row')} without a label")
    notes += alike(f"label {show(name)}", "classes", known)
    return labels, tuple(known), notes


def _multilabels(table: Table, names: Sequence[str], cells: Mapping[str, Cells]) -> Tensor:
    labels = np.stack([booleans(table, name, cells[name]) for name in names], axis=1)
    _check_complete(table, names, np.isnan(labels))
    return torch.from_numpy(labels.astype(np.float32))


def read_targets(
    table: Table,
    names: Sequence[str],
    cells: Mapping[str, Cells],
    *,
    training: bool,
    seen: npt.NDArray[np.bool_],
) -> Labels:
    """Reads columns of numbers to predict; empty cells, ``NA`` and the like mean unlabelled.

    In text tables, the numbers may have a currency sign or percent sign, as features may.

    Args:
        table (Table): The table, for messages.
        names (list of str): The label columns.
        cells (dict): Their cells.
        training (bool): Whether the numbers are trained on, and so must exist and differ.
        seen (numpy.ndarray): Mask of the training and validation rows.
    """
    symbols = symbols_of(table, names, cells)
    cells = plain_cells(table, cells, symbols)
    for name in names:
        if training and not has_number(cells[name]):
            value = next(iter(cells[name].drop_null().to_pylist()), None)
            spelled = value is not None and any(character.isdigit() for character in value)
            raise DataError(
                f"{table.path}, column {show(name)}: regression needs numbers (got "
                f"{'only empty cells' if value is None else f'text such as {show(value)}'}); "
                f"{'write numbers like 1200.50, ' * spelled}name another column with --label, or "
                "leave out --task regression to predict classes"
            )
    found = np.stack([numbers(table, name, cells[name]) for name in names], axis=1)
    _check_complete(table, names, np.isnan(found))
    targets = torch.from_numpy(found)
    if not training:
        return targets, tuple(names), []
    notes = [f"target {show(name)}: read as numbers in {one}" for name, one in symbols.items()]
    return targets, tuple(names), [*check_targets(str(table.path), targets, names, seen), *notes]


def _check_complete(table: Table, names: Sequence[str], missing: npt.NDArray[np.bool_]) -> None:
    """Checks that rows have all labels or none."""
    partly = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if partly.size:
        row = int(partly[0])
        empty = names[int(np.flatnonzero(missing[row])[0])]
        raise DataError(
            f"{table.row(row)}: a row must have all labels or none (got none for {show(empty)}); "
            "complete the row, or empty the others"
        )


def default_split_columns(table: Table, ignored: Sequence[str] = ()) -> list[list[str]]:
    """Returns the columns with default names of splits that are not ignored, grouped by kind."""
    numbered = ((NUMBERED.fullmatch(name.strip()), name) for name in table.names)
    several = sorted((int(match[1]), name) for match, name in numbered if match)
    kinds = [table.find_all(("split",)), [n for _, n in several], table.find_all(MASK_NAMES)]
    kept = ([name for name in names if name not in ignored] for names in kinds)
    return [names for names in kept if names]


def split_columns(
    table: Table, given: Sequence[str], ignored: Sequence[str] = ()
) -> tuple[str, ...]:
    """Returns the given columns, or else those that are not ignored with default names, if any."""
    if given:
        return tuple(table.column(name, "split-column") for name in given)
    kinds = default_split_columns(table, ignored)
    if len(kinds) > 1:
        raise DataError(
            f"{table.path}: the split must be in columns of one kind (got "
            f"{listed(name for names in kinds for name in names)}); name them with "
            "--split-column, and pass --ignore for the others"
        )
    return tuple(kinds[0]) if kinds else ()


def read_splits(
    table: Table, names: Sequence[str], cells: Mapping[str, Cells]
) -> tuple[tuple[str, Split], ...]:
    """Returns each split with its place in the file, for messages."""
    masks = {part: name for part in PARTS for name in names if name.lower().startswith(part)}
    if masks and len(masks) == len(names):
        return ((f"{table.path}, masks", _from_masks(table, masks, cells)),)
    return tuple(
        (f"{table.path}, column {show(name)}", _from_part_names(table, name, cells[name]))
        for name in names
    )


def _from_masks(table: Table, masks: Mapping[str, str], cells: Mapping[str, Cells]) -> Split:
    if "train" not in masks:
        raise DataError(
            f"{table.path}: masks must include train_mask (got {listed(masks.values())}); add it, "
            "or pass --ignore for the others"
        )
    read = {part: booleans(table, name, cells[name]) == 1 for part, name in masks.items()}
    parts = [read.get(part, np.zeros_like(read["train"])) for part in PARTS]
    twice = np.flatnonzero(np.sum(parts, axis=0) > 1)
    if twice.size:
        row = int(twice[0])
        both = [masks[part] for part, mask in zip(PARTS, parts, strict=True) if mask[row]]
        raise DataError(
            f"{table.row(row)}: a row must be in one part of the split (got 1 in {listed(both)}); "
            "set all but one to 0"
        )
    return Split.of(*(torch.from_numpy(mask) for mask in parts))


def _from_part_names(table: Table, name: str, column: Cells) -> Split:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(as_text(column)))
    codes = pc.index_in(words, value_set=pa.array(list(PART_NAMES)))
    wrong = pc.and_(pc.is_valid(column), pc.is_null(codes))
    first = next(iter(column.filter(wrong).to_pylist()), "")
    hint = f"correct it{did_you_mean(str(first), list(PART_NAMES))}"
    table.check(name, column, pc.invert(wrong), "hold train, val or test, or be empty", hint)
    part_of_code = np.array([*PART_NAMES.values(), -1])
    part = torch.from_numpy(part_of_code[pc.fill_null(codes, len(PART_NAMES)).to_numpy()])
    return Split.of(part == 0, part == 1, part == 2)
