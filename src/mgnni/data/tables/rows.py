"""The rows of a table of nodes or graphs, whose ids are checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mgnni.data.tables.ids import Index, Integers, check_ids
from mgnni.data.tables.roles import Roles
from mgnni.data.tables.table import Table
from mgnni.data.tables.wording import listed, show
from mgnni.errors import DataError


@dataclass(frozen=True, eq=False)
class Rows:
    """Cells of the columns that are used, and what they are used for."""

    table: Table
    roles: Roles
    cells: Mapping[str, Any]

    @property
    def ids(self) -> Any:
        """The id of each row."""
        return self.cells[self.roles.id]


def read_rows(table: Table, roles: Roles) -> Rows:
    """Read what the roles name; a table needs a row at least."""
    rows = Rows(table, roles, table.read(roles.names))
    if not len(rows.ids):
        raise DataError(f"{table.path}: must have rows (got a header only); add them")
    return rows


def graph_of_nodes(nodes: Rows, graphs: Rows) -> Integers:
    """Return the index of the graph of each node; every graph has a node."""
    check_ids(graphs.table, graphs.roles.id, graphs.ids)
    name = nodes.roles.graph or ""
    graph = Index(graphs.ids).find(nodes.cells[name])
    stray = np.flatnonzero(graph < 0)
    if stray.size:
        row = int(stray[0])
        raise DataError(
            f"{nodes.table.row(row)}: column {show(name)} must hold the id of a graph (got "
            f"{show(nodes.cells[name][row].as_py())}, which is not in {graphs.table.path.name}); "
            "add the graph, or remove the node"
        )
    count = np.bincount(graph, minlength=len(graphs.ids))
    empty = np.flatnonzero(count == 0)
    if empty.size:
        every = [graphs.ids[int(row)].as_py() for row in empty[:100]]
        raise DataError(
            f"{graphs.table.row(int(empty[0]))}: a graph must have a node (got none for "
            f"{listed(every)}); add nodes, or remove the graph"
        )
    return graph
