"""Graphs that come as arrays, of a .npz or of PyG objects, checked and made alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mgnni.data.split import PARTS, Split
from mgnni.data.tables.answers import array_labels
from mgnni.data.tables.assemble import graphs_of
from mgnni.data.tables.classes import check_split, known_rows, training_nodes
from mgnni.data.tables.direction import Floats, Integers, directed_edges
from mgnni.data.tables.graphfile import GraphFile
from mgnni.data.tables.options import TableOptions
from mgnni.data.tables.schema import Column, Schema
from mgnni.data.tables.wording import counted, listed
from mgnni.errors import ArgumentError, DataError

# One graph: x, edge_index, edge_weight, y, train_mask, val_mask, test_mask, num_nodes; most of
# them may be missing.
Arrays = Mapping[str, npt.NDArray[Any]]
MEANT_FOR_ARRAYS = ("directed", "degree", "standardize", "allow_unseen")


def from_arrays(
    where: str,
    name: str,
    graphs: Sequence[Arrays],
    options: TableOptions,
    schema: Schema | None,
    *,
    several: bool,
) -> GraphFile:
    """Make a graph file of arrays.

    Args:
        where: the file, for messages.
        name: of the result.
        graphs: what each graph holds.
        options: as for tables; those that name columns have no meaning here.
        schema: how the file of training was read, to read another one for prediction.
        several: whether it is a list of graphs, even if of one.
    """
    wrong = [given for given in options.given() if given not in MEANT_FOR_ARRAYS]
    if wrong and schema is None:
        raise ArgumentError(
            f"'options' may give {list(MEANT_FOR_ARRAYS)} for arrays (got {wrong}); other options "
            "name columns of tables, so rename the arrays instead"
        )
    if not graphs:
        raise DataError(f"{where}: must hold a graph (got an empty list); add one")
    places = [f"{where}, graph {i} (from 0)" if several else where for i in range(len(graphs))]
    sizes = [_num_nodes(place, arrays) for place, arrays in zip(places, graphs, strict=True)]
    start = np.cumsum([0, *sizes])
    num_nodes = int(start[-1])
    level = _level(where, graphs, sizes, schema, several)

    index = [_edge_index(p, a, n) for p, a, n in zip(places, graphs, sizes, strict=True)]
    edges = np.concatenate([own + first for own, first in zip(index, start, strict=False)], axis=1)
    weight = _weights(places, graphs, index, schema)
    edges, weight, directed, notes = directed_edges(
        edges, weight, num_nodes, options.directed, where, lambda node: node
    )
    notes = [f"{counted(num_nodes, 'node')}, {counted(edges.shape[1], 'edge')}", *notes]
    if any("edge_attr" in arrays for arrays in graphs):
        notes.append("edge_attr is not used; weights are taken from edge_weight")

    known = None if schema is None else schema.classes
    rows = sizes if level == "node" else [1] * len(graphs)
    labels, classes, label_notes = array_labels(places, graphs, rows, known)
    if schema and labels is not None and not bool(known_rows(labels).any()):
        labels = None
    splits = () if several or schema is not None else _splits(where, graphs[0], num_nodes)
    for number, split in enumerate(splits):
        if labels is not None:
            place = f"{where}, split {number} (from 0)"
            check_split(place, split, labels, classes, options.allow_unseen)

    degree = np.bincount(edges[1], minlength=num_nodes).astype(np.float32)[:, None]
    raw = _x(places, graphs)
    columns = schema.columns if schema else _columns(raw.shape[1], options)
    x = _features(where, raw, degree, columns)
    if schema is None:
        if options.standardize:
            train = training_nodes(splits, None, num_nodes)
            columns = tuple(
                column if column.kind == "constant" else column.standardized(x[train, i])
                for i, column in enumerate(columns)
            )
        resolved = replace(options, delimiter=None)
        several_labels = labels is not None and labels.dim() == 2
        schema = Schema(level, classes, several_labels, columns, weight is not None, resolved)
    if columns[0].kind == "constant":
        notes.append("no features: the constant 1 instead; --degree gives the degree")
    mean = np.array([column.mean for column in columns])
    deviation = np.array([column.deviation for column in columns])
    if mean.any() or (deviation != 1).any():
        x = ((x - mean) / deviation).astype(np.float32)
    owner = np.repeat(np.arange(len(graphs)), sizes) if several else None
    return GraphFile(
        name=name,
        graphs=graphs_of(x, edges, weight, owner, len(graphs)),
        labels=labels,
        ids=range(num_nodes if level == "node" else len(graphs)),
        level=level,
        splits=splits,
        classes=schema.classes,
        directed=directed,
        schema=schema,
        notes=tuple([*notes, *label_notes]),
    )


def _num_nodes(where: str, arrays: Arrays) -> int:
    for key in ("x", "num_nodes", "train_mask", "y"):
        if key in arrays and arrays[key].size:
            own = arrays[key]
            return int(own) if key == "num_nodes" else int(own.shape[0]) if own.ndim else 1
    raise DataError(
        f"{where}: must hold nodes (got {listed(arrays)}, which does not tell how many there "
        "are); add features x"
    )


def _level(
    where: str,
    graphs: Sequence[Arrays],
    sizes: Sequence[int],
    schema: Schema | None,
    several: bool,
) -> str:
    """Tell from the number of labels whether nodes or graphs have them."""
    if schema is not None:
        if schema.level == "graph" and not several:
            raise DataError(
                f"{where}: graphs are to be classified, as in training (got a single graph, not "
                "in a list); give a list of graphs"
            )
        return schema.level
    if not several:
        return "node"
    counts = [a["y"].shape[0] if "y" in a and a["y"].ndim else 1 for a in graphs]
    if all(count == 1 for count in counts):
        return "graph"
    if counts == list(sizes):
        return "node"
    odd = next(i for i, count in enumerate(counts) if count not in (1, sizes[i]))
    raise DataError(
        f"{where}, graph {odd} (from 0): y must have one label for the graph or one a node (got "
        f"{counts[odd]} for {counted(sizes[odd], 'node')}); make all graphs alike"
    )


def _edge_index(where: str, arrays: Arrays, num_nodes: int) -> Integers:
    if "edge_index" not in arrays:
        raise DataError(
            f"{where}: must hold edges, as edge_index or edges (got {listed(arrays)}); add them, "
            "with shape (2, 0) if there are none"
        )
    edges = arrays["edge_index"]
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
        raise DataError(
            f"{where}: edge_index must be integers of shape (2, edges), edges of shape (edges, 2) "
            f"(got {edges.dtype} of shape {edges.shape}); transpose or convert it"
        )
    wrong = np.flatnonzero(((edges < 0) | (edges >= num_nodes)).any(axis=0))
    if wrong.size:
        edge = int(wrong[0])
        raise DataError(
            f"{where}, edge {edge} (from 0): ends must be nodes, 0 to {num_nodes - 1} (got "
            f"{edges[:, edge].tolist()}); add the node, or remove the edge"
        )
    return edges.astype(np.int64)


def _weights(
    places: Sequence[str],
    graphs: Sequence[Arrays],
    index: Sequence[Integers],
    schema: Schema | None,
) -> Floats | None:
    has = ["edge_weight" in arrays for arrays in graphs]
    if schema is not None and not schema.weighted:
        return None
    if not any(has) and schema is None:
        return None
    weights = []
    for where, arrays, edges in zip(places, graphs, index, strict=True):
        given = arrays.get("edge_weight", np.zeros(0))
        weight = given.reshape(-1).astype(np.float32)
        if "edge_weight" not in arrays or weight.size != edges.shape[1]:
            raise DataError(
                f"{where}: edge_weight must have one weight an edge, {edges.shape[1]} (got "
                f"{weight.size}); complete it"
            )
        wrong = np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))
        if wrong.size:
            edge = int(wrong[0])
            raise DataError(
                f"{where}, edge {edge} (from 0): edge_weight must be finite and not negative (got "
                f"{weight[edge]:g}); correct it, or leave the edge out"
            )
        weights.append(weight)
    return np.concatenate(weights)


def _splits(where: str, arrays: Arrays, num_nodes: int) -> tuple[Split, ...]:
    """Return the splits of masks of shape (nodes,) or (nodes, splits)."""
    if "train_mask" not in arrays:
        return ()
    masks = {}
    for part in PARTS:
        mask = arrays.get(f"{part}_mask", np.zeros_like(arrays["train_mask"]))
        mask = mask[:, None] if mask.ndim == 1 else mask
        masks[part] = mask
        if mask.shape != masks["train"].shape or mask.shape[0] != num_nodes:
            raise DataError(
                f"{where}: masks must have one row a node, {num_nodes}, and one column a split "
                f"(got shape {mask.shape} for {part}); make all alike"
            )
    return tuple(
        Split.of(*(torch.from_numpy(masks[part][:, s].astype(bool)) for part in PARTS))
        for s in range(masks["train"].shape[1])
    )


def _x(places: Sequence[str], graphs: Sequence[Arrays]) -> Floats:
    parts: list[Floats] = []
    for where, arrays in zip(places, graphs, strict=True):
        x = arrays.get("x", np.zeros((_num_nodes(where, arrays), 0)))
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or x.dtype.kind not in "fiub" or (parts and x.shape[1] != parts[0].shape[1]):
            raise DataError(
                f"{where}: features must be numbers of shape (nodes, features), with as many "
                f"features in every graph (got {x.dtype} of shape {x.shape}); convert them"
            )
        with np.errstate(over="ignore"):  # too large becomes infinite, and is refused as such
            x = x.astype(np.float32)
        if not np.isfinite(x).all():
            node, column = (int(v[0]) for v in np.nonzero(~np.isfinite(x)))
            raise DataError(
                f"{where}, node {node} (from 0): features must be finite (got {x[node, column]} "
                f"for feature {column}); correct it"
            )
        parts.append(x)
    return np.concatenate(parts)


def _columns(width: int, options: TableOptions) -> tuple[Column, ...]:
    columns = [Column(f"x_{i}", "number") for i in range(width)]
    if options.degree:
        columns.append(Column("degree", "degree"))
    return tuple(columns) or (Column("constant", "constant"),)


def _features(where: str, x: Floats, degree: Floats, columns: Sequence[Column]) -> Floats:
    own = [column.name for column in columns if column.kind not in ("degree", "constant")]
    if own != [f"x_{i}" for i in range(x.shape[1])]:
        raise DataError(
            f"{where}: features must be those of training, {counted(len(own), 'column')} (got "
            f"{x.shape[1]}: x_0, x_1 and so on); in training they were {listed(own)}"
        )
    more = {"degree": degree, "constant": np.ones_like(degree)}
    return np.concatenate([x, *(more[c.kind] for c in columns if c.kind in more)], axis=1)
