"""Edges of a table: both ends looked up among the nodes, weights checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mgnni.data.tables.arrow import pc
from mgnni.data.tables.direction import Floats
from mgnni.data.tables.ids import Index, Integers, check_ids, missed
from mgnni.data.tables.options import (
    GRAPH_NAMES,
    SOURCE_NAMES,
    TARGET_NAMES,
    WEIGHT_NAMES,
    TableOptions,
)
from mgnni.data.tables.rows import Rows
from mgnni.data.tables.table import Table, delimiter_hint, found
from mgnni.data.tables.values import first, numbers
from mgnni.data.tables.wording import counted, listed, show
from mgnni.errors import DataError


@dataclass(frozen=True)
class EdgeColumns:
    """Which columns of the edges are what."""

    source: str
    target: str
    weight: str | None
    graph: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are used, each once."""
        every = (self.source, self.target, self.weight, self.graph)
        return tuple(dict.fromkeys(name for name in every if name is not None))


def edge_columns(
    table: Table, options: TableOptions, level: str, weighted: bool | None
) -> EdgeColumns:
    """Find the columns of the edges.

    Args:
        table: the edges.
        options: names that are given.
        level: ``"node"`` or ``"graph"``; the graph of an edge matters for the latter only.
        weighted: whether weights are wanted; None if they are taken when they are there.
    """
    source = _end(table, options.source, SOURCE_NAMES, "source")
    target = _end(table, options.target, TARGET_NAMES, "target")
    weight = None
    if weighted is not False:
        weight = found(table, options.weight, WEIGHT_NAMES, "weight")
        if weighted and weight is None:
            raise DataError(
                f"{table.path}: a column must hold the weights, as in training (got "
                f"{listed(table.names)}); add it, under the name it had then"
            )
    graph = None
    if level == "graph":
        given = options.graph if options.graph in table.names else None
        graph = found(table, given, GRAPH_NAMES, "graph")
    return EdgeColumns(source, target, weight, graph)


def read_edges(
    table: Table,
    columns: EdgeColumns,
    nodes: Rows,
    graphs: Rows | None,
    graph: Integers | None,
) -> tuple[Integers, Floats | None]:
    """Return sources and targets, shape ``(2, num_edges)``, and weights.

    Args:
        table: the edges.
        columns: which are which.
        nodes: the nodes.
        graphs: the graphs, if there are several.
        graph: the graph of each node then.
    """
    cells = table.read(columns.names)
    of_edge = None
    if graphs is not None and columns.graph is not None:
        of_edge = _graph_of_edges(table, columns.graph, cells[columns.graph], graphs)
    # If the edges name their graph, node ids need be unique within a graph only.
    within = None if of_edge is None else graph
    check_ids(nodes.table, nodes.roles.id, nodes.ids, within)
    index = Index(nodes.ids, within)
    ends = [
        _positions(table, name, cells[name], index, of_edge)
        for name in (columns.source, columns.target)
    ]
    edges = np.stack(ends)
    if graph is not None:
        _check_same_graph(table, edges, graph, nodes)
    return edges, _weights(table, columns.weight, cells)


def _graph_of_edges(table: Table, name: str, cells: Any, graphs: Rows) -> Integers:
    graph = Index(graphs.ids).find(cells)
    stray = np.flatnonzero(graph < 0)
    if stray.size:
        row = int(stray[0])
        raise DataError(
            f"{table.row(row)}: column {show(name)} must hold the id of a graph (got "
            f"{show(cells[row].as_py())}, which is not in {graphs.table.path.name}); add the "
            "graph, or remove the edge"
        )
    return graph


def _positions(
    table: Table, name: str, wanted: Any, index: Index, graph: Integers | None
) -> Integers:
    position = index.find(wanted, graph)
    wrong = np.flatnonzero(position < 0)
    if not wrong.size:
        return position
    row = int(wrong[0])
    value = wanted[row].as_py()
    if value is None:
        raise DataError(
            f"{table.row(row)}: column {show(name)} must hold the id of a node (got an empty "
            "cell); complete or remove the edge"
        )
    within = " of the edge's graph" if graph is not None else ""
    raise DataError(
        f"{table.row(row)}: column {show(name)} must hold the id of a node{within} (got "
        f"{show(value)}, which no node has; {counted(wrong.size, 'such edge')}); add the node, or "
        f"remove the edge{missed(value, index)}"
    )


def _check_same_graph(table: Table, edges: Integers, graph: Integers, nodes: Rows) -> None:
    across = np.flatnonzero(graph[edges[0]] != graph[edges[1]])
    if across.size:
        row = int(across[0])
        source, target = (nodes.ids[int(node)].as_py() for node in edges[:, row])
        raise DataError(
            f"{table.row(row)}: an edge must join nodes of one graph (got {show(source)} and "
            f"{show(target)}, which are of two); remove it, or correct the graph of the nodes"
        )


def _weights(table: Table, name: str | None, data: dict[str, Any]) -> Floats | None:
    """Return the weights, all of them there and none negative."""
    if name is None:
        return None
    empty = first(pc.is_null(data[name]))
    if empty is not None:
        raise DataError(
            f"{table.row(empty)}: column {show(name)} must hold the weight of the edge (got an "
            "empty cell); write a number, or remove the edge"
        )
    weight = numbers(table, name, data[name], "remove the edge")
    negative = np.flatnonzero(weight < 0)
    if negative.size:
        row = int(negative[0])
        raise DataError(
            f"{table.row(row)}: column {show(name)} must not be negative (got {weight[row]:g}); "
            "leave the edge out, or put the sign into the features"
        )
    return weight.astype(np.float32)


def _end(table: Table, given: str | None, candidates: tuple[str, ...], option: str) -> str:
    name = found(table, given, candidates, option)
    if name is None:
        raise DataError(
            f"{table.path}: a column must be the {option} of each edge, by default one of "
            f"{listed(candidates)} (got {listed(table.names)}); name it with --{option}"
            f"{delimiter_hint(table)}"
        )
    return name
