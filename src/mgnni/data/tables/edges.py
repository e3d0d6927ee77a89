"""Ids of nodes and graphs as indices, and the edges of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mgnni.data.tables.columns import EdgeRoles, Rows
from mgnni.data.tables.graph_file import Floats, Integers
from mgnni.data.tables.messages import counted, flag, listed, show
from mgnni.data.tables.table import Cells, Table, pa, pc
from mgnni.data.tables.values import as_text, numbers
from mgnni.errors import DataError


class IdIndex:
    """Finds the position of an id.

    Args:
        ids (Cells): Unique ids.
        graph (numpy.ndarray, optional): The graph of each id, if ids are unique within a graph
            only.
    """

    def __init__(self, ids: Cells, graph: Integers | None = None) -> None:
        self.ids = ids
        self.distinct = pc.unique(_comparable(ids))
        self.keys = None if graph is None else pa.array(self._key(ids, graph))

    def find(self, wanted: Cells, graph: Integers | None = None) -> Integers:
        """Returns the position of each wanted id, -1 if there is no such id."""
        if self.keys is None:
            return _codes(wanted, self.distinct)  # the ids are unique, so codes are positions
        return _codes(pa.array(self._key(wanted, graph)), self.keys)

    def similar(self, wanted: object) -> str:
        """Returns a hint if an id differs from the wanted one only in spaces, zeros or ``.0``."""
        value = as_text(pa.array([wanted])).to_pylist()[0]
        ids = pc.unique(as_text(self.ids))
        same = pc.index(pc.utf8_trim_whitespace(ids), value.strip()).as_py()
        if same >= 0:
            return f"; {show(ids[same].as_py())} differs from it only in spaces: remove them"
        try:
            number = str(int(float(value)))
        except (ValueError, OverflowError):
            return ""
        whole = pc.replace_substring_regex(ids, r"\.0+$", "")
        same = pc.index(pc.utf8_ltrim(whole, characters="0"), number.lstrip("0")).as_py()
        if same < 0:
            return ""
        return f"; {show(ids[same].as_py())} is another id: write it the same in both tables"

    def _key(self, ids: Cells, graph: Integers | None) -> Integers:
        code = _codes(ids, self.distinct)
        return np.where(code < 0, -1, code + graph * np.int64(len(self.distinct)))


def check_ids(rows: Rows, graph: Integers | None = None) -> None:
    """Checks that ids are not empty and unique (within a graph, if ``graph`` is given)."""
    table, name, ids = rows.table, rows.roles.id, rows.ids
    rename = table.advice(", or name the id column with --id")
    remedy = f"give every row its own id, or delete empty rows{rename}"
    table.check(name, ids, pc.is_valid(ids), "hold an id", remedy)
    codes = _codes(ids, pc.unique(_comparable(ids)))
    if graph is not None:
        codes = codes + graph * (codes.max(initial=0) + 1)
    distinct, place = np.unique(codes, return_index=True)
    if len(distinct) < len(codes):
        again = int(np.setdiff1d(np.arange(len(codes)), place)[0])
        before = int(place[np.searchsorted(distinct, codes[again])])
        earlier = table.row(before).removeprefix(f"{table.path}, ")
        raise DataError(
            f"{table.row(again)}: ids in column {show(name)} must be unique (got "
            f"{show(ids[again].as_py())}, as in {earlier}); remove one of them{rename}"
        )


def restore_integers(ids: Cells) -> Cells:
    """Returns ids as integers if all of them are integers in their usual spelling."""
    if not pa.types.is_string(ids.type):
        return ids
    try:
        integers = pc.cast(ids, pa.int64())
    except pa.ArrowInvalid:
        return ids
    return integers if pc.all(pc.equal(pc.cast(integers, pa.string()), ids)).as_py() else ids


def graph_of_nodes(nodes: Rows, graphs: Rows) -> Integers:
    """Returns the index of the graph of each node, and checks that every graph has nodes."""
    check_ids(graphs)
    name = nodes.roles.graph or ""
    graph = _find_graphs(nodes.table, name, nodes.cells[name], graphs, "node")
    empty = np.flatnonzero(np.bincount(graph, minlength=len(graphs.ids)) == 0)
    if empty.size:
        every = [graphs.ids[int(row)].as_py() for row in empty[:100]]
        raise DataError(
            f"{graphs.table.row(int(empty[0]))}: a graph must have nodes (got none for "
            f"{listed(every)}); add nodes, or remove the graph"
        )
    return graph


def read_edges(
    table: Table,
    roles: EdgeRoles,
    nodes: Rows,
    graphs: Rows | None,
    graph: Integers | None,
) -> tuple[Integers, Floats | None]:
    """Reads edge indices of shape ``(2, num_edges)`` and edge weights.

    Args:
        table (Table): The edges.
        roles (EdgeRoles): The roles of its columns.
        nodes (Rows): The nodes.
        graphs (Rows, optional): The graphs, if graphs are classified.
        graph (numpy.ndarray, optional): The graph of each node then.
    """
    cells = table.read(roles.names)
    of_edge = None
    if graphs is not None and roles.graph is not None:
        of_edge = _find_graphs(table, roles.graph, cells[roles.graph], graphs, "edge")
    # If edges name their graph, node ids only need to be unique within a graph.
    within = None if of_edge is None else graph
    check_ids(nodes, within)
    index = IdIndex(nodes.ids, within)
    ends = (roles.source, roles.target)
    edges = np.stack(
        [_find_nodes(table, name, cells[name], index, of_edge, nodes) for name in ends]
    )
    if graph is not None:
        across = np.flatnonzero(graph[edges[0]] != graph[edges[1]])
        if across.size:
            row = int(across[0])
            source, target = (nodes.ids[int(node)].as_py() for node in edges[:, row])
            raise DataError(
                f"{table.row(row)}: an edge must join nodes of one graph (got {show(source)} and "
                f"{show(target)} of two graphs); remove it, or correct the graph of the nodes"
            )
    return edges, _weights(table, roles.weight, cells)


def _find_graphs(table: Table, name: str, cells: Cells, graphs: Rows, what: str) -> Integers:
    """Returns the index of the graph of each row of a table of nodes or edges."""
    graph = IdIndex(graphs.ids).find(cells)
    expected = f"hold the id of a graph in {graphs.table.path.name}"
    table.check(name, cells, graph >= 0, expected, f"add the graph, or remove the {what}")
    return graph


def _find_nodes(
    table: Table, name: str, cells: Cells, index: IdIndex, graph: Integers | None, nodes: Rows
) -> Integers:
    valid = pc.is_valid(cells)
    table.check(name, cells, valid, "hold the id of a node", "complete or remove the edge")
    position = index.find(cells, graph)
    wrong = np.flatnonzero(position < 0)
    if not wrong.size:
        return position
    row = int(wrong[0])
    value = cells[row].as_py()
    within = " of the edge's graph" if graph is not None else ""
    hint = index.similar(value)
    if not hint and 2 * wrong.size > len(cells):
        hint = _other_ids(nodes, cells)
    raise DataError(
        f"{table.row(row)}: column {show(name)} must hold the id of a node{within} (got "
        f"{show(value)}, which is no node; {counted(wrong.size, 'such edge')}); add the node, or "
        f"remove the edge{hint}"
    )


def _other_ids(nodes: Rows, wanted: Cells) -> str:
    """Returns a hint at the column with the ids, if another one contains most of the ends."""
    table, name = nodes.table, nodes.roles.id
    hint = f"; ids are read from column {show(name)} of {table.path.name}"
    try:
        columns = table.read(table.names)
    except DataError:  # a column of Parquet is no text and no number
        columns = {}
    found = {other: int((IdIndex(ids).find(wanted) >= 0).sum()) for other, ids in columns.items()}
    best = max(found, key=lambda other: found[other], default=name)
    if 2 * found.get(best, 0) <= len(wanted):
        return hint + table.advice("; name another with --id")
    return f"{hint}, but {show(best)} has most of them" + table.advice(
        f": pass {flag('id', best)}", ": the model was trained with the other"
    )


def _weights(table: Table, name: str | None, cells: Mapping[str, Any]) -> Floats | None:
    """Returns the weights, none of which may be missing or negative."""
    if name is None:
        return None
    column = cells[name]
    remedy = "write a number, or remove the edge"
    table.check(name, column, pc.is_valid(column), "hold the weight of the edge", remedy)
    weight = numbers(table, name, column, missing=False)
    remedy = table.advice(
        "remove the edge, encode the sign as a feature, or pass --weight none to use no weights",
        "remove the edge",
    )
    table.check(name, column, weight >= 0, "not be negative", remedy)
    return weight.astype(np.float32)


def _comparable(ids: Cells) -> Cells:
    """Returns integers as int64, and everything else as text."""
    if pa.types.is_integer(ids.type) and not pa.types.is_uint64(ids.type):
        return pc.cast(ids, pa.int64())
    return as_text(ids)


def _codes(wanted: Cells, distinct: Cells) -> Integers:
    wanted = _comparable(wanted)
    if wanted.type != distinct.type:
        wanted, distinct = as_text(wanted), as_text(distinct)
    codes = pc.fill_null(pc.index_in(wanted, value_set=distinct), -1)
    return np.asarray(codes.to_numpy(), dtype=np.int64)
