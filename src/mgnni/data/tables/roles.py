"""Which column of the nodes, or of the graphs, is id, label, split or feature."""

from __future__ import annotations

from dataclasses import dataclass

from mgnni.data.tables.features import in_table
from mgnni.data.tables.labels import label_columns
from mgnni.data.tables.options import GRAPH_NAMES, ID_NAMES, LABEL_NAMES, TableOptions
from mgnni.data.tables.schema import Schema
from mgnni.data.tables.splits import called_split, split_columns
from mgnni.data.tables.table import Table, all_found, found, known
from mgnni.data.tables.wording import listed, show
from mgnni.errors import DataError


@dataclass(frozen=True)
class Roles:
    """Columns of one table; a role that no column has is empty."""

    id: str
    label: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    graph: str | None = None
    features: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are used, each once."""
        graph = () if self.graph is None else (self.graph,)
        every = (self.id, *self.label, *self.split, *graph, *self.features)
        return tuple(dict.fromkeys(every))


def graph_roles(table: Table, options: TableOptions, schema: Schema | None) -> Roles:
    """Find the columns of the table of graphs; what is left over is not used."""
    given = options.graph if options.graph in table.names else None
    label, split = _label_and_split(table, options, schema)
    name, notes = _id(table, given, (*GRAPH_NAMES, *ID_NAMES), (*label, *split))
    unused = [other for other in table.names if other not in (name, *label, *split)]
    if unused:
        notes.append(f"columns of graphs that are not used: {listed(unused)}")
    return Roles(name, label, split, notes=tuple(notes))


def node_roles(table: Table, options: TableOptions, schema: Schema | None, level: str) -> Roles:
    """Find the columns of the table of nodes; what is nothing else is a feature."""
    label: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    graph = None
    if level == "graph":
        graph = found(table, options.graph, GRAPH_NAMES, "graph")
        if graph is None:
            raise DataError(
                f"{table.path}: a column must say to which graph a node belongs, by default one of "
                f"{listed(GRAPH_NAMES)} (got {listed(table.names)}); name it with --graph"
            )
    else:
        _check_one_graph(table, options, schema)
        label, split = _label_and_split(table, options, schema)
    taken = (*label, *split, *(() if graph is None else (graph,)))
    name, notes = _id(table, options.id, ID_NAMES, taken)
    taken = (name, *taken)
    if schema is not None:
        features = tuple(in_table(schema.columns))
        lacking = [feature for feature in features if feature not in table.names]
        if lacking:
            raise DataError(
                f"{table.path}: the features of training must be there (missing: "
                f"{listed(lacking)}); add these columns, or train without them"
            )
        known_names = {*taken, *features, *schema.options.split_column, *schema.options.ignore}
        extra = [other for other in table.names if other not in known_names]
        if extra:
            notes.append(f"columns that training did not have, not used: {listed(extra)}")
    else:
        features = _features(table, options, taken)
        called = [
            *all_found(table, LABEL_NAMES),
            *(n for kind in called_split(table) for n in kind),
        ]
        odd = [feature for feature in called if feature in features]
        if odd:
            notes.append(f"{table.path.name}: {listed(odd)} taken as features, despite the name")
    return Roles(name, label, split, graph, features, tuple(notes))


def _features(table: Table, options: TableOptions, taken: tuple[str, ...]) -> tuple[str, ...]:
    for name in options.ignore:
        known(table, name, "ignore")
    features = tuple(known(table, name, "features") for name in options.features)
    if not options.features:
        out = {*taken, *options.ignore}
        features = tuple(name for name in table.names if name not in out)
    both = [name for name in features if name in taken]
    if both:
        raise DataError(
            f"{table.path}: a feature must not be id, label, split or graph too (got "
            f"{listed(both)}); take it out of --features"
        )
    for name in options.categorical:
        if known(table, name, "categorical") not in features:
            raise DataError(
                f"{table.path}: a categorical column must be a feature (got {show(name)}, which "
                "is not); take it out of --categorical"
            )
    return features


def _label_and_split(
    table: Table, options: TableOptions, schema: Schema | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if schema is not None:
        # For prediction labels are optional, all of them or none, and splits mean nothing.
        names = schema.options.label or tuple(all_found(table, LABEL_NAMES)[:1])
        return (names if all(name in table.names for name in names) else ()), ()
    split = split_columns(table, options.split_column)
    label = label_columns(table, options.label)
    both = [name for name in label if name in split]
    if both:
        raise DataError(
            f"{table.path}: a column must not be label and split (got {listed(both)}); name "
            "another with --label or --split-column"
        )
    return label, split


def _id(
    table: Table, given: str | None, candidates: tuple[str, ...], taken: tuple[str, ...]
) -> tuple[str, list[str]]:
    if given is not None and known(table, given, "id") in taken:
        raise DataError(
            f"{table.path}: ids must have a column of their own (got {show(given)}, which is "
            "something else too); name another with --id"
        )
    names = [given] if given else [n for n in all_found(table, candidates) if n not in taken]
    if names:
        return names[0], [f"{table.path.name}: ids are in column {show(names[0])}"]
    rest = [other for other in table.names if other not in taken]
    if not rest:
        raise DataError(
            f"{table.path}: a column must hold ids (got {listed(table.names)}, which are something "
            "else); add one"
        )
    why = "the first, as none is called like an id"
    return rest[0], [f"{table.path.name}: ids are in column {show(rest[0])}, {why}"]


def _check_one_graph(table: Table, options: TableOptions, schema: Schema | None) -> None:
    """Nodes that say which graph they are of, and no table of graphs: one of the two is wrong."""
    named = found(table, options.graph, GRAPH_NAMES, "graph")
    excused = {*options.ignore, *options.features, *options.label}
    if named is not None and schema is None and named not in excused:
        raise DataError(
            f"{table.path}: column {show(named)} needs a table of graphs beside it (got no "
            f"graphs.csv); add it to classify graphs, or pass --ignore {named} to classify nodes"
        )
