"""The stored graph of a benchmark, of files, of a synthetic graph, or one that was stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mgnni.data.tables.schema import TableOptions
from mgnni.disk.generate import OnProgress, generate_graph
from mgnni.disk.stored_graph import NAME, StoredGraph
from mgnni.errors import ArgumentError
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
        if (folder / NAME).exists():
            found = StoredGraph.open(folder)
            if (found.num_nodes, found.features) != (nodes, features):
                raise ArgumentError(
                    f"{folder} must hold the graph that was asked for, {nodes} nodes and "
                    f"{features} features (got {found.num_nodes} and {found.features}); choose "
                    "another output"
                )
            return found
        return generate_graph(folder, nodes, edges, features, seed=seed, on_progress=on_progress)
    source = find_source(data, options=options, tables=tables)
    if (folder / NAME).exists():
        found = StoredGraph.open(folder)
        if found.name != source.task.name:
            raise ArgumentError(
                f"{folder} must hold the graph {source.task.name} (got {found.name}); choose "
                "another output"
            )
        return found
    return store_task(source.task, folder, split)
