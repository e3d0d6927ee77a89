"""How a file was read: all that is needed to read another one alike, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.options import TableOptions
from mgnni.data.tables.wording import listed
from mgnni.errors import ArgumentError, DataError

VERSION = 1
KINDS = ("number", "bool", "category", "constant", "degree")
DRAWN_FROM_TABLE = ("number", "bool", "category")
ROUNDING = 1e-9


@dataclass(frozen=True)
class Column:
    """One column of a table, and the features it becomes.

    Args:
        name: of the column.
        kind: ``"number"``, ``"bool"`` (0 or 1), ``"category"`` (one feature a category),
            ``"constant"`` (1 everywhere) or ``"degree"``; the last two are in no table.
        categories: in the order of their features.
        missing: whether one more feature marks missing values.
        fill: what a missing number becomes: the mean of the column it was fitted on.
        mean: subtracted from a number.
        deviation: a number is divided by it.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    missing: bool = False
    fill: float = 0.0
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features this column becomes."""
        own: tuple[str, ...] = (self.name,)
        if self.kind == "category":
            own = tuple(f"{self.name}={category}" for category in self.categories)
        return (*own, f"{self.name}_missing") if self.missing else own

    def standardized(self, seen: npt.NDArray[Any]) -> Column:
        """Return it with mean and deviation of these numbers, in which none is missing."""
        deviation = float(seen.std(dtype=np.float64))
        # A spread within rounding of zero is none: dividing by it would magnify the rounding.
        if deviation <= ROUNDING * float(np.abs(seen).max(initial=0.0)):
            deviation = 1.0
        return replace(self, mean=float(seen.mean(dtype=np.float64)), deviation=deviation)


@dataclass(frozen=True)
class Schema:
    """What a model was trained on; read other files with it to predict.

    Args:
        level: ``"node"`` or ``"graph"``: what is classified.
        classes: names of the classes, or of the labels.
        multilabel: whether a row may have several labels.
        columns: in the order of their features.
        weighted: whether edges have weights.
        options: the options, with the names of columns that were found.
    """

    level: str
    classes: tuple[str, ...]
    multilabel: bool
    columns: tuple[Column, ...]
    weighted: bool
    options: TableOptions
    version: int = VERSION

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of ``x``."""
        return tuple(name for column in self.columns for name in column.feature_names)

    def options_for(self, options: TableOptions) -> TableOptions:
        """Return the options of training, with another delimiter if one is given."""
        given = [name for name in options.given() if name != "delimiter"]
        if given:
            raise ArgumentError(
                f"'options' must leave all but the delimiter to the schema (got {given}); name the "
                "columns as they were in training"
            )
        return replace(self.options, delimiter=options.delimiter or self.options.delimiter)

    def to_dict(self) -> dict[str, Any]:
        """Return it as dicts, lists, strings, numbers: what JSON can hold."""
        plain = _plain(asdict(self))
        plain["columns"] = [_plain(_changed(column)) for column in self.columns]
        return dict(plain)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """Make it from what :meth:`to_dict` returned; refuses what it does not know."""
        if plain.get("version") != VERSION:
            raise DataError(
                f"schema: version {VERSION} is needed (got {plain.get('version')!r}); train again "
                "with this version of the library, or read it with the one it was written by"
            )
        every = {f.name for f in fields(cls)}
        _check_keys("schema", plain, every, every)
        columns = []
        for column in plain["columns"]:
            _check_keys("schema column", column, {f.name for f in fields(Column)}, {"name", "kind"})
            columns.append(Column(**_frozen(column)))
            if columns[-1].kind not in KINDS:
                raise DataError(
                    f"schema: a column's kind must be one of {list(KINDS)} (got "
                    f"{columns[-1].kind!r}); the schema was written by another version"
                )
        names = {f.name for f in fields(TableOptions)}
        _check_keys("schema options", plain["options"], names, set())
        made = {"columns": tuple(columns), "options": TableOptions(**_frozen(plain["options"]))}
        return cls(**{**_frozen(plain), **made})


def _changed(column: Column) -> dict[str, Any]:
    """Leave out what has its default: a wide matrix has thousands of columns."""
    values = asdict(column)
    return {f.name: values[f.name] for f in fields(column) if values[f.name] != f.default}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _frozen(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in value.items()}


def _check_keys(what: str, plain: Mapping[str, Any], known: set[str], needed: set[str]) -> None:
    extra, lacking = sorted(set(plain) - known), sorted(needed - set(plain))
    if extra or lacking:
        problem = f"unknown: {listed(extra)}" if extra else f"missing: {listed(lacking)}"
        raise DataError(
            f"{what}: the keys must be those this version writes ({problem}); use the schema as "
            "Schema.to_dict wrote it"
        )
