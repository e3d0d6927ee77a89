"""The arrays of one graph, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from mgnni.data.split import PARTS, Split
from mgnni.data.tables.graph_file import Floats, Integers
from mgnni.data.tables.messages import counted, listed
from mgnni.errors import DataError

# Some of x, edge_index, edge_weight, y, train_mask, val_mask, test_mask and num_nodes; adj_t holds
# the values of the matrix that edge_index was read from.
Arrays = Mapping[str, npt.NDArray[Any]]
NUMERIC = "fiub"


@dataclass(frozen=True, eq=False)
class ArrayGraph:
    """The arrays of one graph.

    Args:
        where (str): The graph, for messages.
        arrays (dict): Its arrays.
    """

    where: str
    arrays: Arrays

    @property
    def num_nodes(self) -> int:
        """Number of nodes, from the first array that tells it."""
        count = 0
        for key in ("x", "num_nodes", "train_mask", "y"):
            if key in self.arrays:
                array = self.arrays[key]
                count = int(array) if key == "num_nodes" else len(np.atleast_1d(array))
                break
        if count < 1:
            raise DataError(
                f"{self.where}: must hold nodes (got {listed(self.arrays)}, which give {count} "
                "nodes); add features x"
            )
        if (given := int(self.arrays.get("num_nodes", count))) != count:
            raise DataError(
                f"{self.where}: x must have one row per node, {given} (got {count}); correct "
                "num_nodes or x"
            )
        return count

    def edge_index(self) -> Integers:
        """Returns edge indices of shape ``(2, num_edges)``."""
        if "edge_index" not in self.arrays:
            raise DataError(
                f"{self.where}: must hold edges, as edge_index or edges (got "
                f"{listed(self.arrays)}); add them, with shape (2, 0) if there are none"
            )
        edges = self.arrays["edge_index"]
        if edges.ndim != 2 or edges.shape[0] != 2 or edges.dtype.kind not in "iu":
            raise DataError(
                f"{self.where}: edge_index must be integers of shape (2, edges), edges of shape "
                f"(edges, 2) (got {edges.dtype} of shape {edges.shape}); transpose or convert it"
            )
        wrong = np.flatnonzero(((edges < 0) | (edges >= self.num_nodes)).any(axis=0))
        if wrong.size:
            edge = int(wrong[0])
            raise DataError(
                f"{self.where}, edge {edge} (from 0): both ends must be nodes, 0 to "
                f"{self.num_nodes - 1} (got {edges[:, edge].tolist()}); add the node, or remove "
                "the edge"
            )
        return edges.astype(np.int64)

    @property
    def weighted(self) -> bool:
        """Whether edges have weights; a matrix of ones only tells where there are edges."""
        values = self.arrays.get("adj_t", np.ones(0))
        return "edge_weight" in self.arrays or bool((values != 1).any())

    def edge_weight(self, num_edges: int, others: str) -> Floats:
        """Returns edge weights of shape ``(num_edges,)``.

        Args:
            num_edges (int): Number of edges.
            others (str): What has weights, for messages.
        """
        given = self.arrays.get("edge_weight", self.arrays.get("adj_t"))
        if given is None and num_edges:
            raise DataError(
                f"{self.where}: there must be an edge_weight, one number per edge, as {others} "
                f"(got {listed(self.arrays)}); add it, or train without"
            )
        given = np.zeros(0) if given is None else given
        if given.size != num_edges or given.dtype.kind not in NUMERIC:
            raise DataError(
                f"{self.where}: edge_weight must hold one number per edge, {num_edges} (got "
                f"{given.size} of type {given.dtype}); complete or convert it"
            )
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
            weight = given.reshape(-1).astype(np.float32)
        wrong = np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))
        if wrong.size:
            edge = int(wrong[0])
            raise DataError(
                f"{self.where}, edge {edge} (from 0): edge_weight must be finite and not negative "
                f"(got {weight[edge]:g}); correct it, or remove the edge"
            )
        return weight

    def x(self) -> Floats:
        """Returns node features of shape ``(num_nodes, num_features)``."""
        x = self.arrays.get("x", np.zeros((self.num_nodes, 0)))
        x = x[:, None] if x.ndim == 1 else x
        if x.ndim != 2 or x.dtype.kind not in NUMERIC:
            raise DataError(
                f"{self.where}: features must be numbers of shape (nodes, features) (got "
                f"{x.dtype} of shape {x.shape}); convert them"
            )
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
            x = x.astype(np.float32)
        if not np.isfinite(x).all():
            node, column = (int(v[0]) for v in np.nonzero(~np.isfinite(x)))
            raise DataError(
                f"{self.where}, node {node} (from 0): features must be finite (got "
                f"{x[node, column]} for feature {column}); correct it"
            )
        return x

    def y(self, rows: int) -> npt.NDArray[Any]:
        """Returns labels of shape ``(rows,)`` or ``(rows, labels)``."""
        y = np.atleast_1d(self.arrays["y"])
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        fits = y.shape[0] == rows and y.ndim <= 2 and y.dtype.kind in f"{NUMERIC}U"
        if not fits or (y.dtype.kind == "f" and bool(np.isinf(y).any())):
            raise DataError(
                f"{self.where}: y must have {counted(rows, 'label')}, integers or text, or rows of "
                f"0 and 1 (got {y.dtype} of shape {y.shape}); convert it"
            )
        return y

    def splits(self) -> tuple[Split, ...]:
        """Returns the splits of masks of shape ``(num_nodes,)`` or ``(num_nodes, num_splits)``."""
        if "train_mask" not in self.arrays:
            return ()
        masks: list[npt.NDArray[np.bool_]] = []
        for part in PARTS:
            mask = self.arrays.get(f"{part}_mask", np.zeros_like(self.arrays["train_mask"]))
            columns = mask[:, None] if mask.ndim == 1 else mask
            expected = masks[0].shape if masks else (self.num_nodes, *columns.shape[1:2])
            if columns.ndim != 2 or columns.shape != expected or mask.dtype.kind not in NUMERIC:
                raise DataError(
                    f"{self.where}: masks must be booleans with one row per node, "
                    f"{self.num_nodes}, and one column per split (got {mask.dtype} of shape "
                    f"{mask.shape} for {part}_mask); correct it"
                )
            masks.append(columns.astype(bool))
        return tuple(
            Split.of(*(torch.from_numpy(mask[:, column]) for mask in masks))
            for column in range(masks[0].shape[1])
        )
