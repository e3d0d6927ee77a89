"""Options for reading tables, and the schema that reads further files in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from mgnni.errors import ArgumentError, DataError, check_choice
from mgnni.plain_data import from_dict

if TYPE_CHECKING:  # the command line starts without numpy
    import numpy.typing as npt

TASKS = ("classification", "regression")
SEVERAL = ("label", "split_column", "features", "ignore", "categorical")
VERSION = 1
TABLE_KINDS = ("number", "bool", "category")
KINDS = (*TABLE_KINDS, "constant", "degree")
ROUNDING = 1e-9


@dataclass(frozen=True)
class TableOptions:
    """Options that say which column is what and how the graph is read. All are optional.

    A single name may be given as a string instead of a tuple. The texts below are also the help of
    the command line.

    Args:
        id (str, optional): Column of ``nodes`` with the id of each node.
        label (str or tuple of str, optional): Column with the class, or several columns of 0 and 1
            for multi-label classification, or columns of numbers to predict. In ``graphs`` if
            there is such a table, otherwise in ``nodes``.
        task (str, optional): ``"classification"``, or ``"regression"`` to predict numbers.
        split_column (str or tuple of str, optional): Column that contains ``train``, ``val`` or
            ``test``; one column per split if there are several; or three columns of 0 and 1 whose
            names begin with ``train``, ``val`` and ``test``.
        features (str or tuple of str, optional): Feature columns of ``nodes``. By default all
            columns without another meaning.
        ignore (str or tuple of str, optional): Columns of ``nodes`` that are not features, and not
            read as labels or splits because of their names.
        categorical (str or tuple of str, optional): Features that are one-hot encoded even if they
            are numbers.
        source (str, optional): Column of ``edges`` with the source node.
        target (str, optional): Column of ``edges`` with the target node.
        weight (str, optional): Column of ``edges`` with the edge weight; ``"none"`` for no weights.
        graph (str, optional): Column of ``nodes`` with the graph a node belongs to; also of
            ``edges`` if node ids are unique within a graph only.
        directed (bool, optional): Whether the graph is directed. ``True`` uses edges as listed;
            with ``False``, an edge listed in one direction stands for both. By default edges are
            used as listed, and the graph is undirected if all edges are listed in both directions.
        delimiter (str, optional): Delimiter of text tables. By default a comma, or a tab in
            ``.tsv``.
        degree (bool, optional): Adds the in-degree as a feature. By default only to train on
            files with few features.
        standardize (bool, optional): Scales numeric columns to mean 0 and standard deviation 1
            over the training nodes. Zeros stay zeros in columns of many zeros, and columns of 0
            and 1 stay as they are. By default only to train on files.
        allow_unseen (bool, optional): Accepts splits with classes in validation or test that do
            not occur in training.
    """

    id: str | None = None
    label: tuple[str, ...] = ()
    task: str = "classification"
    split_column: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    graph: str | None = None
    directed: bool | None = None
    delimiter: str | None = None
    degree: bool | None = None
    standardize: bool | None = None
    allow_unseen: bool = False

    def __post_init__(self) -> None:
        check_choice("task", self.task, TASKS)
        for name in SEVERAL:
            value = getattr(self, name)
            names = (value,) if isinstance(value, str) else tuple(value)
            object.__setattr__(self, name, names)
            if len(set(names)) < len(names):
                raise ArgumentError(f"'{name}' must name each column once (got {list(names)})")
        if self.delimiter == "\\t":  # as typed in a shell
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and len(self.delimiter.encode()) != 1:
            raise ArgumentError(
                f"'delimiter' must be one character (got {self.delimiter!r}); ',' ';' and '\\t' "
                "are the usual ones"
            )
        for name in ("features", "categorical"):
            both = sorted(set(getattr(self, name)) & set(self.ignore))
            if both:
                raise ArgumentError(
                    f"'{name}' and 'ignore' must not share a column (got {both} in both); remove "
                    "it from one of them"
                )

    def given(self) -> tuple[str, ...]:
        """Returns the names of the options that differ from their defaults."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) != f.default)


@dataclass(frozen=True)
class Column:
    """A column of a table and the features it is encoded as.

    Args:
        name (str): Name of the column.
        kind (str): ``"number"``, ``"bool"`` (0 or 1), ``"category"`` (one-hot), ``"constant"``
            (always 1) or ``"degree"``; the last two do not come from a table.
        categories (tuple of str, optional): Categories in the order of their features.
        missing (bool, optional): Whether an additional feature marks missing values.
        fill (float, optional): Replaces missing numbers: the mean of the training rows, or 0 if
            they have none.
        mean (float, optional): Subtracted from numbers.
        deviation (float, optional): Numbers are divided by it. If it is 0, the training rows do
            not have two different values, and all numbers become 0.
        symbol (str, optional): Currency or percent sign that every number of a text table has.
    """

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    missing: bool = False
    fill: float = 0.0
    mean: float = 0.0
    deviation: float = 1.0
    symbol: str = ""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features of this column."""
        own: tuple[str, ...] = (self.name,)
        if self.kind == "category":
            own = tuple(f"{self.name}={category}" for category in self.categories)
        return (*own, f"{self.name}_missing") if self.missing else own

    def standardized(self, values: npt.NDArray[Any], train: npt.NDArray[Any]) -> Column:
        """Returns the column with the mean and standard deviation over the training rows.

        Zeros stay zeros in a column of many zeros, such as the counts of a word; its other numbers
        are divided by their root mean square. Numbers that are all 0 or 1 stay as they are. If the
        training rows have a single number, the deviation is 0, unless all rows have 0 or 1: the
        weight of a flag is also trained by the neighbours of the training nodes.

        Args:
            values (numpy.ndarray): The numbers of all rows, none of which is missing.
            train (numpy.ndarray): Mask of the training rows.
        """
        seen = values[train]
        one_number = bool((seen == seen[0]).all())
        checked = values if one_number else seen
        if self.kind == "number" and bool(((checked == 0) | (checked == 1)).all()):
            return self
        others = seen[seen != 0].astype("float64")
        if self.kind == "number" and 0 < 2 * len(others) < len(seen):
            return replace(self, deviation=float((others**2).mean() ** 0.5))
        deviation = float(seen.std(dtype="float64"))
        # Treat a spread of rounding errors as none: dividing by it would magnify them.
        if deviation <= ROUNDING * float(abs(seen).max(initial=0.0)):
            deviation = 0.0
        return replace(self, mean=float(seen.mean(dtype="float64")), deviation=deviation)


@dataclass(frozen=True)
class Schema:
    """Describes how the training file was read, to read further files in the same way.

    Args:
        level (str): ``"node"`` or ``"graph"``: what is classified.
        classes (tuple of str): Names of the classes, of the labels if ``multilabel``, or of the
            numbers to predict.
        multilabel (bool): Whether a row may have several labels.
        columns (tuple of Column): Columns in the order of their features.
        weighted (bool): Whether edges have weights.
        options (TableOptions): The options, with the names of the columns that were found.
        undirected (bool, optional): Whether every edge had its reverse, with the same weight.
            (default: :obj:`False`)
    """

    level: str
    classes: tuple[str, ...]
    multilabel: bool
    columns: tuple[Column, ...]
    weighted: bool
    options: TableOptions
    undirected: bool = False
    version: int = VERSION

    @property
    def regression(self) -> bool:
        """Whether numbers are predicted."""
        return self.options.task == "regression"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of ``x``."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def table_columns(self) -> dict[str, str]:
        """Names and kinds of the columns that a table of nodes must have."""
        return {column.name: column.kind for column in self.columns if column.kind in TABLE_KINDS}

    def warnings(self, directed: bool) -> tuple[str, ...]:
        """Returns how a graph differs from the training in a way that is probably not meant.

        Args:
            directed (bool): Whether some edge of the graph has no reverse edge.
        """
        if not (directed and self.undirected):
            return ()
        weight = " with the same weight" if self.weighted else ""
        return (
            "the training graph was undirected, but not every edge of this one has its "
            f"reverse{weight}; list each edge in both directions, or train with --directed false "
            "(in Python tables=TableOptions(directed=False))",
        )

    def options_for(self, options: TableOptions) -> TableOptions:
        """Returns the training options, with the delimiter of ``options`` if it has one."""
        given = [name for name in options.given() if name != "delimiter"]
        if given:
            raise ArgumentError(
                f"'options' may only give the delimiter if there is a schema (got {given}); name "
                "the columns as in training"
            )
        return replace(self.options, delimiter=options.delimiter or self.options.delimiter)

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary that can be stored as JSON."""
        plain = asdict(self)
        defaults = {f.name: f.default for f in fields(Column)}
        # Leave out defaults: a wide matrix has thousands of columns.
        plain["columns"] = [
            {key: value for key, value in column.items() if value != defaults[key]}
            for column in plain["columns"]
        ]
        return dict(_lists(plain))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """Creates a schema from the output of :meth:`to_dict`."""
        if isinstance(plain, Mapping) and plain.get("version") != VERSION:
            raise DataError(
                f"schema: version {VERSION} is needed (got {plain.get('version')!r}); train again, "
                "or use the version of the library that wrote it"
            )
        try:
            schema = from_dict(cls, plain, "schema")
        except ArgumentError as error:
            raise DataError(f"{error}; use the output of Schema.to_dict") from error
        for column in schema.columns:
            if column.kind not in KINDS:
                raise DataError(
                    f"schema: the kind of a column must be one of {list(KINDS)} (got "
                    f"{column.kind!r}); it was written by another version of the library"
                )
        return schema


def _lists(value: Any) -> Any:
    """Replaces tuples by lists, at every depth."""
    if isinstance(value, dict):
        return {key: _lists(inner) for key, inner in value.items()}
    return [_lists(inner) for inner in value] if isinstance(value, (list, tuple)) else value
