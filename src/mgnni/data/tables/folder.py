"""A folder with tables of nodes and edges, and of graphs if those are to be classified."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mgnni.data.tables.assemble import graphs_of
from mgnni.data.tables.classes import check_split, known_rows, training_nodes
from mgnni.data.tables.direction import Floats, directed_edges
from mgnni.data.tables.edges import edge_columns, read_edges
from mgnni.data.tables.features import encode, fit_columns, in_table, parse_columns, standardized
from mgnni.data.tables.graphfile import GraphFile
from mgnni.data.tables.ids import restored
from mgnni.data.tables.labels import read_labels
from mgnni.data.tables.options import TableOptions
from mgnni.data.tables.roles import graph_roles, node_roles
from mgnni.data.tables.rows import Rows, graph_of_nodes, read_rows
from mgnni.data.tables.schema import Column, Schema
from mgnni.data.tables.splits import read_splits
from mgnni.data.tables.table import SUFFIXES, open_table
from mgnni.data.tables.values import Doubles
from mgnni.data.tables.wording import counted, listed
from mgnni.errors import DataError


def read_folder(folder: Path, options: TableOptions, schema: Schema | None) -> GraphFile:
    """Read the tables of a folder.

    Args:
        folder: holds ``nodes`` and ``edges``, and ``graphs`` for graph classification, each with
            one of the suffixes of tables.
        options: what the person says about them; those of the schema, if there is one.
        schema: how the file of training was read, to read another one for prediction.
    """
    files = {role: _file(folder, role) for role in ("nodes", "edges", "graphs")}
    level = "node" if files["graphs"] is None else "graph"
    if schema is not None and schema.level != level:
        raise DataError(
            f"{folder}: {schema.level}s are to be classified, as in training; "
            f"{'remove' if level == 'graph' else 'add'} graphs.csv"
        )
    tables = {r: open_table(path, options.delimiter) for r, path in files.items() if path}
    nodes = read_rows(tables["nodes"], node_roles(tables["nodes"], options, schema, level))
    graphs = graph = None
    if level == "graph":
        graphs = read_rows(tables["graphs"], graph_roles(tables["graphs"], options, schema))
        graph = graph_of_nodes(nodes, graphs)
    units = nodes if graphs is None else graphs

    columns = edge_columns(tables["edges"], options, level, schema.weighted if schema else None)
    edges, weight = read_edges(tables["edges"], columns, nodes, graphs, graph)
    edges, weight, directed, edge_notes = directed_edges(
        edges,
        weight,
        len(nodes.ids),
        options.directed,
        str(tables["edges"].path),
        lambda node: nodes.ids[node].as_py(),
    )
    notes = [*nodes.roles.notes, *([] if graphs is None else graphs.roles.notes)]
    unused = [name for name in tables["edges"].names if name not in columns.names]
    if unused:
        notes.append(f"columns of edges that are not used: {listed(unused)}")
    notes += [f"{counted(len(nodes.ids), 'node')}, {counted(edges.shape[1], 'edge')}", *edge_notes]

    labels, classes = None, schema.classes if schema else ()
    if units.roles.label:
        labels, classes, label_notes = read_labels(
            units.table, units.roles.label, units.cells, classes if schema else None
        )
        notes += label_notes
    if schema and labels is not None and not bool(known_rows(labels).any()):
        labels = None  # a column of empty cells is as good as none
    splits = []
    for where, split in read_splits(units.table, units.roles.split, units.cells):
        if labels is not None:
            check_split(where, split, labels, classes, options.allow_unseen)
        splits.append(split)

    train = training_nodes(splits, graph, len(nodes.ids))
    degree = np.bincount(edges[1], minlength=len(nodes.ids)).astype(np.float64)
    x, fitted, feature_notes = _features(nodes, options, schema, degree, train)
    if schema is None:
        resolved = replace(
            options,
            id=nodes.roles.id,
            label=units.roles.label,
            split_column=units.roles.split,
            graph=nodes.roles.graph,
            source=columns.source,
            target=columns.target,
            weight=columns.weight,
        )
        several = len(units.roles.label) > 1
        schema = Schema(level, tuple(classes), several, fitted, weight is not None, resolved)
    return GraphFile(
        name=folder.resolve().name,
        graphs=graphs_of(x, edges, weight, graph, len(units.ids)),
        labels=labels,
        ids=restored(units.ids),
        level=level,
        splits=tuple(splits),
        classes=schema.classes,
        directed=directed,
        schema=schema,
        notes=tuple([*notes, *feature_notes]),
    )


def _file(folder: Path, role: str) -> Path | None:
    """Return the one file of this role; only graphs may be missing."""
    there = [
        folder / f"{role}{suffix}" for suffix in SUFFIXES if (folder / f"{role}{suffix}").exists()
    ]
    if len(there) > 1:
        raise DataError(
            f"{folder}: there must be one table of {role} (got {listed(p.name for p in there)}); "
            "move the others away"
        )
    if there or role == "graphs":
        return there[0] if there else None
    others = sorted(path.name for path in folder.iterdir())
    raise DataError(
        f"{folder}: there must be a table of {role}, {role}.csv, .tsv or .parquet (got "
        f"{listed(others) if others else 'an empty folder'}); add it"
    )


def _features(
    nodes: Rows,
    options: TableOptions,
    schema: Schema | None,
    degree: Doubles,
    train: npt.NDArray[np.bool_],
) -> tuple[Floats, tuple[Column, ...], list[str]]:
    notes: list[str] = []
    kinds: dict[str, str | None]
    if schema is None:
        kinds = {n: "category" if n in options.categorical else None for n in nodes.roles.features}
    else:
        kinds = dict(in_table(schema.columns))
    found, values = parse_columns(nodes.table, nodes.cells, kinds)
    if schema is not None:
        columns = schema.columns
    else:
        columns, notes = fit_columns(nodes.table, found, values)
        if options.degree:
            columns = (*columns, Column("degree", "degree"))
        if not columns:
            columns = (Column("constant", "constant"),)
            notes.append("no features: the constant 1 instead; --degree gives the degree")
        if options.standardize:
            columns = standardized(columns, values, degree, train)
    x, encoded_notes = encode(columns, values, degree)
    return x, columns, [*notes, *encoded_notes]
