"""A graph in memory-mapped files: operator, features, labels and split.

A folder with these NumPy files is a stored graph:

==============  ====================================================================================
``crow.npy``    row pointers of the operator :math:`P`, shape ``(num_nodes + 1,)``, int64
``col.npy``     column of each entry, sorted within each row, int32 or int64
``values.npy``  the normalised entries, float32
``x.npy``       features, shape ``(num_nodes, features)``, float32
``y.npy``       class of each node, int64; optional
``part.npy``    uint8: 0 unlabelled, 1 training, 2 validation, 3 test; optional
``graph.json``  number of nodes, entries, features and classes, names of the classes if they have
                any, and whether P is symmetric
==============  ====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mgnni.errors import ArgumentError, DataError
from mgnni.files import read_object, write_object
from mgnni.graph.csr import csr
from mgnni.graph.propagation import Propagation

FORMAT = 1
NAME = "graph.json"
TRAIN, VAL, TEST = 1, 2, 3
ENTRIES = 2**24  # entries of the operator that are read at a time


@dataclass(frozen=True)
class StoredGraph:
    """A graph in a folder.

    Args:
        folder (Path): The folder.
        num_nodes (int): Number of nodes.
        nnz (int): Number of entries of the operator.
        features (int): Number of features.
        classes (int): Number of classes; zero without labels.
        symmetric (bool): Whether the operator is symmetric.
        normalization (str): The normalisation, ``"sym"`` or ``"dir"``, whose norm is at most one.
        name (str, optional): Name of the data. (default: :obj:`"graph"`)
        origin (str, optional): What it was made from, to recognise other data of the same name;
            empty if not known. (default: :obj:`""`)
        class_names (tuple[str, ...], optional): Names of the classes; empty if they have none.
            (default: :obj:`()`)
    """

    folder: Path
    num_nodes: int
    nnz: int
    features: int
    classes: int
    symmetric: bool
    normalization: str
    name: str = "graph"
    origin: str = ""
    class_names: tuple[str, ...] = ()

    @classmethod
    def open(cls, folder: Path) -> StoredGraph:
        """Open a stored graph, and check that its files have the sizes that it names."""
        data = read_object(folder / NAME, "give a folder that mgnni precompute has written")
        try:
            if data.pop("format") != FORMAT:
                raise ValueError("format")
            names = tuple(str(name) for name in data.pop("class_names", ()))
            graph = cls(folder, **data, class_names=names)
            if names and len(names) < graph.classes:
                raise ValueError("class_names")
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{folder / NAME}: must describe a stored graph of format {FORMAT} (got other "
                "fields); store the graph again"
            ) from error
        check_normalization(graph.normalization)
        shapes = {
            "crow": (graph.num_nodes + 1,),
            "col": (graph.nnz,),
            "values": (graph.nnz,),
            "x": (graph.num_nodes, graph.features),
        }
        for name in ("y", "part"):
            if (folder / f"{name}.npy").exists():
                shapes[name] = (graph.num_nodes,)
        for name, shape in shapes.items():
            if graph.array(name).shape != shape:
                raise DataError(
                    f"{folder / name}.npy: must have shape {shape} (got "
                    f"{graph.array(name).shape}); store the graph again"
                )
        return graph

    def identity(self) -> dict[str, Any]:
        """Return what distinguishes the graph from others, wherever it is, as plain data."""
        names = ("name", "origin", "num_nodes", "nnz", "features", "classes", "normalization")
        return {name: value for name, value in asdict(self).items() if name in names}

    def save(self) -> None:
        """Write the description, after all other files."""
        data = {"format": FORMAT, **asdict(self)}
        del data["folder"]
        write_object(self.folder / NAME, data)

    def array(self, name: str) -> NDArray[Any]:
        """Return one of the files, memory-mapped for reading."""
        path = self.folder / f"{name}.npy"
        try:
            found: NDArray[Any] = np.load(path, mmap_mode="r")
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be read ({error}); store the graph again") from error
        return found

    def rows_per_block(self) -> int:
        """Return how many rows have about :data:`ENTRIES` entries."""
        return max(1, int(ENTRIES * self.num_nodes / max(self.nnz, 1)))

    def block(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return some rows of the operator as a sparse CSR tensor, and their lengths.

        Args:
            start (int): The first row.
            stop (int): The row after the last.

        Shapes:
            - **output:** ``(stop - start, num_nodes)`` sparse, and ``(stop - start,)``
        """
        crow = torch.from_numpy(self.array("crow")[start : stop + 1].astype(np.int64))
        part = slice(int(crow[0]), int(crow[-1]))
        col = torch.from_numpy(np.array(self.array("col")[part]))
        values = torch.from_numpy(np.array(self.array("values")[part]))
        matrix = csr((crow - crow[0]).to(col.dtype), col, values, (stop - start, self.num_nodes))
        return matrix, crow.diff()


def store_graph(
    folder: Path,
    propagation: Propagation,
    x: Tensor,
    y: Tensor | None = None,
    part: Tensor | None = None,
    name: str = "graph",
    origin: str = "",
    class_names: Sequence[str] = (),
) -> StoredGraph:
    """Write a graph that is in memory.

    Args:
        folder (Path): The folder, which is created.
        propagation (Propagation): The operator, with normalisation ``"sym"`` or ``"dir"``.
        x (Tensor): Node features.
        y (Tensor, optional): Class of each node. (default: :obj:`None`)
        part (Tensor, optional): Part of each node, see :mod:`mgnni.disk.stored_graph`.
            (default: :obj:`None`)
        name (str, optional): Name of the data. (default: :obj:`"graph"`)
        origin (str, optional): What it was made from. (default: :obj:`""`)
        class_names (Sequence[str], optional): Names of the classes. (default: :obj:`()`)

    Shapes:
        - **x:** ``(num_nodes, features)``
        - **y, part:** ``(num_nodes,)``
    """
    check_normalization(propagation.normalization)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).unlink(missing_ok=True)
    pattern = propagation.pattern
    arrays = {
        "crow": pattern.crow.long(),
        "col": pattern.col,
        "values": propagation.values.detach().float(),
        "x": x.float(),
        "y": None if y is None else y.long(),
        "part": None if part is None else part.to(torch.uint8),
    }
    for key, value in arrays.items():
        if value is not None:
            np.save(folder / f"{key}.npy", value.cpu().numpy())
    classes = len(class_names) if class_names or y is None else int(y.max()) + 1
    graph = StoredGraph(
        folder,
        pattern.num_nodes,
        pattern.nnz,
        x.size(1),
        classes,
        propagation.symmetric,
        propagation.normalization,
        name,
        origin,
        tuple(class_names),
    )
    graph.save()
    return graph


def check_normalization(name: str) -> None:
    """Raise an error unless a normalisation has norm at most one in the Frobenius norm."""
    if name not in ("sym", "dir"):
        raise ArgumentError(
            f"'normalization' must be 'sym' or 'dir' (got {name!r}), because the error bound of "
            "stored terms needs ||P||_2 <= 1; use normalization='auto'"
        )


def blocks(count: int, size: int, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the first row and the row after the last of every block from ``start`` on."""
    for begin in range(start, count, size):
        yield begin, min(begin + size, count)
