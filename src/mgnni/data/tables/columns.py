"""Which column of a table is the id, label, split, graph, feature, source, target or weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mgnni.data.tables.column_names import (
    GRAPH_NAMES,
    ID_NAMES,
    LABEL_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    WEIGHT_NAMES,
)
from mgnni.data.tables.label_columns import default_split_columns, label_columns, split_columns
from mgnni.data.tables.messages import flag, listed, show
from mgnni.data.tables.schema import Schema, TableOptions
from mgnni.data.tables.table import Cells, Table
from mgnni.errors import DataError

Names = tuple[str, ...]
NO_WEIGHT = "none"


@dataclass(frozen=True)
class Roles:
    """The columns of a table of nodes or graphs."""

    id: str
    label: Names = ()
    split: Names = ()
    graph: str | None = None
    features: Names = ()
    notes: Names = ()

    @property
    def names(self) -> Names:
        """All columns that are used, without duplicates."""
        graph = () if self.graph is None else (self.graph,)
        return tuple(dict.fromkeys((self.id, *self.label, *self.split, *graph, *self.features)))


@dataclass(frozen=True)
class EdgeRoles:
    """The columns of a table of edges."""

    source: str
    target: str
    weight: str | None
    graph: str | None

    @property
    def names(self) -> Names:
        """All columns that are used."""
        every = (self.source, self.target, self.weight, self.graph)
        return tuple(name for name in every if name is not None)


@dataclass(frozen=True, eq=False)
class Rows:
    """The cells of a table of nodes or graphs, and the roles of its columns."""

    table: Table
    roles: Roles
    cells: Mapping[str, Cells]

    @classmethod
    def read(cls, table: Table, roles: Roles) -> Rows:
        """Reads the columns that have a role."""
        rows = cls(table, roles, table.read(roles.names))
        if not len(rows.ids):
            raise DataError(f"{table.path}: must have rows (got a header only); add them")
        return rows

    @property
    def ids(self) -> Cells:
        """The id of each row."""
        return self.cells[self.roles.id]


def graph_roles(table: Table, options: TableOptions, schema: Schema | None) -> Roles:
    """Finds the columns of the table of graphs; the remaining columns are not used."""
    given = options.graph if options.graph in table.names else None
    label, split = _label_and_split(table, options, schema)
    name, notes = _id_column(table, given, (*GRAPH_NAMES, *ID_NAMES), (*label, *split))
    unused = [other for other in table.names if other not in (name, *label, *split)]
    if unused:
        notes.append(f"columns of graphs that are not used: {listed(unused)}")
    return Roles(name, label, split, notes=tuple(notes))


def node_roles(table: Table, options: TableOptions, schema: Schema | None, level: str) -> Roles:
    """Finds the columns of the table of nodes; the remaining columns are features."""
    label: Names = ()
    split: Names = ()
    graph = table.find(options.graph, GRAPH_NAMES, "graph")
    if level == "graph" and graph is None:
        raise DataError(
            f"{table.path}: there must be a column with the graph of each node, by default one of "
            f"{listed(GRAPH_NAMES)} (got {listed(table.names)}); "
            f"{table.advice('name it with --graph', 'rename it')}"
        )
    if level == "node":
        other_use = (*options.ignore, *options.features, *options.label)
        if schema is None and graph not in (None, *other_use):
            raise DataError(
                f"{table.path}: column {show(graph)} needs a table of graphs (got no graphs.csv); "
                f"add it to classify graphs, or pass {flag('ignore', str(graph))} to classify nodes"
            )
        graph = None
        label, split = _label_and_split(table, options, schema, options.ignore)
    taken = (*label, *split, *(() if graph is None else (graph,)))
    name, notes = _id_column(table, options.id, ID_NAMES, taken)
    if schema is not None:
        features, feature_notes = _trained_features(table, schema, (name, *taken))
    else:
        features, feature_notes = _features(table, options, (name, *taken))
    return Roles(name, label, split, graph, features, (*notes, *feature_notes))


def edge_roles(table: Table, options: TableOptions, level: str, weighted: bool | None) -> EdgeRoles:
    """Finds the columns of the table of edges.

    Args:
        table (Table): The edges.
        options (TableOptions): The names that are given.
        level (str): ``"node"`` or ``"graph"``; only the latter uses the graph of an edge.
        weighted (bool, optional): Whether weights are required; None uses them if they exist.
    """
    ends = []
    for option, given, candidates in (
        ("source", options.source, SOURCE_NAMES),
        ("target", options.target, TARGET_NAMES),
    ):
        name = table.find(given, candidates, option)
        if name is None:
            raise DataError(
                f"{table.path}: there must be a column with the {option} of each edge, by default "
                f"one of {listed(candidates)} (got {listed(table.names)}); "
                f"{table.advice(f'name it with --{option}', 'rename it')}"
                f"{table.likely(option, candidates)}"
            )
        ends.append(name)
    weight = graph = None
    if weighted is not False and (options.weight or "").lower() != NO_WEIGHT:
        weight = table.find(options.weight, WEIGHT_NAMES, "weight")
        if weighted and weight is None:
            raise DataError(
                f"{table.path}: there must be a column of weights, as in training (got "
                f"{listed(table.names)}); add it under the same name"
            )
    if level == "graph":
        given = options.graph if options.graph in table.names else None
        graph = table.find(given, GRAPH_NAMES, "graph")
    every = [*ends, weight, graph]
    twice = [name for name in dict.fromkeys(every) if name is not None and every.count(name) > 1]
    if twice:
        raise DataError(
            f"{table.path}: source, target, weight and graph must be different columns (got "
            f"{listed(twice)} twice); "
            f"{table.advice('name each with its option, for example --target', 'rename one')}"
        )
    return EdgeRoles(ends[0], ends[1], weight, graph)


def _trained_features(table: Table, schema: Schema, taken: Names) -> tuple[Names, list[str]]:
    """Returns the features of training, all of which must exist."""
    features, there = tuple(schema.table_columns), set(table.names)
    lacking = [feature for feature in features if feature not in there]
    if lacking:
        raise DataError(
            f"{table.path}: must have the features of training (missing: {listed(lacking)}); add "
            "these columns, or train without them"
        )
    known = {*taken, *features, *schema.options.split_column, *schema.options.ignore}
    extra = [name for name in table.names if name not in known]
    return features, [f"columns not in training, not used: {listed(extra)}"] if extra else []


def _features(table: Table, options: TableOptions, taken: Names) -> tuple[Names, list[str]]:
    for name in options.ignore:
        table.column(name, "ignore")
    features = tuple(table.column(name, "features") for name in options.features)
    if not options.features:
        out = {*taken, *options.ignore}
        features = tuple(name for name in table.names if name not in out)
    both = [name for name in features if name in taken]
    if both:
        raise DataError(
            f"{table.path}: a feature must not also be the id, label, split or graph (got "
            f"{listed(both)}); remove it from --features"
        )
    for name in options.categorical:
        if table.column(name, "categorical") not in features:
            raise DataError(
                f"{table.path}: a categorical column must be a feature (got {show(name)}, which "
                "is not); remove it from --categorical"
            )
    split_names = [name for names in default_split_columns(table) for name in names]
    odd = [name for name in (*table.find_all(LABEL_NAMES), *split_names) if name in features]
    return features, [f"{table.path.name}: {listed(odd)} used as features"] if odd else []


def _label_and_split(
    table: Table, options: TableOptions, schema: Schema | None, ignored: Names = ()
) -> tuple[Names, Names]:
    if schema is not None:
        # For prediction, labels are optional and splits have no meaning.
        names = schema.options.label or tuple(table.find_all(LABEL_NAMES)[:1])
        return (names if all(name in table.names for name in names) else ()), ()
    split = split_columns(table, options.split_column, ignored)
    label = label_columns(table, options.label, ignored)
    both = [name for name in label if name in split]
    if both:
        raise DataError(
            f"{table.path}: a column must not be label and split (got {listed(both)}); name "
            "another with --label or --split-column"
        )
    return label, split


def _id_column(
    table: Table, given: str | None, candidates: Names, taken: Names
) -> tuple[str, list[str]]:
    if given is not None and table.column(given, "id") in taken:
        raise DataError(
            f"{table.path}: ids must have their own column (got {show(given)}, which is used for "
            f"something else); {table.advice('name another with --id', 'rename one of them')}"
        )
    names = [given] if given else [n for n in table.find_all(candidates) if n not in taken]
    if names:
        return names[0], [f"{table.path.name}: ids are in column {show(names[0])}"]
    rest = [other for other in table.names if other not in taken]
    if not rest:
        raise DataError(
            f"{table.path}: there must be a column of ids (got {listed(table.names)}, which are "
            "used for something else); add one"
        )
    why = "the first column, as none has a default name of ids"
    return rest[0], [f"{table.path.name}: ids are in column {show(rest[0])}, {why}"]
