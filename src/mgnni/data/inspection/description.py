"""A description of a task: its graph, features and classes, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mgnni.data.inspection.numbers import describe_targets
from mgnni.data.inspection.suspicious import id_columns, label_columns
from mgnni.data.inspection.twins import find_twins
from mgnni.data.split import PARTS
from mgnni.data.tables.schema import Column, Schema
from mgnni.data.task import Task

SHOWN = 12  # names of columns in a list
RARE = 0.2  # of the share that a class would have if all were equally frequent
KINDS = {"number": "numeric", "bool": "flag", "category": "one-hot"}


def describe_task(task: Task, schema: Schema | None = None, split: int = 0) -> dict[str, Any]:
    """Returns what a task consists of, without a look at test labels.

    Class shares and homophily are those of training and validation rows; columns that look like
    the label are found on training rows.

    Args:
        task (Task): The task, with splits.
        schema (Schema, optional): How its files were read; ``None`` for a benchmark.
            (default: :obj:`None`)
        split (int, optional): The split that is described. (default: :obj:`0`)

    Returns:
        dict: ``name``, ``level``, ``own`` (whether it was read from files or PyG objects),
        ``rows``, ``parts`` (labelled rows), ``graph``, ``degree``, ``features``, ``classes``,
        ``majority``, ``targets`` (of numbers to predict, which have no classes), ``homophily``,
        ``twins``, ``suspicious``, ``options`` and ``notes``.
    """
    x = torch.cat([graph.x for graph in task.graphs])
    named = () if schema is None else schema.columns
    columns = named or tuple(Column(str(place), "number") for place in range(x.size(1)))
    edges, size = _joined_edges(task)
    classes, majority = ([], None) if task.regression else describe_classes(task, split)
    options = None if schema is None else schema.options
    return {
        "name": task.name,
        "level": task.level,
        "own": schema is not None,
        "metric": task.metric,
        "multilabel": task.multilabel,
        "rows": task.num_rows,
        "split": split,
        "splits": len(task.splits),
        "parts": {part: task.rows(split, part).numel() for part in PARTS},
        "graph": _describe_edges(task, edges, size),
        "degree": {
            "in": _degrees(torch.bincount(edges[1], minlength=size)),
            "out": _degrees(torch.bincount(edges[0], minlength=size)),
        },
        "features": _describe_features(x, columns),
        "classes": classes,
        "majority": majority,
        "targets": describe_targets(task, split, edges) if task.regression else [],
        "homophily": _homophily(task, edges, split),
        "twins": find_twins(task, split),
        "suspicious": {
            "ids": id_columns(task, named),
            "labels": label_columns(task, split, columns),
        },
        "options": {
            "directed": None if options is None else options.directed,
            "standardize": options is not None and bool(options.standardize),
            "degree": options is not None and bool(options.degree),
            "class_weight": "none",  # of a training, which is not known here
            "model": None,  # of that training
            "head": None,  # of that model, if it has a choice of them
            "unweighted": None,  # the model of that training, if it ignores edge weights
            "ignored": [] if options is None else list(options.ignore),
            "split_columns": [] if options is None else list(options.split_column),
        },
        "notes": list(task.notes),
    }


def describe_classes(task: Task, split: int) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Returns the classes with their shares, and the most frequent one of the training rows.

    With several labels per row, a share is that of the rows with the label, and there is no most
    frequent one. A class is rare if its share is less than a fifth of that of equally frequent
    classes, a label if fewer than a tenth of the rows have it.

    Args:
        task (Task): The task.
        split (int): Index of the split. Test labels are not used.

    Returns:
        ``name``, ``train`` and ``val`` (numbers of rows), ``share`` and ``rare`` of each class;
        ``class`` and ``share`` of the majority.
    """
    counts = []
    for part in ("train", "val"):
        labels = task.targets(split, part)
        if task.multilabel:
            counts.append(labels.sum(0).long())
        else:
            counts.append(torch.bincount(labels, minlength=len(task.classes)))
    rows = sum(task.rows(split, part).numel() for part in ("train", "val"))
    rare = RARE / (2 if task.multilabel else max(len(task.classes), 2))
    classes = [
        {
            "name": name,
            "train": train,
            "val": val,
            "share": (train + val) / rows,
            "rare": (train + val) / rows < rare,
        }
        for name, train, val in zip(task.classes, *(one.tolist() for one in counts), strict=True)
    ]
    if task.multilabel:
        return classes, None
    most = int(counts[0].argmax())
    return classes, {"class": task.classes[most], "share": classes[most]["share"]}


def _joined_edges(task: Task) -> tuple[Tensor, int]:
    """Returns the edges of all graphs as those of one, and the number of nodes."""
    edges, size = [], 0
    for graph in task.graphs:
        edges.append(graph.edge_index.cpu() + size)
        size += int(graph.num_nodes)
    return torch.cat(edges, 1), size


def _describe_edges(task: Task, edges: Tensor, size: int) -> dict[str, Any]:
    loop = edges[0] == edges[1]
    source, target = edges[:, ~loop]
    pairs = source * size + target
    returned = int(torch.isin(target * size + source, pairs).sum())
    touched = torch.zeros(size, dtype=torch.bool)
    touched[source] = touched[target] = True
    return {
        "graphs": len(task.graphs),
        "nodes": size,
        "edges": edges.size(1),
        "weighted": task.graphs[0].edge_weight is not None,
        "self_loops": int(loop.sum()),
        "isolated": int((~touched).sum()),
        "reciprocal": returned / source.numel() if source.numel() else None,
    }


def _degrees(degree: Tensor) -> dict[str, Any]:
    """Returns a summary, and the number of nodes with degrees 0, 1, 2 to 3, 4 to 7, and so on."""
    bins = torch.where(degree > 0, degree.clamp(min=1).double().log2().floor() + 1, 0.0).long()
    return {
        "min": int(degree.min()),
        "median": float(degree.double().median()),
        "mean": float(degree.double().mean()),
        "max": int(degree.max()),
        "histogram": torch.bincount(bins).tolist(),
    }


def _describe_features(x: Tensor, columns: Sequence[Column]) -> dict[str, Any]:
    """Returns the features by kind; a number column of 0 and 1 only is a flag."""
    low, high = x.min(0).values, x.max(0).values
    binary = ((x == 0) | (x == 1)).all(0) & (low < high)
    kinds: Counter[str] = Counter()
    constant, deviations, start = [], [], 0
    for column in columns:
        width = len(column.feature_names)
        kind = KINDS.get(column.kind, column.kind)
        own = width - column.missing
        kinds["flag" if kind == "numeric" and bool(binary[start]) else kind] += own
        kinds["missing-value flag"] += int(column.missing)
        if column.kind == "number" and not bool(binary[start]):
            if bool(low[start] == high[start]):
                constant.append(column.name)
            else:
                deviations.append((float(x[:, start].double().std()), column.name))
        start += width
    deviations.sort()
    return {
        "count": x.size(1),
        "columns": len(columns),
        "kinds": {kind: count for kind, count in kinds.items() if count},
        "constant": len(constant),
        "first_constant": constant[:SHOWN],
        # Names and deviations of the numeric columns that vary least and most.
        "narrowest": [deviations[0][1], deviations[0][0]] if deviations else None,
        "widest": [deviations[-1][1], deviations[-1][0]] if deviations else None,
    }


def _homophily(task: Task, edges: Tensor, split: int) -> dict[str, Any] | None:
    r"""Returns how often an edge joins two nodes of one class.

    ``edge`` is the share of such edges, and ``adjusted`` the share beyond what the degrees of the
    classes lead to, :math:`(h - \sum_k p_k^2) / (1 - \sum_k p_k^2)` for shares :math:`p_k` of the
    ends of edges. Only edges between training and validation nodes count.
    """
    if task.level != "node" or task.multilabel or task.regression:
        return None
    labels = torch.full((task.num_rows,), -1)
    for part in ("train", "val"):
        labels[task.rows(split, part)] = task.targets(split, part)
    source, target = labels[edges]
    known = (source >= 0) & (target >= 0) & (edges[0] != edges[1])
    source, target = source[known], target[known]
    if not source.numel():
        return None
    same, count = source == target, len(task.classes)
    ends = torch.bincount(torch.cat([source, target]), minlength=count)
    inside = torch.bincount(torch.cat([source[same], target[same]]), minlength=count)
    edge, chance = float(same.double().mean()), float((ends / ends.sum()).double().square().sum())
    return {
        "edges": source.numel(),
        "edge": edge,
        "adjusted": (edge - chance) / (1 - chance) if chance < 1 else None,
        "by_class": [
            {"name": name, "ends": total, "share": here / total if total else None}
            for name, total, here in zip(task.classes, ends.tolist(), inside.tolist(), strict=True)
        ],
    }
