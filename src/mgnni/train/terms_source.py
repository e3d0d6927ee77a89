"""The stored graph of a benchmark, of files, of a synthetic graph, or one that was stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mgnni.data.tables.schema import TableOptions
from mgnni.disk.generate import OnProgress, generate_graph
from mgnni.disk.stored_graph import NAME, StoredGraph
from mgnni.errors import ArgumentError
from mgnni.train.report import fingerprint
from mgnni.train.source import find_source
from mgnni.train.store_task import store_task


def find_stored_graph(
    data: str,
    folder: Path,
    *,
    synthetic: tuple[int, int, int, int] | None = None,
    split: int = 0,
    options: dict[str, Any] | None = None,
    tables: TableOptions | None = None,
    on_progress: OnProgress | None = None,
) -> StoredGraph:
    """Return the stored graph of some data, which is written if necessary.

    Args:
        data (str): A benchmark, a path, or a folder with a stored graph.
        folder (Path): Where to write the graph. One that is there already is used, so that an
            interrupted computation can go on.
        synthetic (tuple, optional): Nodes, edges, features and seed of a random graph.
            (default: :obj:`None`)
        split (int, optional): The split. (default: :obj:`0`)
        options (dict[str, Any], optional): Options of the benchmark. (default: :obj:`None`)
        tables (TableOptions, optional): Roles of the columns of files. (default: :obj:`None`)
        on_progress (Callable, optional): Called with what is done and the fraction of it.
            (default: :obj:`None`)
    """
    if (Path(data) / NAME).is_file():
        return StoredGraph.open(Path(data))
    if synthetic is not None:
        nodes, edges, features, seed = synthetic
        origin = f"{nodes} nodes, {edges} edges, {features} features, seed {seed}"
        if (folder / NAME).exists():
            return _checked(StoredGraph.open(folder), "synthetic", origin)
        return generate_graph(
            folder, nodes, edges, features, seed=seed, origin=origin, on_progress=on_progress
        )
    source = find_source(data, options=options, tables=tables)
    task = source.task
    origin = f"data {fingerprint(task)}, split {split}"
    if (folder / NAME).exists():
        return _checked(StoredGraph.open(folder), task.name, origin)
    return store_task(task, folder, split, origin, source.ids)


def _checked(found: StoredGraph, name: str, origin: str) -> StoredGraph:
    """Return a stored graph if it is the one that was asked for."""
    if (found.name, found.origin) != (name, origin):
        raise ArgumentError(
            f"{found.folder} must hold the graph that was asked for, {name} ({origin}), to go on "
            f"with it (got {found.name}, {found.origin or 'without an origin'}); choose "
            "another output, or delete this one"
        )
    return found
