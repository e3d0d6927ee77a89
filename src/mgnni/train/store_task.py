"""A task as a stored graph, for training on stored terms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from mgnni.data.split import PARTS
from mgnni.data.task import Task, all_labels
from mgnni.disk.stored_graph import TEST, TRAIN, VAL, StoredGraph, store_graph
from mgnni.errors import ArgumentError
from mgnni.graph.propagation import Propagation

NUMBERS = dict(zip(("train", "val", "test"), (TRAIN, VAL, TEST), strict=True))


def store_task(
    task: Task, folder: Path, split: int = 0, origin: str = "", ids: Any = None
) -> StoredGraph:
    """Write the graph of a task, with the labels and the split.

    Args:
        task (Task): Nodes of one graph, with one label each.
        folder (Path): The folder.
        split (int, optional): The split. (default: :obj:`0`)
        origin (str, optional): Description of its source. (default: :obj:`""`)
        ids (pyarrow.ChunkedArray or range, optional): Ids of the nodes. (default: :obj:`None`)
    """
    if task.unit != "node" or task.multilabel or task.regression:
        raise ArgumentError(
            f"'data' must be one graph with one class per node (got {task.name}, with "
            f"{len(task.graphs)} graphs); train it as a whole instead"
        )
    if not 0 <= split < len(task.splits):
        raise ArgumentError(
            f"'split' must be from 0 to {len(task.splits) - 1} for {task.name} (got {split})"
        )
    graph = task.graphs[0]
    propagation = Propagation.from_edge_index(
        graph.edge_index, graph.num_nodes, graph.edge_weight, dtype=torch.float32
    )
    y = torch.full((task.num_rows,), -1)
    part = torch.zeros(task.num_rows, dtype=torch.uint8)
    for name in PARTS:
        rows = task.rows(split, name)
        part[rows] = NUMBERS[name]
        y[rows] = all_labels(task)[rows]  # written down, not trained on
    if ids is not None:  # before the graph, which is complete with its graph.json
        from mgnni.data.tables.row_ids import write_ids  # needs pyarrow, as the files did

        write_ids(folder, ids)
    return store_graph(folder, propagation, graph.x, y, part, task.name, origin, task.classes)
