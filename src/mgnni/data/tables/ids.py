"""Names of nodes and graphs become indices; each name is kept as it is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.arrow import pa, pc
from mgnni.data.tables.table import Table
from mgnni.data.tables.values import first, text
from mgnni.data.tables.wording import show
from mgnni.errors import DataError

Integers = npt.NDArray[np.int64]


class Index:
    """Where each id stands; within its graph, if ids are unique in their graph only."""

    def __init__(self, ids: Any, graph: Integers | None = None) -> None:
        self.ids = ids
        self.distinct = pc.unique(_comparable(ids))
        self.keys: Any = None
        if graph is not None:
            self.keys = pa.array(self._key(ids, graph))

    def find(self, wanted: Any, graph: Integers | None = None) -> Integers:
        """Return the position of each wanted id, -1 for one that is not there."""
        if self.keys is None:
            # All ids are distinct then, so their order is that of the rows.
            return _codes(wanted, self.distinct)
        return _codes(pa.array(self._key(wanted, graph)), self.keys)

    def _key(self, ids: Any, graph: Integers | None) -> Integers:
        code = _codes(ids, self.distinct)
        return np.where(code < 0, -1, code + graph * np.int64(len(self.distinct)))


def check_ids(table: Table, name: str, ids: Any, graph: Integers | None = None) -> None:
    """Refuse an empty id, or one that two rows have (in one graph, if ``graph`` is given)."""
    empty = first(pc.is_null(ids))
    if empty is not None:
        raise DataError(
            f"{table.row(empty)}: column {show(name)} must hold an id (got an empty cell); give "
            "every row an id of its own, or name the id column with --id"
        )
    codes = _codes(ids, pc.unique(_comparable(ids)))
    if graph is not None:
        codes = codes + graph * (codes.max(initial=0) + 1)
    distinct, place = np.unique(codes, return_index=True)
    if len(distinct) < len(codes):
        again = int(np.setdiff1d(np.arange(len(codes)), place)[0])
        before = int(place[np.searchsorted(distinct, codes[again])])
        earlier = table.row(before).removeprefix(f"{table.path}, ")
        raise DataError(
            f"{table.row(again)}: ids in column {show(name)} must differ (got "
            f"{show(ids[again].as_py())}, as in {earlier}); remove one of the two, or name the id "
            "column with --id"
        )


def restored(ids: Any) -> Any:
    """Return ids in the type they have: text that is nothing but plain integers is integers."""
    if not pa.types.is_string(ids.type):
        return ids
    try:
        integers = pc.cast(ids, pa.int64())
    except pa.ArrowInvalid:
        return ids
    return integers if pc.all(pc.equal(pc.cast(integers, pa.string()), ids)).as_py() else ids


def missed(wanted: Any, index: Index) -> str:
    """Return a hint if an id was missed by its blanks or its spelling as a number."""
    value = text(pa.array([wanted])).to_pylist()[0]
    there = pc.unique(text(index.ids))
    same = first(pc.equal(pc.utf8_trim_whitespace(there), value.strip()))
    if same is not None:
        return f"; {show(there[same].as_py())} differs from it only in blanks: remove them"
    try:
        number = str(int(float(value)))
    except (ValueError, OverflowError):
        return ""
    same = first(pc.equal(pc.utf8_ltrim(there, characters="0"), number.lstrip("0")))
    if same is None:
        return ""
    return f"; {show(there[same].as_py())} is another id: write it alike in both tables"


def _comparable(ids: Any) -> Any:
    """Integers as 64-bit ones, anything else as text."""
    if pa.types.is_integer(ids.type) and not pa.types.is_uint64(ids.type):
        return pc.cast(ids, pa.int64())
    return text(ids)


def _codes(wanted: Any, distinct: Any) -> Integers:
    wanted = _comparable(wanted)
    if wanted.type != distinct.type:
        wanted, distinct = text(wanted), text(distinct)
    codes = pc.fill_null(pc.index_in(wanted, value_set=distinct), -1)
    return np.asarray(codes.to_numpy(), dtype=np.int64)
