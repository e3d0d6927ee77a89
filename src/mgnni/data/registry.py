"""Loads datasets by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from mgnni.data.catalog import find_entry
from mgnni.data.chains import class_chains, color_chains
from mgnni.data.entry import Counts, Entry
from mgnni.data.graph_datasets import load_tu
from mgnni.data.lattice import lattice
from mgnni.data.node_datasets import (
    load_geom_gcn,
    load_heterophilous,
    load_planetoid,
    load_ppi,
    load_webkb_fixed,
    load_wikipedia_filtered,
    node_task,
)
from mgnni.data.storage import damaged, data_root
from mgnni.data.task import Task
from mgnni.errors import ArgumentError, check_choice

LOADERS: dict[str, Callable[..., Task]] = {
    "actor": load_geom_gcn,
    "heterophilous": load_heterophilous,
    "planetoid": load_planetoid,
    "ppi": load_ppi,
    "tu": load_tu,
    "webkb": load_geom_gcn,
    "webkb-fixed": load_webkb_fixed,
    "wikipedia": load_geom_gcn,
    "wikipedia-filtered": load_wikipedia_filtered,
}
MAKERS: dict[str, Callable[..., Data]] = {
    "chains": class_chains,
    "colors": color_chains,
    "lattice": lattice,
}


def load_task(name: str, *, root: Path | None = None, **options: Any) -> Task:
    """Loads a dataset as a task; it is downloaded if it is not on disk.

    Args:
        name (str): Name of the dataset, as listed by ``mgnni datasets``; case and underscores are
            ignored.
        root (Path, optional): Folder of all datasets. By default the value of the environment
            variable ``MGNNI_DATA``, or else ``~/.cache/mgnni``.
        **options: Options of the dataset, see :func:`options_of`. All datasets that are not
            generated have ``undirected``: if :obj:`True`, reverse edges are added.
    """
    entry = find_entry(name)
    for option in options:
        check_choice(f"{entry.name} option", option, options_of(entry))
    if entry.name in MAKERS:
        return node_task(entry, MAKERS[entry.name](**options))
    undirected = options.pop("undirected", None)
    if not (undirected is None or isinstance(undirected, bool)):
        raise ArgumentError(f"'undirected' must be True, False or None (got {undirected!r})")
    root = data_root(root)
    task = LOADERS[entry.family](entry, root, **options)
    _check_counts(entry, root, counts(task))
    return task.with_graphs([_undirected(graph) for graph in task.graphs]) if undirected else task


def options_of(entry: Entry) -> dict[str, Any]:
    """Returns the options of a dataset and their defaults."""
    function = MAKERS.get(entry.name) or LOADERS[entry.family]
    found = {
        option.name: option.default
        for option in inspect.signature(function).parameters.values()
        if option.default is not option.empty
    }
    return found if entry.name in MAKERS else {**found, "undirected": None}


def counts(task: Task) -> Counts:
    """Returns the size of a task."""
    return Counts(
        graphs=len(task.graphs),
        nodes=sum(int(graph.num_nodes) for graph in task.graphs),
        edges=sum(int(graph.num_edges) for graph in task.graphs),
        features=task.num_features,
        classes=len(task.classes),
        splits=len(task.splits),
    )


def _check_counts(entry: Entry, root: Path, found: Counts) -> None:
    """Checks the size: a file that is cut at the end of a line can still be read."""
    for what in ("graphs", "nodes", "edges", "classes"):
        expected, got = getattr(entry.counts, what), getattr(found, what)
        if expected not in (None, got):
            raise damaged(entry, root, f"expected {expected} {what}, got {got}")


def _undirected(graph: Data) -> Data:
    edge_index = to_undirected(graph.edge_index, num_nodes=graph.num_nodes)
    return Data(x=graph.x, edge_index=edge_index, num_nodes=graph.num_nodes)
