"""The graphs that a training was run on, read again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from mgnni.cli.arguments import UsageError
from mgnni.data.tables.graph_file import GraphFile
from mgnni.data.targets import is_labeled
from mgnni.data.task import Task
from mgnni.train.fitted import Fitted
from mgnni.train.report import fingerprint
from mgnni.train.source import find_source
from mgnni.train.trained_rows import task_of_training

MOVED = "restore it, or say with --data where it is now"


class Graphs(NamedTuple):
    """Graphs with a name, their rows, and what is known of their labels."""

    name: str
    graphs: Sequence[Data]
    labeled: Tensor | None  # labelled nodes; None if there are no labels per node
    ids: Any  # of the rows
    labels: Tensor | None  # class of each row, negative if not known; None for several labels
    node_ids: Any = None  # of the nodes of all graphs; None if nodes have no ids
    changed: bool = False  # whether files are not as they were in training
    warnings: tuple[str, ...] = ()  # how they differ in a way that is probably not meant


def trained_on(
    path: Path,
    options: dict[str, Any],
    fitted: Fitted,
    run: int | None = None,
    data: Path | None = None,
    *,
    same_size: bool = True,
) -> Graphs:
    """Return the graphs of a training, or others that are read like its files.

    A benchmark must have the same numbers as in training. If the content of files differs, the
    result says so.

    Args:
        path (Path): Folder of the training, or its ``model.pt``.
        options (dict[str, Any]): Options of the benchmark; none for a training on files.
        fitted (Fitted): The trained model.
        run (int, optional): The run whose training and validation labels are known; the best one
            if :obj:`None`. (default: :obj:`None`)
        data (Path, optional): Where its files are now; where they were if :obj:`None`.
            (default: :obj:`None`)
        same_size (bool, optional): Whether files must have as many nodes and edges as in training.
            (default: :obj:`True`)
    """
    folder = path if path.is_dir() else path.parent
    try:
        header = json.loads((folder / "config.json").read_text("utf-8"))
        stored, rule = header["data"], header["rule"]
        origin, sizes = stored["origin"], (stored["nodes"], stored["edges"])
        expected = stored["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{folder} must have the config.json of a training (got none that can be read); give "
            "the output folder of mgnni train"
        ) from None
    if fitted.schema is None:
        if data is not None:
            raise UsageError(
                f"--data is for a training on files (got one on the benchmark {origin}); leave it "
                "out"
            )
        task = find_source(origin, options=options, rule=rule).task
        split = fitted.runs[fitted.best if run is None else run].split
        if fingerprint(task) != expected:
            raise UsageError(
                f"{origin} is not what {folder} was trained on (its numbers differ); restore it, "
                "or repeat the --option of the training"
            )
        return of_task(task, split)
    if options:
        raise UsageError(
            f"--option is for a benchmark (got a training on the files {origin}); leave it out"
        )
    place = Path(origin) if data is None else data
    if not place.exists():
        raise UsageError(
            f"{place} must hold what {folder} was trained on (got no such file or folder); "
            f"{MOVED if data is None else 'check --data'}"
        )
    source = of_file(fitted.open(place))
    graph = joined(source.graphs)
    if same_size and (graph.num_nodes, graph.num_edges) != sizes:
        raise UsageError(
            f"{place} is not what {folder} was trained on, {sizes[0]:,} nodes and {sizes[1]:,} "
            f"edges (got {graph.num_nodes:,} and {graph.num_edges:,}); "
            f"{MOVED if data is None else 'give the data of the training'}"
        )
    return source._replace(changed=task_of_training(folder, header, fitted, place) is None)


def of_task(task: Task, split: int = 0) -> Graphs:
    """Return the graphs of a task, with the training and validation labels of a split."""
    labeled = labels = None
    if task.level == "node" and task.splits:
        labeled = torch.cat([task.rows(split, part) for part in ("train", "val", "test")])
    if task.splits and not task.multilabel and not task.regression:
        labels = torch.full((task.num_rows,), -1)
        for part in ("train", "val"):
            labels[task.rows(split, part)] = task.targets(split, part)
    return Graphs(task.name, task.graphs, labeled, range(task.num_rows), labels)


def of_file(file: GraphFile) -> Graphs:
    """Return the graphs of a file."""
    labeled = labels = None
    if file.labels is not None:
        known = is_labeled(file.labels)
        if file.level == "node":
            labeled = known.nonzero().squeeze(1)
        if file.labels.dim() == 1:
            labels = torch.where(known, file.labels, -1)
    return Graphs(
        file.name,
        file.graphs,
        labeled,
        file.ids,
        labels,
        file.node_ids,
        warnings=file.warnings,
    )


def joined(graphs: Sequence[Data]) -> Data:
    """Return the graphs as one."""
    return graphs[0] if len(graphs) == 1 else Batch.from_data_list(list(graphs))
