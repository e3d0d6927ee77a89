"""A folder with tables of nodes and edges, and of graphs for graph classification."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import Tensor

from mgnni.data.split import Split
from mgnni.data.tables.columns import Rows, edge_roles, graph_roles, node_roles
from mgnni.data.tables.csv_table import CsvTable
from mgnni.data.tables.edges import graph_of_nodes, read_edges, restore_integers
from mgnni.data.tables.features import read_features
from mgnni.data.tables.graph_file import GraphFile, directed_edges, make_graphs
from mgnni.data.tables.label_columns import read_labels, read_splits, read_targets
from mgnni.data.tables.labels import check_split, seen_rows, training_nodes
from mgnni.data.tables.messages import counted, listed, show
from mgnni.data.tables.schema import Schema, TableOptions
from mgnni.data.tables.table import ParquetTable, Table
from mgnni.data.targets import is_labeled
from mgnni.errors import DataError

DELIMITERS = {".csv": ",", ".tsv": "\t", ".csv.gz": ",", ".tsv.gz": "\t"}
SUFFIXES = (*DELIMITERS, ".parquet")


def read_folder(folder: Path, options: TableOptions, schema: Schema | None) -> GraphFile:
    """Reads the tables of a folder.

    Args:
        folder (Path): A folder with the tables ``nodes`` and ``edges``, and ``graphs`` for graph
            classification.
        options (TableOptions): The options; those of the schema, if there is one.
        schema (Schema, optional): The schema of the training file, to read another file.
    """
    tables = _open_tables(folder, options.delimiter)
    for table in tables.values():
        table.trained = schema is not None
    level = "graph" if "graphs" in tables else "node"
    if schema is not None and schema.level != level:
        raise DataError(
            f"{folder}: the model predicts {schema.level}s; "
            f"{'remove' if level == 'graph' else 'add'} graphs.csv"
        )
    nodes = Rows.read(tables["nodes"], node_roles(tables["nodes"], options, schema, level))
    graphs = graph = None
    if level == "graph":
        graphs = Rows.read(tables["graphs"], graph_roles(tables["graphs"], options, schema))
        graph = graph_of_nodes(nodes, graphs)
    units = nodes if graphs is None else graphs
    notes = [*nodes.roles.notes, *([] if graphs is None else graphs.roles.notes)]

    table = tables["edges"]
    roles = edge_roles(table, options, level, schema.weighted if schema else None)
    edges, weight = read_edges(table, roles, nodes, graphs, graph)
    edges, weight, directed, edge_notes = directed_edges(
        edges,
        weight,
        len(nodes.ids),
        options.directed,
        str(table.path),
        lambda node: nodes.ids[node].as_py(),
        trained=schema is not None,
    )
    unused = [name for name in table.names if name not in roles.names]
    if unused:
        none = table.advice("--weight names one", "the model was trained without")
        weight_of = none if roles.weight is None else f"here {show(roles.weight)}"
        notes.append(
            f"columns of edges that are not used: {listed(unused)}; models read one number per "
            f"edge, its weight ({weight_of})"
        )
    notes += [f"{counted(len(nodes.ids), 'node')}, {counted(edges.shape[1], 'edge')}", *edge_notes]

    labels, classes, splits, label_notes = _labels_and_splits(units, options, schema)
    x, columns, feature_notes = read_features(
        nodes.table,
        nodes.roles.features,
        nodes.cells,
        options,
        schema,
        np.bincount(edges[1], minlength=len(nodes.ids)).astype(np.float64),
        training_nodes(splits, graph, len(nodes.ids)),
    )
    if schema is None:
        found = replace(
            options,
            id=nodes.roles.id,
            label=units.roles.label,
            split_column=units.roles.split,
            graph=nodes.roles.graph,
            source=roles.source,
            target=roles.target,
            weight=roles.weight,
        )
        multilabel = len(units.roles.label) > 1 and options.task == "classification"
        undirected = not directed and edges.size > 0
        schema = Schema(level, classes, multilabel, columns, weight is not None, found, undirected)
    return GraphFile(
        name=folder.resolve().name,
        graphs=make_graphs(x, edges, weight, graph, len(units.ids)),
        labels=labels,
        ids=restore_integers(units.ids),
        level=level,
        splits=splits,
        classes=schema.classes,
        directed=directed,
        schema=schema,
        notes=(*notes, *label_notes, *feature_notes),
        warnings=schema.warnings(directed),
        node_ids=nodes.ids if graph is None else nodes.ids.take(np.argsort(graph, kind="stable")),
    )


def _open_tables(folder: Path, delimiter: str | None) -> dict[str, Table]:
    """Opens the tables by their roles; only ``graphs`` may be missing."""
    tables: dict[str, Table] = {}
    for role in ("nodes", "edges", "graphs"):
        paths = {suffix: folder / f"{role}{suffix}" for suffix in SUFFIXES}
        files = {suffix: path for suffix, path in paths.items() if path.exists()}
        if len(files) > 1:
            raise DataError(
                f"{folder}: there must be one table of {role} (got "
                f"{listed(path.name for path in files.values())}); remove the others"
            )
        if not files and role != "graphs":
            others = sorted(path.name for path in folder.iterdir())
            same = [name for name in others if Path(name).stem.lower() == role]
            raise DataError(
                f"{folder}: there must be a table of {role}, {role}.csv, .tsv or .parquet (got "
                f"{listed(others) if others else 'an empty folder'}); "
                f"{f'save {show(same[0])} as {role}.csv' if same else 'add it, or rename yours'}"
            )
        for suffix, path in files.items():
            if path.is_dir():
                raise DataError(f"{path}: must be a file (got a folder); put the table there")
            if suffix == ".parquet":
                tables[role] = ParquetTable(path)
            else:
                tables[role] = CsvTable(path, delimiter or DELIMITERS[suffix])
    return tables


def _labels_and_splits(
    units: Rows, options: TableOptions, schema: Schema | None
) -> tuple[Tensor | None, tuple[str, ...], tuple[Split, ...], list[str]]:
    """Returns labels, classes, checked splits and notes of the rows that are classified."""
    labels: Tensor | None = None
    classes: tuple[str, ...] = schema.classes if schema else ()
    notes: list[str] = []
    table, roles = units.table, units.roles
    read = read_splits(table, roles.split, units.cells)
    splits = tuple(split for _, split in read)
    if roles.label:
        known = classes if schema else None
        if options.task == "regression":
            labels, classes, notes = read_targets(
                table,
                roles.label,
                units.cells,
                training=schema is None,
                seen=seen_rows(splits, len(units.ids)),
            )
        else:
            labels, classes, notes = read_labels(table, roles.label, units.cells, known)
        if schema and not bool(is_labeled(labels).any()):
            labels = None  # a column of empty cells
    for where, split in read:
        if labels is not None:
            unseen = options.allow_unseen or options.task == "regression"
            check_split(where, split, labels, classes, unseen)
    return labels, classes, splits, notes
