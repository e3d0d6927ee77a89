"""Which rows a table gives to training, validation and test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from mgnni.data.split import PARTS, Split
from mgnni.data.tables.arrow import pa, pc
from mgnni.data.tables.options import MASK_NAMES
from mgnni.data.tables.table import Table, all_found, known
from mgnni.data.tables.values import first, text, truths
from mgnni.data.tables.wording import listed, nearest, show
from mgnni.errors import DataError

WORDS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2}
NUMBERED = re.compile(r"split_?(\d+)", re.IGNORECASE)


def called_split(table: Table) -> list[list[str]]:
    """Return the columns that are called like splits, those of a kind together."""
    numbered = ((NUMBERED.fullmatch(name.strip()), name) for name in table.names)
    several = sorted((int(match[1]), name) for match, name in numbered if match)
    kinds = [all_found(table, ("split",)), [n for _, n in several], all_found(table, MASK_NAMES)]
    return [names for names in kinds if names]


def split_columns(table: Table, given: Sequence[str]) -> tuple[str, ...]:
    """Return the columns given, or those that are called like splits; there may be none."""
    if given:
        return tuple(known(table, name, "split-column") for name in given)
    kinds = called_split(table)
    if len(kinds) > 1:
        raise DataError(
            f"{table.path}: the split must be in columns of one kind (got "
            f"{listed(name for names in kinds for name in names)}); name them with "
            "--split-column, and pass --ignore for the others"
        )
    return tuple(kinds[0]) if kinds else ()


def read_splits(
    table: Table, names: Sequence[str], data: Mapping[str, Any]
) -> tuple[tuple[str, Split], ...]:
    """Return each split with its place in the file, for messages; whether it is sound is open."""
    masks = _masks(names)
    if masks is not None:
        return ((f"{table.path}, masks", _from_masks(table, masks, data)),)
    return tuple(
        (f"{table.path}, column {show(name)}", _from_words(table, name, data[name]))
        for name in names
    )


def _masks(names: Sequence[str]) -> dict[str, str] | None:
    """Return the mask of each part if the columns are masks."""
    masks = {part: name for part in PARTS for name in names if name.lower().startswith(part)}
    if not masks or len(masks) < len(names):
        return None
    return masks


def _from_masks(table: Table, masks: Mapping[str, str], data: Mapping[str, Any]) -> Split:
    if "train" not in masks:
        raise DataError(
            f"{table.path}: masks must include train_mask (got {listed(masks.values())}); add it, "
            "or pass --ignore for the others"
        )
    cells = {part: truths(table, name, data[name]) == 1 for part, name in masks.items()}
    rows = len(cells["train"])
    each = [cells.get(part, np.zeros(rows, dtype=bool)) for part in PARTS]
    twice = np.flatnonzero(np.sum(each, axis=0) > 1)
    if twice.size:
        row = int(twice[0])
        both = [masks[part] for part, mask in zip(PARTS, each, strict=True) if mask[row]]
        raise DataError(
            f"{table.row(row)}: a row must be in one part of the split (got 1 in {listed(both)}); "
            "set all but one to 0"
        )
    return Split.of(*(torch.from_numpy(mask) for mask in each))


def _from_words(table: Table, name: str, column: Any) -> Split:
    words = pc.utf8_lower(pc.utf8_trim_whitespace(text(column)))
    codes = pc.index_in(words, value_set=pa.array(list(WORDS)))
    wrong = first(pc.and_(pc.is_valid(column), pc.is_null(codes)))
    if wrong is not None:
        word = str(column[wrong].as_py())
        raise DataError(
            f"{table.row(wrong)}: column {show(name)} must say train, val or test, or nothing (got "
            f"{show(word)}); correct it{nearest(word, list(WORDS))}"
        )
    part_of_code = np.array([*WORDS.values(), -1])
    part = torch.from_numpy(part_of_code[pc.fill_null(codes, len(WORDS)).to_numpy()])
    return Split.of(part == 0, part == 1, part == 2)
