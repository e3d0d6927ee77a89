"""Random graphs of any size, written to files without ever being in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from mgnni.disk.stored_graph import NAME, TEST, TRAIN, VAL, StoredGraph, blocks
from mgnni.errors import check_int
from mgnni.graph.synthetic import random_rows

ROWS = 2**20  # rows of features that are drawn at a time
PARTS = (TRAIN, TRAIN, TRAIN, VAL, TEST)  # in turn: 60 %, 20 % and 20 % of the nodes

OnProgress = Callable[[str, float], None]


def generate_graph(
    folder: Path,
    num_nodes: int,
    num_edges: int,
    features: int = 32,
    classes: int = 8,
    seed: int = 0,
    origin: str = "",
    on_progress: OnProgress | None = None,
) -> StoredGraph:
    """Write a random undirected graph with symmetric normalisation and self-loops.

    The class of a node is the largest of its first features, which are random, after noise was
    added to them; so features say something about the class, and not everything.

    Args:
        folder (Path): The folder, which is created.
        num_nodes (int): Number of nodes.
        num_edges (int): Number of edges to draw, counted in both directions.
        features (int, optional): Number of features. (default: :obj:`32`)
        classes (int, optional): Number of classes, at most as many as features.
            (default: :obj:`8`)
        seed (int, optional): Random seed; the same seed gives the same files.
            (default: :obj:`0`)
        origin (str, optional): What is said of the origin of the graph. (default: :obj:`""`)
        on_progress (Callable, optional): Called with what is done and the fraction of it.
            (default: :obj:`None`)
    """
    check_int("features", features)
    classes = min(check_int("classes", classes), features)
    tell = on_progress or (lambda what, part: None)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).unlink(missing_ok=True)
    index = np.dtype(np.int32 if num_nodes < 2**31 else np.int64)
    crow = np.zeros(num_nodes + 1, dtype=np.int64)
    nnz = 0
    with (folder / "col.npy").open("wb") as file:
        head = _header(file, index, num_nodes + num_edges)
        for block in random_rows(num_nodes, num_edges, seed):
            last = block.first + block.lengths.numel()
            crow[block.first + 1 : last + 1] = nnz + block.lengths.cumsum(0).numpy()
            block.col.numpy().astype(index).tofile(file)
            nnz = int(crow[last])
            tell("edges", last / num_nodes)
        file.seek(0)
        if _header(file, index, nnz) != head:
            raise AssertionError("headers of NumPy files differ in length")
    np.save(folder / "crow.npy", crow)
    inverse = np.diff(crow) ** -0.5
    col = np.load(folder / "col.npy", mmap_mode="r")
    with (folder / "values.npy").open("wb") as file:
        _header(file, np.dtype(np.float32), nnz)
        for start, stop in blocks(num_nodes, ROWS):
            row = np.repeat(inverse[start:stop], np.diff(crow[start : stop + 1]))
            (row * inverse[col[crow[start] : crow[stop]]]).astype(np.float32).tofile(file)
            tell("entries", stop / num_nodes)
    _write_nodes(folder, num_nodes, features, classes, seed, tell)
    graph = StoredGraph(folder, num_nodes, nnz, features, classes, True, "sym", "synthetic", origin)
    graph.save()
    return graph


def _header(file: IO[bytes], dtype: np.dtype[Any], *shape: int) -> int:
    """Write the header of a NumPy file at its beginning; return its length."""
    fields = {"descr": dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.tell()


def _write_nodes(
    folder: Path, nodes: int, features: int, classes: int, seed: int, tell: OnProgress
) -> None:
    """Write features, labels and split."""
    with (
        (folder / "x.npy").open("wb") as x,
        (folder / "y.npy").open("wb") as y,
        (folder / "part.npy").open("wb") as part,
    ):
        _header(x, np.dtype(np.float32), nodes, features)
        _header(y, np.dtype(np.int64), nodes)
        _header(part, np.dtype(np.uint8), nodes)
        for number, (start, stop) in enumerate(blocks(nodes, ROWS)):
            generator = torch.Generator().manual_seed((seed << 32) + number)
            rows = torch.randn(stop - start, features, generator=generator)
            noise = 0.5 * torch.randn(stop - start, classes, generator=generator)
            rows.numpy().tofile(x)
            (rows[:, :classes] + noise).argmax(1).numpy().tofile(y)
            np.resize(np.array(PARTS, dtype=np.uint8), stop - start).tofile(part)
            tell("features", stop / nodes)
