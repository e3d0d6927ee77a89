"""Graphs given as arrays, from an ``.npz`` file or from PyG objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from mgnni.data.split import Split
from mgnni.data.tables.array_graph import ArrayGraph, Arrays
from mgnni.data.tables.graph_file import (
    Floats,
    GraphFile,
    Integers,
    directed_edges,
    make_graphs,
)
from mgnni.data.tables.labels import (
    array_labels,
    array_targets,
    check_split,
    seen_rows,
    training_nodes,
)
from mgnni.data.tables.messages import counted, listed
from mgnni.data.tables.scaling import notes_on_scale, scaled
from mgnni.data.tables.schema import Column, Schema, TableOptions
from mgnni.data.targets import is_labeled
from mgnni.errors import ArgumentError, DataError

OPTIONS = ("task", "directed", "degree", "standardize", "allow_unseen")


def from_arrays(
    where: str,
    name: str,
    arrays: Sequence[Arrays],
    options: TableOptions,
    schema: Schema | None,
    *,
    several: bool,
) -> GraphFile:
    """Creates a graph file from arrays.

    Args:
        where (str): The file, for messages.
        name (str): Name of the result.
        arrays (list of dict): The arrays of each graph.
        options (TableOptions): The options; those that name columns have no meaning here.
        schema (Schema, optional): The schema of the training file, to read another file.
        several (bool): Whether the input is a list of graphs, even if it has one element.
    """
    wrong = [given for given in options.given() if given not in OPTIONS]
    if wrong and schema is None:
        raise ArgumentError(
            f"of the options for tables, only {_options(OPTIONS)} apply to .npz files, .pt files "
            f"and PyG objects (got {_options(wrong)}); the others name columns, so leave them out, "
            "and rename the arrays instead: x, y, edge_index, edge_weight, train_mask ..."
        )
    if not arrays:
        raise DataError(f"{where}: must hold a graph (got an empty list); add one")
    graphs = [
        ArrayGraph(f"{where}, graph {index} (from 0)" if several else where, own)
        for index, own in enumerate(arrays)
    ]
    sizes = [graph.num_nodes for graph in graphs]
    level = _level(where, graphs, sizes, schema, several)
    edges, weight, directed, notes = _edges(where, graphs, sizes, options, schema)
    splits = () if several or schema is not None else graphs[0].splits()
    labels, classes, label_notes = _labels(
        where, graphs, sizes, level, options.task, schema, splits
    )
    for number, split in enumerate(splits):
        if labels is not None:
            place = f"{where}, split {number} (from 0)"
            unseen = options.allow_unseen or options.task == "regression"
            check_split(place, split, labels, classes, unseen)
    degree = np.bincount(edges[1], minlength=sum(sizes)).astype(np.float32)[:, None]
    x, columns, feature_notes = _features(where, graphs, degree, options, schema, splits)
    if columns[0].kind == "constant" and schema is None:
        notes.append("no features: using the constant 1; --degree uses the degree instead")
    if schema is None:
        multilabel = labels is not None and labels.dim() == 2 and options.task == "classification"
        undirected = not directed and edges.size > 0
        schema = Schema(
            level, classes, multilabel, columns, weight is not None, options, undirected
        )
    owner = np.repeat(np.arange(len(graphs)), sizes) if several else None
    return GraphFile(
        name=name,
        graphs=make_graphs(x, edges, weight, owner, len(graphs)),
        labels=labels,
        ids=range(sum(sizes) if level == "node" else len(graphs)),
        level=level,
        splits=splits,
        classes=schema.classes,
        directed=directed,
        schema=schema,
        notes=(*notes, *label_notes, *feature_notes),
        warnings=schema.warnings(directed),
    )


def _level(
    where: str,
    graphs: Sequence[ArrayGraph],
    sizes: Sequence[int],
    schema: Schema | None,
    several: bool,
) -> str:
    """Returns ``"node"`` or ``"graph"``, according to the number of labels."""
    if schema is not None:
        if schema.level == "graph" and not several:
            raise DataError(
                f"{where}: the model classifies graphs (got a single graph, not in a list); pass a "
                "list of graphs"
            )
        return schema.level
    if not several:
        return "node"
    counts = [len(np.atleast_1d(graph.arrays.get("y", np.zeros(1)))) for graph in graphs]
    if all(count == 1 for count in counts):
        return "graph"
    if counts == list(sizes):
        return "node"
    odd = next((i for i, count in enumerate(counts) if count not in (1, sizes[i])), None)
    if odd is None:  # some graphs have one label, others one per node
        odd = next(i for i, count in enumerate(counts) if count != sizes[i])
    raise DataError(
        f"{graphs[odd].where}: y must have one label for the graph or one per node (got "
        f"{counts[odd]} for {counted(sizes[odd], 'node')}); use the same form in all graphs"
    )


def _edges(
    where: str,
    graphs: Sequence[ArrayGraph],
    sizes: Sequence[int],
    options: TableOptions,
    schema: Schema | None,
) -> tuple[Integers, Floats | None, bool, list[str]]:
    """Returns edges, weights, whether they are directed, and notes."""
    own = [graph.edge_index() for graph in graphs]
    start = np.cumsum([0, *sizes[:-1]])
    edges = np.concatenate([e + first for e, first in zip(own, start, strict=True)], axis=1)
    weight = None
    if any(graph.weighted for graph in graphs) if schema is None else schema.weighted:
        others = "other graphs have" if schema is None else "in training"
        weights = [g.edge_weight(e.shape[1], others) for g, e in zip(graphs, own, strict=True)]
        weight = np.concatenate(weights)
    edges, weight, directed, notes = directed_edges(
        edges,
        weight,
        sum(sizes),
        options.directed,
        where,
        lambda node: node,
        trained=schema is not None,
    )
    notes = [f"{counted(sum(sizes), 'node')}, {counted(edges.shape[1], 'edge')}", *notes]
    if any("edge_attr" in graph.arrays for graph in graphs):
        notes.append(
            "edge_attr is not used: models read one number per edge, its weight, from edge_weight"
        )
    return edges, weight, directed, notes


def _labels(
    where: str,
    graphs: Sequence[ArrayGraph],
    sizes: Sequence[int],
    level: str,
    task: str,
    schema: Schema | None,
    splits: Sequence[Split],
) -> tuple[Tensor | None, tuple[str, ...], list[str]]:
    """Returns labels, which only prediction may lack, names of the classes, and notes."""
    lacking = [graph.where for graph in graphs if "y" not in graph.arrays]
    if lacking and schema is not None:
        return None, schema.classes, []
    if lacking:
        raise DataError(f"{lacking[0]}: must hold labels, as y or node_labels; add them")
    rows = sizes if level == "node" else [1] * len(graphs)
    parts = [graph.y(count) for graph, count in zip(graphs, rows, strict=True)]
    for graph, y in zip(graphs, parts, strict=True):
        if y.shape[1:] != parts[0].shape[1:] or (y.dtype.kind == "U") != (
            parts[0].dtype.kind == "U"
        ):
            raise DataError(
                f"{graph.where}: y must have the same form in all graphs (got {y.dtype} of shape "
                f"{y.shape} after {parts[0].dtype} of shape {parts[0].shape}); convert it"
            )
    known = None if schema is None else schema.classes
    y = np.concatenate(parts)
    if task == "regression":
        found = array_targets(where, y, known, seen_rows(splits, len(y)))
    else:
        found = array_labels(where, y, known)
    labels, classes, notes = found
    if schema is not None and not bool(is_labeled(labels).any()):
        return None, classes, notes
    return labels, classes, notes


def _features(
    where: str,
    graphs: Sequence[ArrayGraph],
    degree: Floats,
    options: TableOptions,
    schema: Schema | None,
    splits: Sequence[Split],
) -> tuple[Floats, tuple[Column, ...], list[str]]:
    """Returns the standardized features of all graphs, their columns, and notes."""
    x = _stacked_features(graphs)
    names = [f"x_{i}" for i in range(x.shape[1])]
    if schema is not None:
        columns = schema.columns
        trained = list(schema.table_columns)
        if trained != names:
            raise DataError(
                f"{where}: features must be those of training, {counted(len(trained), 'column')} "
                f"(got {len(names)}: x_0, x_1 and so on); in training they were {listed(trained)}"
            )
    else:
        columns = tuple(Column(name, "number") for name in names)
        if options.degree:
            columns = (*columns, Column("degree", "degree"))
        columns = columns or (Column("constant", "constant"),)
    more = {"degree": degree, "constant": np.ones_like(degree)}
    x = np.concatenate([x, *(more[c.kind] for c in columns if c.kind in more)], axis=1)
    train = training_nodes(splits, None, len(x)) if schema is None else np.zeros(len(x), dtype=bool)
    if schema is None and options.standardize:
        columns = tuple(
            column if column.kind == "constant" else column.standardized(x[:, i], train)
            for i, column in enumerate(columns)
        )
    notes = []
    if options.standardize:
        numbers = [(c, x[~train, i]) for i, c in enumerate(columns) if c.kind != "constant"]
        notes = notes_on_scale(numbers)
    for i, column in enumerate(columns):
        if column.mean or column.deviation != 1:
            x[:, i] = scaled(column, x[:, i])
    return x, columns, notes


def _options(names: Sequence[str]) -> str:
    return ", ".join(f"--{name.replace('_', '-')}" for name in names)


def _stacked_features(graphs: Sequence[ArrayGraph]) -> Floats:
    parts = [graph.x() for graph in graphs]
    width = parts[0].shape[1]
    for graph, part in zip(graphs, parts, strict=True):
        if part.shape[1] != width:
            raise DataError(
                f"{graph.where}: features must have the same number of columns in all graphs (got "
                f"shape {part.shape} after {width} columns); convert them"
            )
    return np.concatenate(parts)
